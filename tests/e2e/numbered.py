"""Numbered records: a producer that writes without a pause, and what of it arrived, in what order, how often."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from deploy.local import LocalCluster
from tests.brokers import flushed
from tests.waiting import PATIENCE_S, WaitTimedOut

PADDING: Final = b"x" * 100
BURST_S: Final = 0.01


class Writer:
    """Writes 0, 1, 2 … to each partition of a topic, `rate` records a second in all, from `with` to its end.

    After the end `counts` says how many numbers each partition has; every one of them is acknowledged by the source.
    """

    def __init__(self, source: LocalCluster, topic: str, partitions: int, rate: int) -> None:
        self.counts = dict.fromkeys(range(partitions), 0)
        self.rate = rate
        self._topic = topic
        settings = {
            **source.librdkafka(),
            "linger.ms": 5,
            "enable.idempotence": True,  # a source that restarts must not make duplicates of its own
            "delivery.timeout.ms": 120_000,
        }
        self._producer = Producer(settings)
        self._failures: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, name="writer", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        flushed(self._producer)
        assert not self._failures, self._failures[:3]

    def _write(self) -> None:
        started, written = time.monotonic(), 0
        while not self._stop.wait(BURST_S):
            due = int((time.monotonic() - started) * self.rate)
            for number in range(written, due):
                partition = number % len(self.counts)
                value = b"%d %s" % (self.counts[partition], PADDING)
                while True:
                    try:
                        self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                        break
                    except BufferError:  # the source is away
                        self._producer.poll(0.1)
                self.counts[partition] += 1
            written = due
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._failures.append(error.str())


@dataclass(frozen=True)
class Arrived:
    """What a target partition holds of the numbers: `first_seen` in order of first appearance, and the repeats.

    `jumps`: where the copier went back: the offset of what came again, as it lay there the first time, and the last offset
    before it came again.
    """

    first_seen: list[int]
    repeats: Counter[int]
    jumps: list[tuple[int, int]]

    @property
    def repeated(self) -> int:
        """How many records are there once more than needed."""
        return sum(self.repeats.values())


def read(target: LocalCluster, topic: str, ends: Mapping[int, int]) -> dict[int, Arrived]:
    """All records of a topic below the end offsets given."""
    settings = {**target.librdkafka(), "group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
    found = {partition: Arrived([], Counter(), []) for partition in ends}
    seen: dict[int, dict[int, int]] = {partition: {} for partition in ends}
    last = dict.fromkeys(ends, -1)
    open_partitions = {partition for partition, end in ends.items() if end > 0}
    until = time.monotonic() + PATIENCE_S
    try:
        while open_partitions:
            if time.monotonic() > until:  # there is so much of it, by its end offsets
                raise WaitTimedOut(f"not within {PATIENCE_S:g} s: {topic} is read to {dict(ends)}")
            for message in consumer.consume(1000, 1.0):
                error = message.error()
                partition = message.partition()
                assert partition is not None
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error.str()
                else:
                    number, offset = int((message.value() or b"").split(b" ", 1)[0]), message.offset() or 0
                    if number in seen[partition]:
                        found[partition].repeats[number] += 1
                        if number <= last[partition]:
                            found[partition].jumps.append((seen[partition][number], offset - 1))
                    else:
                        seen[partition][number] = offset
                        found[partition].first_seen.append(number)
                    last[partition] = number
                if (message.offset() or 0) >= ends[partition] - 1:
                    open_partitions.discard(partition)
    finally:
        consumer.close()
    return found
