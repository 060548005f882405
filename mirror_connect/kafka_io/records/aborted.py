"""Which batches a reader of committed records must not see: the decision of Kafka's CompletedFetch, batch by batch."""

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
    """Which batches of a read_committed fetch belong to aborted transactions.

    `aborted`: (producer id, first offset), any order. Every batch is to be shown, in order, control batches too.
    """

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda each: each[1], reverse=True)
        self._open: set[int] = set()

    def drops(self, view: BatchView) -> bool:
        """Whether the batch is not to be copied: aborted, or a control batch."""
        if view.producer_id < 0:
            return view.is_control
        while self._coming and self._coming[-1][1] <= view.last_offset:
            self._open.add(self._coming.pop()[0])
        if view.is_control:
            if _is_abort_marker(view):
                self._open.discard(view.producer_id)
            return True
        return view.is_transactional and view.producer_id in self._open


def _is_abort_marker(view: BatchView) -> bool:
    # Each number may be longer than a byte: in a compacted log the marker's timestamp counts from a delete horizon. Brokers
    # of today no longer list such a transaction; with one that did, a missed abort would drop what was committed after it.
    records = view.records
    try:
        at = varint.decode(records, 0)[1] + 1
        for _ in ("timestamp delta", "offset delta", "key length"):
            length, at = varint.decode(records, at)
        return length >= _MARKER_KEY.size and _MARKER_KEY.unpack_from(records, at)[1] == _ABORT
    except (IndexError, ValueError, struct.error):
        # Compaction may leave a control batch without its record.
        return False
