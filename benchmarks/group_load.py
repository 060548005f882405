"""A source that lives: plain and transactional producers, and consumer groups that go on, all at once and at random.

Records are numbered; what was written is read from the log afterwards and never inferred from what a producer was told,
so that producers may fail and begin again while brokers restart.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Final, Self

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from benchmarks.group_reading import CALL_S, PARTITIONS, PATIENCE_S, end_offsets
from deploy.local import LocalCluster

GROUPS: Final = 20
TRANSACTIONAL: Final = 2
ABORTED_SHARE: Final = 0.25
COMMIT_S: Final = 5.0

# group → partition → offset
Positions = Mapping[str, Mapping[int, int]]


class GroupLoad:
    """Writes about `rate` records a second to `topic` from `with` to its end; `seed` decides everything that is random."""

    def __init__(self, source: LocalCluster, topic: str, *, rate: float, seed: int) -> None:
        self._source = source
        self._topic = topic
        self._rate = rate
        self._seed = seed
        self._numbers = itertools.count()
        self._over = threading.Event()
        self._moving = threading.Event()
        self._turn = threading.Lock()
        self._admin = AdminClient(source.librdkafka())
        self._random = random.Random(seed)
        self._positions: dict[str, dict[int, int]] = {
            f"group-{n}": dict.fromkeys(range(PARTITIONS), 0) for n in range(GROUPS)
        }
        jobs = [("plain", self._write_plainly), ("groups", self._move_groups)]
        jobs += [(f"txn-{n}", self._write_transactions) for n in range(TRANSACTIONAL)]
        self._threads = [threading.Thread(target=job, args=(name,), name=name, daemon=True) for name, job in jobs]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        self.go_on()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends all of it; every transaction that was begun is ended."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    @property
    def groups(self) -> list[str]:
        """Their names."""
        return list(self._positions)

    def go_on(self) -> None:
        """Groups move from now on."""
        self._moving.set()

    def settle(self) -> Positions:
        """Each group goes to a random place between where it is and the end, in every partition, and stays there.

        Records are written all the while. A place may be a transaction's marker or an aborted record, as for consumers.
        """
        self._moving.clear()
        with self._turn:
            ends = end_offsets(self._source, self._topic)
            for group, positions in self._positions.items():
                self._commit(group, {p: self._random.randint(at, max(at, ends[p])) for p, at in positions.items()})
            return {group: dict(positions) for group, positions in self._positions.items()}

    # Threads.

    def _write_plainly(self, name: str) -> None:
        dice = random.Random(f"{self._seed} {name}")
        settings = {**self._source.librdkafka(), "enable.idempotence": True, "linger.ms": 2}
        producer = Producer(settings)
        while not self._over.is_set():
            burst = dice.randint(1, 60)
            try:
                for partition in dice.choices(range(PARTITIONS), k=burst):
                    producer.produce(self._topic, b"%d" % next(self._numbers), partition=partition)
            except (KafkaException, BufferError):
                # The broker is away for longer than this one can bear.
                producer = Producer(settings)
            producer.poll(0)
            self._pause(burst, dice)
        producer.flush(CALL_S)

    def _write_transactions(self, name: str) -> None:
        dice = random.Random(f"{self._seed} {name}")
        producer: Producer | None = None
        while not self._over.is_set():
            try:
                producer = producer or self._transactional(name)
                self._transaction(producer, dice)
            except (KafkaException, BufferError):
                # The broker is away. Another producer of this id aborts what this one has left open.
                producer = None
                self._over.wait(0.5)
        if producer is None:
            self._transactional(name)

    def _transactional(self, name: str) -> Producer:
        settings = {"transactional.id": name, "transaction.timeout.ms": 20_000, "linger.ms": 2}
        producer = Producer({**self._source.librdkafka(), **settings})
        producer.init_transactions(CALL_S)
        return producer

    def _transaction(self, producer: Producer, dice: random.Random) -> None:
        producer.begin_transaction()
        size = dice.randint(1, 40)
        few = dice.sample(range(PARTITIONS), dice.randint(1, 4))
        for part in range(2):
            # In two parts, between which other producers write: records of an open transaction lie among finished ones.
            for _ in range(size):
                producer.produce(self._topic, b"%d" % next(self._numbers), partition=dice.choice(few))
            producer.flush(CALL_S)
            if not part:
                self._pause(size, dice)
        if dice.random() < ABORTED_SHARE:
            producer.abort_transaction(CALL_S)
        else:
            producer.commit_transaction(CALL_S)
        self._pause(size, dice)

    def _pause(self, records: int, dice: random.Random) -> None:
        self._over.wait(dice.uniform(0.5, 1.5) * records * (TRANSACTIONAL + 1) / self._rate)

    def _move_groups(self, name: str) -> None:
        dice = random.Random(f"{self._seed} {name}")
        while not self._over.wait(0.05):
            if not self._moving.is_set():
                continue
            with self._turn, contextlib.suppress(KafkaException, TimeoutError, RuntimeError):
                group = dice.choice(self.groups)
                ends = end_offsets(self._source, self._topic)
                few = dice.sample(range(PARTITIONS), 4)
                now = self._positions[group]
                self._commit(group, {p: min(ends[p], now[p] + dice.randint(0, 12)) for p in few if ends[p] > now[p]})

    def _commit(self, group: str, positions: Mapping[int, int]) -> None:
        """Until it is taken: a group is in no state that refuses, but its coordinator may be loading."""
        if not positions:
            return
        places = [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]
        until = time.monotonic() + PATIENCE_S
        while True:
            asked = [ConsumerGroupTopicPartitions(group, places)]
            try:
                (future,) = self._admin.alter_consumer_group_offsets(asked, request_timeout=COMMIT_S).values()
                if not any(each.error for each in future.result(2 * COMMIT_S).topic_partitions):
                    self._positions[group].update(positions)
                    return
            except (KafkaException, TimeoutError):
                # A client that has lost a coordinator may wait for its answer for ever.
                self._admin = AdminClient(self._source.librdkafka())
            if self._over.is_set() or time.monotonic() > until:
                raise RuntimeError(f"{group} can't commit at the source within {PATIENCE_S:g} s")
            time.sleep(0.1)
