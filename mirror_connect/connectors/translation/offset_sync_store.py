"""Translates upstream offsets by offset syncs, exactly as MirrorMaker's OffsetSyncStore (4.3.1) does.

Each source partition has 64 slots. S[0] is the newest sync. Later slots hold older and ever sparser ones, so a few dozen
syncs cover the whole history. For slots i < j with different syncs (u = upstream offset):
  B (recent enough):  u[i] <= u[j] + 2**j - 2**i
  C (far enough apart): u[i] >= u[j] + 2**max(i - 2, 0)
Java computes both bounds with 64-bit integers; where they overflow B holds and C does not.
"""

from __future__ import annotations

from typing import Final

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from mirror_connect.connectors.translation.recent_partitions import MOST_PARTITIONS, RecentPartitions

SLOTS: Final = 64
TOO_OLD: Final = -1
_OVERFLOW: Final = 1 << 63
_BEHIND: Final = tuple(1 << slot for slot in range(SLOTS))
_APART: Final = tuple(1 << max(slot - 2, 0) for slot in range(SLOTS))


class OffsetSyncStore:
    """The syncs of `most` partitions. `must_read_to_end`: only the newest sync found at the start may be used.

    It is set when earlier checkpoints could not be read: an older sync might take a group back behind one of them.
    """

    def __init__(self, *, must_read_to_end: bool = False, most: int = MOST_PARTITIONS) -> None:
        self._slots = RecentPartitions[list[OffsetSync]](most)
        self._must_read_to_end = must_read_to_end
        self._ready = False

    def read_to_end(self) -> None:
        """The offset-syncs topic has been read to its former end: from now on there are translations."""
        self._ready = True

    @property
    def crowded(self) -> bool:
        """Whether syncs were dropped because there were too many partitions."""
        return self._slots.crowded

    def insert(self, sync: OffsetSync) -> None:
        """The next record of the offset-syncs topic."""
        partition = TopicPartition(sync.topic, sync.partition)
        slots = self._slots.get(partition)
        # A lower upstream offset makes all earlier syncs useless.
        only_the_newest = self._must_read_to_end and not self._ready
        if slots is None or only_the_newest or sync.upstream < slots[0].upstream:
            slots = [sync] * SLOTS
        else:
            _insert(slots, sync)
        self._slots.put(partition, slots)

    def repeats(self, topic: str, partition: int, upstream: int) -> int:
        """At most how many records a group reads again that continues where `translate` says; 0 if that is nowhere."""
        slots = self._slots.get(TopicPartition(topic, partition))
        sync = next((sync for sync in slots or () if sync.upstream <= upstream), None)
        return 0 if sync is None else max(0, upstream - sync.upstream - 1)

    def translate(self, topic: str, partition: int, upstream: int) -> int | None:
        """The downstream offset for a committed one. TOO_OLD below every sync; None if nothing is known (yet).

        It is at most one past a sync, because the number of records left out between syncs is unknown.
        """
        slots = self._slots.get(TopicPartition(topic, partition))
        if slots is None or not self._ready:
            return None
        sync = next((sync for sync in slots if sync.upstream <= upstream), slots[-1])
        if sync.upstream > upstream:
            return TOO_OLD
        return sync.downstream + (upstream > sync.upstream)

    def kept(self, topic: str, partition: int) -> list[tuple[int, OffsetSync]]:
        """The distinct syncs kept, newest first, each with its first slot."""
        slots = self._slots.get(TopicPartition(topic, partition)) or []
        return [(i, sync) for i, sync in enumerate(slots) if i == 0 or sync is not slots[i - 1]]


def _insert(slots: list[OffsetSync], sync: OffsetSync) -> None:
    """OffsetSyncStore.updateSyncArray. As there, syncs are compared by identity: equal ones may follow each other."""
    old = slots.copy()
    replacement, candidate = sync, 0
    slots[0] = sync
    for current in range(1, SLOTS):
        previous = slots[current - 1]
        while True:
            value = old[candidate]
            apart = _far_apart(previous, value, current - 1)
            if (
                apart
                and _recent(previous, value, current - 1, current)
                and (current + 1 >= SLOTS or _far_apart(value, slots[current + 1], current))
            ):
                replacement = value
                candidate += 1
                break
            repeated = candidate + 1 < SLOTS and value is old[candidate + 1]
            if not (repeated or not apart):
                break
            candidate += 1
            if candidate >= current:
                break
        if _recent(previous, slots[current], current - 1, current):
            # B holds here and so for every later slot.
            return
        slots[current] = replacement


def _recent(newer: OffsetSync, older: OffsetSync, i: int, j: int) -> bool:
    bound = older.upstream + _BEHIND[j] - _BEHIND[i]
    return newer is older or bound >= _OVERFLOW or newer.upstream <= bound


def _far_apart(newer: OffsetSync, older: OffsetSync, i: int) -> bool:
    bound = older.upstream + _APART[i]
    return newer is older or (bound < _OVERFLOW and newer.upstream >= bound)
