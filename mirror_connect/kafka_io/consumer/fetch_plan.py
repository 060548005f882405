"""Keeps from fetch to fetch what to request of one broker: only partitions that changed are judged again.

Of thousands of partitions nearly all are quiet. To judge each of them before every fetch would cost more than the records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.protocol.fetch import FetchPartition


class Judged(NamedTuple):
    """What to fetch of one partition.

    `wanted`: None if nothing at present. `recheck`: this may change without a `mark_dirty`. `full_above`: nothing is wanted
    because too many of its bytes are not released yet, as long as more partitions than this are loaded; None if it has room.
    """

    wanted: FetchPartition | None
    recheck: bool
    full_above: int | None = None


NOTHING: Final = Judged(None, recheck=False)


class FetchPlan:
    """`wanted`: what to fetch. `changed`: the partitions in which it may differ from the last request."""

    def __init__(self) -> None:
        self.wanted: dict[TopicPartition, FetchPartition] = {}
        # In the order of the changes: the same changes always give the same request.
        self.changed: dict[TopicPartition, None] = {}
        self._dirty: dict[TopicPartition, None] = {}
        # Those without room. With at most so many loaded partitions, one of them may have some without a release.
        self._full: dict[TopicPartition, None] = {}
        self._room_at = -1

    def mark_dirty(self, key: TopicPartition) -> None:
        """The partition changed, was added or was removed: the next `refresh` judges it."""
        self._dirty[key] = None

    def refresh(self, judge: Callable[[TopicPartition], Judged], loaded: int) -> bool:
        """Judges every dirty partition again. True if some are left out because they hold too many bytes.

        `loaded`: how many partitions hold bytes. With fewer of them each may hold more.
        """
        dirty, self._dirty = self._dirty, {}
        if loaded <= self._room_at:
            dirty |= self._full
            self._full, self._room_at = {}, -1
        for key in dirty:
            found = judge(key)
            if found.wanted is None:
                self.wanted.pop(key, None)
            else:
                self.wanted[key] = found.wanted
            if found.recheck:
                self._dirty[key] = None
            if found.full_above is None:
                self._full.pop(key, None)
            else:
                self._full[key] = None
                self._room_at = max(self._room_at, found.full_above)
        self.changed |= dirty
        return bool(self._full)

    def asked(self) -> None:
        """A request for all of `wanted` is on its way."""
        self.changed.clear()
