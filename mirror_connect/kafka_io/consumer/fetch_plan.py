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

    `wanted`: None if nothing at present. `recheck`: this may change without a `mark_dirty`. `full`: nothing is wanted
    because too many of its bytes are not released yet.
    """

    wanted: FetchPartition | None
    recheck: bool
    full: bool = False


NOTHING: Final = Judged(None, recheck=False)


class FetchPlan:
    """`wanted`: what to fetch. `changed`: the partitions in which it may differ from the last request."""

    def __init__(self) -> None:
        self.wanted: dict[TopicPartition, FetchPartition] = {}
        # In the order of the changes: the same changes always give the same request.
        self.changed: dict[TopicPartition, None] = {}
        self._dirty: dict[TopicPartition, None] = {}

    def mark_dirty(self, key: TopicPartition) -> None:
        """The partition changed, was added or was removed: the next `refresh` judges it."""
        self._dirty[key] = None

    def refresh(self, judge: Callable[[TopicPartition], Judged]) -> bool:
        """Judges every dirty partition again. True if some are left out because they hold too many bytes."""
        dirty, self._dirty = self._dirty, {}
        some_full = False
        for key in dirty:
            found = judge(key)
            if found.wanted is None:
                self.wanted.pop(key, None)
            else:
                self.wanted[key] = found.wanted
            if found.recheck:
                self._dirty[key] = None
            some_full = some_full or found.full
        self.changed |= dirty
        return some_full

    def asked(self) -> None:
        """A request for all of `wanted` is on its way."""
        self.changed.clear()
