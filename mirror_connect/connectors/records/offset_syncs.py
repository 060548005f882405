"""Offset syncs: pairs of upstream and downstream offset of one record. They translate committed offsets of groups.

This module has the record format, the topic's name, and the rule of Kafka 4.3.1 (OffsetSyncWriter.PartitionState): which
acknowledged records make a sync at once, and which only when source offsets are committed.

MirrorMaker applies its rule to each record, this copier once to a whole batch. A batch is dense on both sides, so the
records that make a sync are known without a loop: the first one after a discontinuity, then every
(offset.lag.max + 1)th. MirrorMaker would queue the same pairs, so translations are as exact and fresh as its own. If
there are more than are useful, they are thinned evenly, and the newest is kept. MirrorMaker drops all but one of those
that find ten requests in flight.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from operator import itemgetter
from typing import Final, Literal, NamedTuple, TypeVar

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.binary import INT32, Reader, text_bytes
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy

# The most syncs of one partition that wait, and the most that one batch adds.
MOST_AT_ONCE: Final = 100
MOST_OF_A_BATCH: Final = 10
_NONE: Final = -1
# 1 can still be added: a sync translates to one past itself.
_LAST_OFFSET: Final = 2**63 - 2
_OFFSETS: Final = struct.Struct(">qq")
# A task writes the syncs of its partitions again and again.
_KEYS_KEPT: Final = 16_384
T = TypeVar("T")


class OffsetSync(NamedTuple):
    """The record at `upstream` of a source partition is at `downstream` of the remote one."""

    topic: str
    partition: int
    upstream: int
    downstream: int

    def key(self) -> bytes:
        """Key of the record: source-side topic and partition."""
        return _key(self.topic, self.partition)

    def value(self) -> bytes:
        """Value of the record; the format has no version."""
        return _OFFSETS.pack(self.upstream, self.downstream)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> OffsetSync:
        """The inverse; UnreadableRecord for anything else, a tombstone too: the caller skips it."""
        names, offsets = Reader(key, "key of an offset sync"), Reader(value, "value of an offset sync")
        sync = cls(names.topic(), names.partition(), offsets.int64(), offsets.int64())
        # A producer reports -1 for an unknown offset.
        if not (0 <= sync.upstream <= _LAST_OFFSET and -1 <= sync.downstream <= _LAST_OFFSET):
            raise offsets.unreadable(f"no record can have the offsets {sync.upstream} and {sync.downstream}")
        return sync


@lru_cache(_KEYS_KEPT)
def _key(topic: str, partition: int) -> bytes:
    return text_bytes(topic) + INT32.pack(partition)


class SyncsPlace(NamedTuple):
    """The cluster and topic of offset syncs."""

    cluster: Literal["source", "target"]
    topic: str


def offset_syncs_place(
    policy: DefaultReplicationPolicy, location: str, source_alias: str, target_alias: str
) -> SyncsPlace:
    """By `offset-syncs.topic.location`. The topic is named after the other cluster. Any word but `source` means target."""
    if location == "source":
        return SyncsPlace("source", policy.offset_syncs_topic(target_alias))
    return SyncsPlace("target", policy.offset_syncs_topic(source_alias))


class SyncRule:
    """Decides which acknowledged records of one partition make a sync. Its state lasts as long as the task."""

    def __init__(self, partition: TopicPartition, lag_max: int) -> None:
        self._partition = partition
        # Every record exceeds a negative lag.
        self._step = max(1, lag_max + 1)
        self._last_upstream = self._last_downstream = self._synced = _NONE
        self.delayed: OffsetSync | None = None

    def acked(self, upstream: int, downstream: int, count: int = 1, most: int = MOST_AT_ONCE) -> list[OffsetSync]:
        """Syncs to write now, oldest first: records upstream…upstream+count-1 are durable at downstream….

        Of records without a sync the newest pair is left in `delayed`, for the next commit. `most`: limits the syncs that
        lag alone makes.
        """
        now: list[int] = []
        # As in Java, a task's first record counts as a discontinuity, even if it follows the last one.
        if self._synced == _NONE or upstream != self._last_upstream + 1 or downstream < self._last_downstream:
            now.append(downstream)
            self._synced = downstream
        # From here on only lag counts: within the batch, offsets are consecutive. A sync translates to one past itself.
        due = range(max(downstream + len(now), self._synced + self._step), downstream + count, self._step)
        if due:
            self._synced = due[-1]
            now += thinned(due, most)
        self._last_upstream, self._last_downstream = upstream + count - 1, downstream + count - 1
        shift = upstream - downstream
        synced_last = bool(now) and now[-1] == self._last_downstream
        self.delayed = None if synced_last else self._sync(self._last_upstream, self._last_downstream)
        return [self._sync(offset + shift, offset) for offset in now]

    def _sync(self, upstream: int, downstream: int) -> OffsetSync:
        return OffsetSync(self._partition.topic, self._partition.partition, upstream, downstream)


class OffsetSyncQueue:
    """The syncs of a task's partitions that wait to be written.

    Syncs may be lost; only their order within a partition matters. So the writer takes all that wait, and while the topic
    is unavailable the waiting ones are thinned and don't grow.
    """

    def __init__(self, lag_max: int) -> None:
        self._lag_max = lag_max
        self._rules: dict[TopicPartition, SyncRule] = {}
        # Those with a delayed sync: of thousands of partitions only these are looked at. See `committed_one`.
        self.delayed: dict[TopicPartition, SyncRule] = {}
        self._pending: dict[TopicPartition, list[OffsetSync]] = {}

    def acked(self, partition: TopicPartition, upstream: int, downstream: int, count: int = 1) -> None:
        """The target has acknowledged `count` records, dense on both sides."""
        self._add(partition, upstream, downstream, count, _room(len(self._pending.get(partition, ()))))

    def continued(self, partition: TopicPartition, upstream: int, downstream: int, count: int) -> None:
        """The same for the records of many batches, which continue those before them on both sides."""
        self._add(partition, upstream, downstream, count, MOST_AT_ONCE)

    def _add(self, partition: TopicPartition, upstream: int, downstream: int, count: int, most: int) -> None:
        pending = self._pending.get(partition, [])
        rule = self._rule(partition)
        syncs = rule.acked(upstream, downstream, count, most)
        if rule.delayed is not None:
            self.delayed[partition] = rule
        if not pending:
            if syncs:
                self._pending[partition] = syncs
        elif len(pending) + len(syncs) > MOST_AT_ONCE:
            self._pending[partition] = list(thinned([*pending, *syncs], MOST_AT_ONCE))
        else:
            self._pending[partition] += syncs

    def acked_ranges(self, partition: TopicPartition, ranges: Sequence[tuple[int, int]], downstream: int) -> None:
        """The same for records with gaps upstream: (upstream, count) of each range; downstream they are dense.

        Each range makes at least one sync. So of too many ranges only some are used, evenly spaced and with the last one.
        """
        room = _room(len(self._pending.get(partition, ())))
        if len(ranges) > room:
            starts = list(accumulate(map(itemgetter(1), ranges), initial=downstream))
            for number in thinned(range(len(ranges)), room):
                upstream, count = ranges[number]
                self.acked(partition, upstream, starts[number], count)
            return
        for upstream, count in ranges:
            self.acked(partition, upstream, downstream, count)
            downstream += count

    def committed(self) -> None:
        """Source offsets are about to be committed: the delayed syncs are written, too."""
        for partition in self.delayed:
            self.committed_one(partition)
        self.delayed.clear()

    def committed_one(self, partition: TopicPartition) -> None:
        """The same for one partition, which its caller takes out of `delayed`."""
        rule = self._rules[partition]
        if rule.delayed is not None:
            self._pending.setdefault(partition, []).append(rule.delayed)
            rule.delayed = None

    def give_back(self, syncs: Sequence[OffsetSync]) -> None:
        """Takes back syncs that were not written: the newest of each partition waits again, before later ones."""
        newest = {TopicPartition(sync.topic, sync.partition): sync for sync in syncs}
        for partition, sync in newest.items():
            if partition in self._rules:
                self._pending[partition] = [sync, *self._pending.get(partition, [])]

    def take(self) -> list[OffsetSync]:
        """Removes and returns all syncs to write, in order within a partition."""
        taken = [sync for syncs in self._pending.values() for sync in syncs]
        self._pending.clear()
        return taken

    def forget(self, partition: TopicPartition) -> None:
        """The partition is no longer this task's. Its syncs must be taken before."""
        for kept in (self._rules, self.delayed, self._pending):
            kept.pop(partition, None)

    def _rule(self, partition: TopicPartition) -> SyncRule:
        rule = self._rules.get(partition)
        if rule is None:
            rule = self._rules[partition] = SyncRule(partition, self._lag_max)
        return rule


def _room(waiting: int) -> int:
    """How many syncs of a batch to make: while many wait, most would be thinned soon."""
    return max(1, min(MOST_OF_A_BATCH, (MOST_AT_ONCE - waiting) // MOST_OF_A_BATCH))


def thinned(items: Sequence[T], most: int) -> Sequence[T]:
    """At most `most` items of a sequence, evenly spaced and with the last one."""
    if len(items) <= most:
        return items
    step = -(-len(items) // most)
    return items[::-step][::-1]
