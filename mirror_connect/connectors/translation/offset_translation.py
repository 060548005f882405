"""Where groups continue on the target: committed offsets, offset syncs and offset ranges in, checkpoints out.

Offset ranges (offset_range_index.py) give the exact record while they belong to the present topics. Where they end, or
where there are none, offset syncs give what MirrorMaker would (offset_sync_store.py). Syncs of a source topic that was
deleted and created again since are not used. The rules of MirrorCheckpointTask (4.3.1) apply around that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from mirror_connect.connectors.partitions import CommittedOffset, CommittedOffsets, TopicPartition
from mirror_connect.connectors.records.checkpoints import Checkpoint, checkpointed_topic
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy
from mirror_connect.connectors.translation.offset_range_index import RangeIndex, translated
from mirror_connect.connectors.translation.offset_ranges import NO_ID, Segment
from mirror_connect.connectors.translation.offset_sync_store import OffsetSyncStore
from mirror_connect.connectors.translation.recent_partitions import MOST_PARTITIONS, RecentPartitions

# A topic's present id, None if it is unknown.
TopicId = Callable[[str], bytes | None]


class TranslatedPlace(NamedTuple):
    """Where a committed offset leads. `checkpoint`: None if it can't be translated.

    `repeats`: at most how many records a group reads again that continues at the checkpoint.
    """

    partition: TopicPartition
    remote_topic: str
    checkpoint: Checkpoint | None
    repeats: int


class OffsetTranslator:
    """Offset syncs and ranges of partitions, for the topics that `accepts` allows.

    A user's expression or class may take long for a name, and topics of syncs and ranges can hold any name. So only
    topics of committed offsets are asked about, by `judge`, before `checkpoints`.
    `must_read_to_end` as for OffsetSyncStore: earlier checkpoints could not be read.
    """

    def __init__(
        self,
        policy: DefaultReplicationPolicy,
        aliases: tuple[str, str],
        accepts: Callable[[str], bool],
        *,
        must_read_to_end: bool = False,
    ) -> None:
        self._policy = policy
        self._source_alias, self._target_alias = aliases
        self._accepts = accepts
        # The answer never changes.
        self._accepted: dict[str, bool] = {}
        self._named: dict[str, str] = {}
        self._syncs = OffsetSyncStore(must_read_to_end=must_read_to_end, most=MOST_PARTITIONS)
        self._ranges = RecentPartitions[RangeIndex](MOST_PARTITIONS)

    def add_sync(self, key: bytes | None, value: bytes | None) -> None:
        """The next record of the offset-syncs topic. UnreadableRecord: the caller skips it."""
        self._syncs.insert(OffsetSync.decode(key, value))

    def add_ranges(self, key: bytes | None, value: bytes | None) -> None:
        """The next record of the topic of ranges. UnreadableRecord: the caller skips it."""
        segment = Segment.decode(key, value)
        partition = TopicPartition(segment.topic, segment.partition)
        index = self._ranges.get(partition)
        if index is None:
            index = RangeIndex()
        index.add(segment)
        self._ranges.put(partition, index)

    @property
    def crowded(self) -> str | None:
        """One line if there were too many partitions to keep all."""
        if not self._syncs.crowded and not self._ranges.crowded:
            return None
        return (
            f"The topics of offset syncs and offset ranges name more than {MOST_PARTITIONS} partitions. Offsets in those "
            "with the oldest records are not translated. Check who writes to these topics"
        )

    def has_ranges(self, topics: Collection[str]) -> bool:
        """Whether there are ranges of any of these topics; without topics, whether there are any ranges."""
        return any(not topics or partition.topic in topics for partition in self._ranges)

    def syncs_read_to_end(self) -> None:
        """The offset-syncs topic has been read to its former end. Before that no sync translates anything."""
        self._syncs.read_to_end()

    def remote_topic(self, partition: TopicPartition) -> str:
        """The topic in checkpoints of a source partition: where its ranges lead, or else what the policy says.

        A source connector may have a RegexRouter, of which this one knows nothing. The ranges tell.
        """
        ranges, topic = self._ranges.get(partition), partition.topic
        if ranges is not None and ranges.remote:
            return ranges.remote
        if topic not in self._named:
            self._named[topic] = checkpointed_topic(self._policy, self._source_alias, self._target_alias, topic)
        return self._named[topic]

    def remote_topics(self, committed: CommittedOffsets) -> set[str]:
        """Those of the committed offsets that are translated."""
        return {self.remote_topic(partition) for partition in committed if self._is_accepted(partition.topic)}

    def accepted(self, committed: CommittedOffsets) -> set[str]:
        """The topics whose offsets are translated."""
        return {topic for topic, _ in committed if self._is_accepted(topic)}

    def judge(self, topics: Collection[str], judge: Callable[[Collection[str]], None]) -> None:
        """Decides which of these topics are translated, and forgets others; blocking. `judge` (as of Names) gets new ones.

        ConfigError for an expression that takes too long.
        """
        known = self._accepted
        new = [topic for topic in topics if topic not in known]
        if new:
            judge(new)
        self._accepted = {topic: known[topic] if topic in known else self._accepts(topic) for topic in topics}

    def _is_accepted(self, topic: str) -> bool:
        if topic not in self._accepted:
            self._accepted[topic] = self._accepts(topic)
        return self._accepted[topic]

    def checkpoints(
        self, group: str, committed: CommittedOffsets, source_id: TopicId, target_id: TopicId
    ) -> list[Checkpoint]:
        """A group's checkpoints for its committed offsets at the source; none for those that can't be translated."""
        places = self.places(group, committed, source_id, target_id)
        return [place.checkpoint for place in places if place.checkpoint is not None]

    def places(
        self, group: str, committed: CommittedOffsets, source_id: TopicId, target_id: TopicId
    ) -> list[TranslatedPlace]:
        """The same for every committed offset whose topic is translated."""
        found = []
        for partition, (upstream, metadata) in sorted(committed.items()):
            if not self._is_accepted(partition.topic):
                continue
            remote = self.remote_topic(partition)
            ids = source_id(partition.topic) or NO_ID, target_id(remote) or NO_ID
            downstream, repeats = self._translated(partition, upstream, ids)
            checkpoint = None
            if downstream is not None and downstream >= 0:
                checkpoint = Checkpoint(group, remote, partition.partition, upstream, downstream, metadata)
            found.append(TranslatedPlace(partition, remote, checkpoint, repeats))
        return found

    def _translated(self, partition: TopicPartition, upstream: int, ids: tuple[bytes, bytes]) -> tuple[int | None, int]:
        """The downstream offset, and at most how many records are repeated there."""
        ranges, by_syncs = self._ranges.get(partition), self._syncs.translate(*partition, upstream)
        by_ranges = None
        if ranges is None or ranges.belongs_to(*ids):
            by_ranges = None if ranges is None else ranges.translate(upstream)
            if ranges is not None and ranges.led_elsewhere(upstream):
                by_syncs = None
            found = translated(by_ranges, by_syncs)
            if by_ranges is not None and found is not None:
                return found, max(0, by_ranges.repeats - (found - by_ranges.offset))
            return found, self._syncs.repeats(*partition, upstream)
        # The ranges are of a deleted topic of the same name. They don't apply to the present one. Neither do syncs that lead
        # to records of the deleted one. Records of the present topic are after those.
        among_former = by_syncs is not None and 0 <= by_syncs < ranges.end and ranges.has_target(ids[1])
        return None if among_former else by_syncs, self._syncs.repeats(*partition, upstream)


def offsets_to_commit(
    checkpoints: Mapping[TopicPartition, Checkpoint], at_target: CommittedOffsets
) -> dict[TopicPartition, CommittedOffset]:
    """Checkpoints to commit for their group: where it has committed nothing on the target, or a lower offset.

    MirrorMaker writes all of them for a group that was not empty one interval ago, and compares with the target for others.
    So it may take back a group that becomes idle in between. Here the comparison holds for every group, with what the
    target has a moment before the write.
    """
    found = {}
    for partition, checkpoint in checkpoints.items():
        there = at_target.get(partition)
        if there is None or there.offset < checkpoint.downstream:
            found[partition] = CommittedOffset(checkpoint.downstream, checkpoint.metadata)
    return found
