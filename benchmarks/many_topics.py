"""A link of thousands of topics and hundreds of groups: how long its rounds take, and whether copying notices them.

Everything is seen from outside, so that both sides are measured alike: a refresh by when a topic that is new at the source
is there on the target, a round of checkpoints by when the last of them is written after every group has gone on.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from benchmarks.broker_socket import BrokerSocket
from benchmarks.compaction import alter_configs
from benchmarks.console import Console
from benchmarks.figures import median
from benchmarks.latency_probe import AFTER_LAST_S, Load, Receiver, send
from benchmarks.many_topics_figures import Copying, GaveUp, ManyTopics
from benchmarks.memory_peaks import MemoryPeaks
from benchmarks.pairing import lateness, pairs
from benchmarks.plan import LATENCY_RECORD_BYTES, MANY_GROUPS, MANY_PARTITIONS, MANY_RATE, Durations
from benchmarks.rig import VERSION, Rig
from benchmarks.sides import LABELS, MM2, OURS, Side, connector_config, open_side
from deploy.local import LocalCluster
from deploy.local.watchdog import watchdog
from mirror_connect.connectors.partitions import CommittedOffset, TopicPartition
from mirror_connect.connectors.rights import TARGET_USER
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.consumer_groups import ConsumerGroups
from mirror_connect.kafka_io.admin.topic_admin import NewRemote, create_topics
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.protocol.log_offsets import LATEST, ListOffsets

# A broker sets 10 MB aside for each of two index files of a partition: address space, mostly, but 240 GB of it.
BROKER: Final = {"log.index.size.max.bytes": "65536"}
MEMORY: Final = "/dev/shm"
CHECKPOINT: Final = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
EACH_SECOND: Final = {"refresh.topics.interval.seconds": "1", "sync.topic.configs.interval.seconds": "1"}
GROUPS_EACH_SECOND: Final = {
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
}
BEFORE: Final = "before"
CREATING: Final = "while remote topics are created"
KAFKAS_INTERVALS: Final = "with Kafka's intervals"
EACH_SECOND_ROUNDS: Final = "with all rounds each second"
RECORDS: Final = 20
TOPICS_OF_A_GROUP: Final = 10
PATIENCE_S: Final = 400.0
QUIET_S: Final = 5.0
ROUNDS: Final = 3
# Taken before everything else is there, and with all of it.
BUSY, MANY_BUSY = "busy", "many-busy"
BUSY_PARTITIONS: Final = 4


def measure(durations: Durations, console: Console, sides: Sequence[str] = (MM2, OURS)) -> list[dict[str, Any]]:
    """Every side between brokers of its own."""
    found = []
    # Ours first: the other side may not get through.
    for topics in durations.many_topics:
        for name in sorted(sides, key=lambda name: name != OURS):
            found.append(_side(name, topics, durations, console).figures())
    return found


def _side(name: str, topics: int, durations: Durations, console: Console) -> ManyTopics | GaveUp:
    with _in_memory() as directory, Rig(BROKER, directory) as rig:
        stage = _Stage(rig, name, topics, durations, console)
        stage.fill()
        with open_side(name, rig.target) as side:
            try:
                return stage.run(side)
            except RuntimeError as error:
                if name == OURS:
                    raise
                return stage.gave_up(str(error), side.last_words())


@contextmanager
def _in_memory() -> Iterator[Path | None]:
    """A place for the brokers' files: a disk would be asked to sync several times for each of 12,000 partitions."""
    if not os.access(MEMORY, os.W_OK):
        yield None
        return
    directory = tempfile.mkdtemp(prefix="mirror-connect-benchmark-", dir=MEMORY)
    watchdog().guard_directory(directory)
    try:
        yield Path(directory)
    finally:
        shutil.rmtree(directory, ignore_errors=True)
        watchdog().forget_directory(directory)


