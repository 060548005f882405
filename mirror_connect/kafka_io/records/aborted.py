"""Skips batches of aborted transactions for readers of committed records, as Kafka's CompletedFetch does."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.record_batch import BatchView

# A marker's key: version, type.
_MARKER_KEY: Final = struct.Struct(">hh")
_ABORT: Final = 0


class AbortedFilter:
    """Finds the batches of a read_committed fetch that belong to aborted transactions.

    `aborted`: (producer id, first offset), in any order. `drops` needs every batch in order, control batches too.
    """

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._pending = sorted(aborted, key=lambda each: each[1], reverse=True)
        self._open: set[int] = set()

    def drops(self, view: BatchView) -> bool:
        """Whether to skip the batch: it is aborted, or a control batch."""
        if view.producer_id < 0:
            return view.is_control
        while self._pending and self._pending[-1][1] <= view.last_offset:
            self._open.add(self._pending.pop()[0])
        if view.is_control:
            if _is_abort_marker(view):
                self._open.discard(view.producer_id)
            return True
        return view.is_transactional and view.producer_id in self._open


def _is_abort_marker(view: BatchView) -> bool:
    # Each number may have several bytes: in a compacted log the marker's timestamp is relative to a delete horizon. Current
    # brokers no longer list such a transaction; if one does, a missed abort would drop what was committed after it.
    records = view.records
    try:
        at = varint.decode(records, 0)[1] + 1
        for _ in ("timestamp delta", "offset delta", "key length"):
            length, at = varint.decode(records, at)
        return length >= _MARKER_KEY.size and _MARKER_KEY.unpack_from(records, at)[1] == _ABORT
    except (IndexError, ValueError, struct.error):
        # Compaction may leave a control batch without its record.
        return False
