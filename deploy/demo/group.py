"""A consumer group as a program has one: subscribed, reading in its turn, committing where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from deploy.demo.proof import Record
from deploy.demo.records import TARGET_TOPIC, told
from deploy.demo.stage import READER
from deploy.local import LocalCluster

GROUP: Final = "my-cg"
# The same on both clusters: what is `test` here is `kafka-1.test` there.
SUBSCRIPTION: Final = r"^(kafka-1\.)?test$"
_AT_ONCE: Final = 500
_ANSWER_S: Final = 30.0


class GroupReader:
    """One consumer of the group, on one cluster. It keeps what it reads, and what that began and ended with, as lines.

    `until`: partition → offset that it does not read any more; without it, it reads on for ever.
    """

    def __init__(self, cluster: LocalCluster, until: Mapping[int, int] | None = None) -> None:
        self._cluster = cluster.name
        self._until = until
        self._consumer = Consumer(
            {
                **cluster.librdkafka(READER),
                "group.id": GROUP,
                "enable.auto.commit": False,
                # A group that has no position would begin anew, and all it repeats would be seen.
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 500,
                "allow.auto.create.topics": False,
            }
        )
        self._consumer.subscribe([SUBSCRIPTION])
        self.read: dict[int, list[Record]] = {}
        self.first: dict[int, str] = {}
        self.last: dict[int, str] = {}
        self._next: dict[int, TopicPartition] = {}

    @property
    def count(self) -> int:
        """How many records it has read."""
        return sum(map(len, self.read.values()))

    def poll(self) -> int:
        """Read what there is; how many records that were. RuntimeError where a broker says no."""
        count_before = self.count
        for message in self._consumer.consume(_AT_ONCE, timeout=0.02):
            if error := message.error():
                raise RuntimeError(f"{GROUP} reading {message.topic()}: {error.str()}")
            topic, partition, offset = message.topic(), message.partition(), message.offset()
            if topic is None or partition is None or offset is None:
                continue
            if self._until is not None and offset >= self._until[partition]:
                continue
            self.read.setdefault(partition, []).append(Record.of(message))
            self.last[partition] = told(self._cluster, message)
            self.first.setdefault(partition, self.last[partition])
            self._next[partition] = TopicPartition(topic, partition, offset + 1)
        return self.count - count_before

    def commit(self) -> dict[int, int]:
        """Commit what was read, acknowledged when this returns. Partition → position: the record to read next."""
        for place in self._consumer.commit(offsets=list(self._next.values()), asynchronous=False) or ():
            if place.error is not None:
                raise RuntimeError(f"{GROUP} can't commit {place.topic}-{place.partition}: {place.error.str()}")
        return {partition: place.offset for partition, place in self._next.items()}

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()


class GroupPosition:
    """Looks where the group stands in `kafka-1.test` on kafka-2, without being one of its members."""

    def __init__(self, cluster: LocalCluster, partitions: int) -> None:
        self._asked = [TopicPartition(TARGET_TOPIC, partition) for partition in range(partitions)]
        self._consumer = Consumer({**cluster.librdkafka(READER), "group.id": GROUP, "enable.auto.commit": False})

    def now(self) -> dict[int, int]:
        """Partition → position, of those that have one."""
        answer = self._consumer.committed(self._asked, timeout=_ANSWER_S)
        return {each.partition: each.offset for each in answer if each.error is None and each.offset >= 0}

    def close(self) -> None:
        """The connection."""
        self._consumer.close()