class _Stage:
    """The source's topics, groups and records, and the steps of one side."""

    def __init__(self, rig: Rig, name: str, topics: int, durations: Durations, console: Console) -> None:
        self._rig = rig
        self._name = name
        self._durations = durations
        self._say: Callable[[str], None] = console.say
        self._topics = [f"many-{number:05}" for number in range(topics)]
        self._groups = [f"group-{number:03}" for number in range(MANY_GROUPS)]
        self._source = _admin(rig.source)
        self._copying: list[Copying] = []

    # Before.

    def fill(self) -> None:
        """Everything on the source but the busy topics' records."""
        began = time.monotonic()
        for busy in (BUSY, MANY_BUSY):
            self._rig.create_source_topic(busy, BUSY_PARTITIONS)
        wanted = {topic: NewRemote(MANY_PARTITIONS, 1, {"retention.ms": "604800000"}) for topic in self._topics}
        if refused := create_topics(self._source, wanted):
            raise RuntimeError(str(next(iter(refused.values()))))
        producer = Producer(
            {**self._rig.source.librdkafka(), "linger.ms": 50, "queue.buffering.max.messages": 1_000_000}
        )
        for topic in self._topics:
            for partition in range(MANY_PARTITIONS):
                for _ in range(RECORDS):
                    producer.produce(topic, b"x" * 100, partition=partition)
            producer.poll(0)
        if producer.flush(PATIENCE_S):
            raise RuntimeError("the source did not take all records")
        self._commit(1)
        self._say(
            f"{len(self._topics):,} topics and {len(self._groups)} groups are there after {time.monotonic() - began:.0f} s"
        )

    def _commit(self, offset: int) -> None:
        """Every group goes to that offset in all of its partitions."""
        asyncio.run(self._commit_all(offset))

    async def _commit_all(self, offset: int) -> None:
        cluster = Cluster(self._rig.source.client_properties(), "many-groups")
        try:
            await cluster.connect()
            groups = ConsumerGroups(cluster, TARGET_USER)
            await asyncio.gather(
                *(
                    groups.write(group, {place: CommittedOffset(offset) for place in self._places(number)})
                    for number, group in enumerate(self._groups)
                )
            )
        finally:
            await cluster.close()

    def _places(self, number: int) -> Iterator[TopicPartition]:
        for step in range(TOPICS_OF_A_GROUP):
            topic = self._topics[(number * TOPICS_OF_A_GROUP + step) % len(self._topics)]
            for partition in range(MANY_PARTITIONS):
                yield TopicPartition(topic, partition)

    # The run.

    def run(self, side: Side) -> ManyTopics:
        side.put("busy", self._config(BUSY))
        side.wait_running("busy")
        with self._latency(BEFORE, BUSY, self._durations.latency, self._durations.warm_up):
            pass
        with MemoryPeaks(side) as peaks:
            with self._latency(CREATING, BUSY, self._durations.many_first):
                began = time.monotonic()
                side.put("many", self._config("many-.*"))
                _until(lambda: self._there() >= len(self._topics), "all remote topics are there")
                created = time.monotonic() - began
                self._say(f"{LABELS[self._name]}: all remote topics are there after {created:.1f} s")
                self._wait_copied()
                copied = time.monotonic() - began
                self._say(f"{LABELS[self._name]}: all records are there after {copied:.1f} s")
            side.put("groups", self._checkpoint_config())
            self._wait_checkpoints()
            self._wait_start_over()
            # The longest of Kafka's intervals are ten minutes: connectors that are started again do those rounds now.
            with self._latency(KAFKAS_INTERVALS, MANY_BUSY, self._durations.many_minute):
                time.sleep(self._durations.many_minute / 10)
                for connector in ("many", "groups"):
                    side.restart(connector)
            side.put("many", self._config("many-.*") | EACH_SECOND)
            side.wait_running("many")
            side.put("groups", self._checkpoint_config() | GROUPS_EACH_SECOND)
            self._wait_checkpoints()
            self._wait_start_over()
            with self._latency(EACH_SECOND_ROUNDS, MANY_BUSY, self._durations.latency):
                refresh = [self._new_topic(number) for number in range(ROUNDS)]
                configs = [self._new_config(number) for number in range(ROUNDS)]
                checkpoints = [self._new_positions(number) for number in range(ROUNDS)]
        found = ManyTopics(
            self._name,
            len(self._topics),
            len(self._topics) * MANY_PARTITIONS,
            len(self._groups),
            len(self._groups) * TOPICS_OF_A_GROUP * MANY_PARTITIONS,
            created,
            copied,
            median(refresh),
            median(configs),
            median(checkpoints),
            max(checkpoints),
            peaks.megabytes,
            self._copying,
        )
        self._say(f"{LABELS[self._name]}: {found}")
        return found

    def gave_up(self, why: str, said: list[str]) -> GaveUp:
        """What there is of a run that raised, and what the side said."""
        found = GaveUp(
            self._name,
            len(self._topics),
            len(self._groups),
            why,
            self._there(),
            self._copying,
            said,
            self._copied(),
            self._all_records(),
        )
        self._say(f"{LABELS[self._name]} gave up: {found}")
        return found

    def _config(self, topics: str) -> dict[str, str]:
        return {
            **connector_config(self._rig.source, self._rig.target, self._name, topics),
            "topics.exclude": "none",
        }

    def _checkpoint_config(self) -> dict[str, str]:
        return {
            **connector_config(self._rig.source, self._rig.target, self._name, "many-.*"),
            "connector.class": CHECKPOINT,
            "groups": "group-.*",
            "checkpoints.topic.replication.factor": "1",
            "sync.group.offsets.enabled": "true",
        }

    def _wait_start_over(self) -> None:
        # What a start costs is not what is asked for here.
        time.sleep(self._durations.many_first / 2)

    def _there(self) -> int:
        names = self._rig.target.admin().list_topics(timeout=60).topics
        return sum(f"{self._name}.{topic}" in names for topic in self._topics)

    def _wait_copied(self) -> None:
        _until(lambda: self._copied() >= self._all_records(), "all records are copied")

    def _all_records(self) -> int:
        return len(self._topics) * MANY_PARTITIONS * RECORDS

    def _copied(self) -> int:
        """Records in the remote topics, those written twice included."""
        asked = {
            TopicPartition(f"{self._name}.{topic}", partition): (LATEST, -1)
            for topic in self._topics
            for partition in range(MANY_PARTITIONS)
        }
        broker = BrokerSocket(self._rig.target.bootstrap_servers)
        try:
            return sum(each.offset for each in broker.call(ListOffsets(asked), VERSION) if not each.error)
        finally:
            broker.close()

    # Rounds.

    def _new_topic(self, number: int) -> float:
        topic = f"many-new-{number}"
        create_topics(self._source, {topic: NewRemote(1, 1)})
        return self._seconds_until(
            lambda: f"{self._name}.{topic}" in self._rig.target.admin().list_topics(timeout=60).topics, "a new topic"
        )

    def _new_config(self, number: int) -> float:
        topic, value = self._topics[-1], f"{700_000_000 + number}"
        alter_configs(self._rig.source, [topic], {"retention.ms": value})
        remote, target = f"{self._name}.{topic}", _admin(self._rig.target)
        return self._seconds_until(
            lambda: target.topic_configs([remote])[remote]["retention.ms"].value == value, "a changed config"
        )

    def _new_positions(self, number: int) -> float:
        before = self._checkpoints()
        self._commit(4 * number + 4)
        began = time.monotonic()
        _until(lambda: self._checkpoints() > before, "checkpoints")
        return self._wait_checkpoints() - began

    def _wait_checkpoints(self) -> float:
        """Until no more have come for a while; when the last one had come."""
        _until(
            lambda: f"{self._name}.checkpoints.internal" in self._rig.target.admin().list_topics(timeout=60).topics, ""
        )
        seen, since = self._checkpoints(), time.monotonic()
        while time.monotonic() - since < QUIET_S or not seen:
            time.sleep(0.1)
            now = self._checkpoints()
            if now != seen:
                seen, since = now, time.monotonic()
        return since

    def _checkpoints(self) -> int:
        broker = BrokerSocket(self._rig.target.bootstrap_servers)
        try:
            (found,) = broker.call(
                ListOffsets({TopicPartition(f"{self._name}.checkpoints.internal", 0): (LATEST, -1)}), VERSION
            )
            return 0 if found.error else found.offset
        finally:
            broker.close()

    def _seconds_until(self, condition: Callable[[], bool], what: str) -> float:
        began = time.monotonic()
        _until(condition, what)
        return time.monotonic() - began

    @contextmanager
    def _latency(self, when: str, topic: str, seconds: float, warm_up: float = 0.0) -> Iterator[None]:
        """Records at a steady rate while the block runs, for `seconds` at least; before them such that don't count."""
        load = Load(MANY_RATE, warm_up, seconds, LATENCY_RECORD_BYTES)
        send(self._rig.source, topic, BUSY_PARTITIONS, Load(100, 0.0, 2.0, LATENCY_RECORD_BYTES))
        self._rig.wait_for_first_record(f"{self._name}.{topic}", BUSY_PARTITIONS, PATIENCE_S)
        time.sleep(1.0)
        with (
            Receiver(self._rig.source, topic, BUSY_PARTITIONS) as near,
            Receiver(self._rig.target, f"{self._name}.{topic}", BUSY_PARTITIONS) as far,
        ):
            sender = threading.Thread(target=send, args=(self._rig.source, topic, BUSY_PARTITIONS, load))
            sender.start()
            try:
                yield
            finally:
                sender.join()
            time.sleep(AFTER_LAST_S)
            found = pairs(near.arrivals(), far.arrivals())
        if not found:
            raise RuntimeError(f"{LABELS[self._name]} copied none of {load.measured:,} records {when}")
        copying = Copying(when, load.measured, lateness(found))
        self._copying.append(copying)
        late = copying.lateness
        self._say(
            f"{LABELS[self._name]} {when}: a record is {late.over_p50:+.1f} ms (p50), {late.over_p99:+.1f} ms (p99)"
            f" later than at a consumer of the source; {late.received:,} of {load.measured:,}"
        )


def _admin(cluster: LocalCluster) -> ClusterAdmin:
    return ClusterAdmin(cluster.client_properties(), cluster.name, 120.0)


def _until(condition: Callable[[], bool], what: str) -> None:
    until = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > until:
            raise RuntimeError(f"not within {PATIENCE_S:g} s: {what}")
        time.sleep(0.2)
