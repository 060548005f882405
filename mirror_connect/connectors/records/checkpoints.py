"""Checkpoints: a group's committed offset at the source, and the offset where it continues on the target.

This module has the record format (topic `<source alias>.checkpoints.internal` on the target), the remote topic of a
checkpoint, and the rule for when to write one. The rules are those of Kafka 4.3.1 (MirrorCheckpointTask, CheckpointStore).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.binary import INT16, INT32, INT64, Reader, UnreadableRecord, text_bytes
from mirror_connect.connectors.records.internal_json import encode
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy

_VERSION = 0


class CheckpointKey(NamedTuple):
    """Group and target partition."""

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One checkpoint. Its offsets are those of the record to read next."""

    group: str
    topic: str
    partition: int
    upstream: int
    downstream: int
    metadata: str = ""

    @property
    def of(self) -> CheckpointKey:
        """Group and target partition. The newest checkpoint of them counts."""
        return CheckpointKey(self.group, self.topic, self.partition)

    def key(self) -> bytes:
        """Key of the record."""
        return text_bytes(self.group) + text_bytes(self.topic) + INT32.pack(self.partition)

    def value(self) -> bytes:
        """Value of the record."""
        return (
            INT16.pack(_VERSION) + INT64.pack(self.upstream) + INT64.pack(self.downstream) + text_bytes(self.metadata)
        )

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Checkpoint:
        """The inverse; UnreadableRecord for anything else, a tombstone or another version too: the caller skips it."""
        names, data = Reader(key, "key of a checkpoint"), Reader(value, "value of a checkpoint")
        data.version(_VERSION)
        checkpoint = cls(names.text(), names.topic(), names.partition(), data.int64(), data.int64(), data.text())
        # MirrorMaker translates a too old offset to -1.
        if min(checkpoint.upstream, checkpoint.downstream) < -1:
            raise data.unreadable(f"no offset can be {checkpoint.upstream} and {checkpoint.downstream}")
        return checkpoint


def checkpoint_offset_key(connector: str, checkpoint: Checkpoint) -> bytes:
    """Key in connect-offsets: `["mm2-checkpoint",{"partition":1,"topic":"A.orders","group":"billing"}]`.

    The members have Java's HashMap order, because a Java worker finds the key by its bytes. The value is always offset 0
    and never read.
    """
    return encode(
        [connector, {"partition": checkpoint.partition, "topic": checkpoint.topic, "group": checkpoint.group}]
    )


def checkpointed_topic(policy: DefaultReplicationPolicy, source_alias: str, target_alias: str, topic: str) -> str:
    """A source topic's name on the target; a topic that came from the target is the original there (`B.t` is `t`)."""
    if policy.source(topic) == target_alias:
        upstream = policy.upstream(topic)
        return topic if upstream is None else upstream
    return policy.remote_topic(source_alias, topic)


class CheckpointMemory:
    """The newest checkpoint of each group and target partition: from the topic, and those added to it."""

    def __init__(self, groups: Container[str]) -> None:
        self._groups = groups
        self._newest: dict[CheckpointKey, Checkpoint] = {}

    def load(self, records: Iterable[tuple[bytes | None, bytes | None]]) -> list[str]:
        """Loads key and value of each record of the topic, in order. Own groups are kept, and the last record wins.

        Returns a line for each record that can't be read; those are skipped.
        """
        problems = []
        for key, value in records:
            try:
                checkpoint = Checkpoint.decode(key, value)
            except UnreadableRecord as error:
                problems.append(str(error))
                continue
            if checkpoint.group in self._groups:
                self._newest[checkpoint.of] = checkpoint
        return problems

    def is_new(self, checkpoint: Checkpoint) -> bool:
        """Whether to write it: it is the first one, the group went back upstream, or the downstream offset is higher.

        The same or a lower downstream offset is not written, even if the group has advanced: a coarser translation must
        not take a group back.
        """
        last = self._newest.get(checkpoint.of)
        return last is None or checkpoint.upstream < last.upstream or checkpoint.downstream > last.downstream

    def take(self, checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
        """Those that are new and have no negative offset. They are remembered as written."""
        new = [each for each in checkpoints if each.downstream >= 0 and self.is_new(each)]
        self._newest |= {each.of: each for each in new}
        return new

    def newest(self, group: str, partition: TopicPartition) -> Checkpoint | None:
        """The newest one of this target partition; None if there is none."""
        return self._newest.get(CheckpointKey(group, *partition))

    def of_group(self, group: str) -> dict[TopicPartition, Checkpoint]:
        """A group's checkpoints by target partition, to sync the group itself."""
        return {TopicPartition(key.topic, key.partition): each for key, each in self._newest.items() if key[0] == group}

    def groups(self) -> list[str]:
        """All groups with a checkpoint, sorted."""
        return sorted({key.group for key in self._newest})
