"""A consumer group: it subscribes, reads and commits its offsets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from deploy.demo.proof import Record
from deploy.demo.records import TARGET_TOPIC, line_of
from deploy.demo.stage import READER
from deploy.local import LocalCluster

GROUP: Final = "my-cg"
# The same on both clusters: what is `test` here is `kafka-1.test` there.
SUBSCRIPTION: Final = r"^(kafka-1\.)?test$"
_AT_ONCE: Final = 500
_ANSWER_S: Final = 30.0


class GroupReader:
    """One consumer of the group, on one cluster. It keeps the records, and the first and last of each partition as lines.

    `until`: partition → offset at which it stops reading; without it, it never stops.
    """

    def __init__(self, cluster: LocalCluster, until: Mapping[int, int] | None = None) -> None:
        self._cluster = cluster.name
        self._until = until
        self._consumer = Consumer(
            {
                **cluster.librdkafka(READER),
                "group.id": GROUP,
                "enable.auto.commit": False,
                # A group without committed offsets would begin anew, which the claims would show.
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
        """Reads available records and returns their number. RuntimeError if a broker refuses."""
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
            self.last[partition] = line_of(self._cluster, message)
            self.first.setdefault(partition, self.last[partition])
            self._next[partition] = TopicPartition(topic, partition, offset + 1)
        return self.count - count_before

    def commit(self) -> dict[int, int]:
        """Commits what was read and waits for the answer. Returns partition → committed offset."""
        for each in self._consumer.commit(offsets=list(self._next.values()), asynchronous=False) or ():
            if each.error is not None:
                raise RuntimeError(f"{GROUP} can't commit {each.topic}-{each.partition}: {each.error.str()}")
        return {partition: each.offset for partition, each in self._next.items()}

    def close(self) -> None:
        """Leaves the group."""
        self._consumer.close()


class GroupPosition:
    """Reads the group's committed offsets in `kafka-1.test` on kafka-2, without being a member."""

    def __init__(self, cluster: LocalCluster, partitions: int) -> None:
        self._asked = [TopicPartition(TARGET_TOPIC, partition) for partition in range(partitions)]
        self._consumer = Consumer({**cluster.librdkafka(READER), "group.id": GROUP, "enable.auto.commit": False})

    def now(self) -> dict[int, int]:
        """Partition → committed offset, if there is one."""
        answer = self._consumer.committed(self._asked, timeout=_ANSWER_S)
        return {each.partition: each.offset for each in answer if each.error is None and each.offset >= 0}

    def close(self) -> None:
        """Closes the connection."""
        self._consumer.close()
