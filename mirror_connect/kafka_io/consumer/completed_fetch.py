"""The batches that one fetch brought of one partition, and the count of the memory that they keep alive."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.source_offsets import NO_EPOCH
from mirror_connect.kafka_io.records.record_batch import LARGEST_OFFSET, NO_TIMESTAMP, first_timestamp

_BATCH_HEAD: Final = struct.Struct(">qiib")
# The delta of the last offset, the first and the newest timestamp.
_LAST_OFFSET_DELTA: Final = struct.Struct(">iqq")
_LAST_OFFSET_DELTA_AT: Final = 23
_V2_HEADER: Final = 61
_LENGTH_AT: Final = 12
_NOTHING: Final = memoryview(b"")


class Share:
    """The bytes of a received frame, shared by the partitions in it: all stay alive until the last one is done."""

    __slots__ = ("_freed", "_parts", "_size")

    def __init__(self, size: int, parts: int, freed: Callable[[int], None]) -> None:
        self._size = size
        self._parts = parts
        self._freed = freed

    def part_done(self) -> None:
        """The piece of one partition is no longer needed."""
        self._parts -= 1
        if self._parts == 0:
            self._freed(self._size)


@dataclass(eq=False, slots=True)
class CompletedFetch:
    """What one fetch brought of one partition: whole batches only. A batch cut off at the end is not in `buffer`.

    Brokers never begin an answer with a batch that is cut off. So if the first batch claims to be longer than the answer,
    its length is corrupt. Then `buffer` is the whole answer, and the reader finds the corruption.

    The first batch may begin below `fetch_offset`; its records below that are not wanted.
    `next_offset` is one past the last offset of the last batch. `aborted`: (producer id, first offset) of the aborted
    transactions that overlap (read_committed only). `last_stable_offset` and `log_start` are -1 if the broker sent none.
    `topic_id`: a topic that is created again under the same name has another one; None from brokers without topic ids.
    `epochs`: as in WholeBatches. If the fetch begins below an earlier one, the log was truncated there.
    `epoch_before`: of the record before `fetch_offset`, NO_EPOCH if it isn't known.
    `newest_ms`: about the timestamp of its newest record; `following_ms`: of the first one in the batch that was cut off
    behind them. NO_TIMESTAMP where they aren't known.
    """

    partition: TopicPartition
    buffer: memoryview
    fetch_offset: int
    next_offset: int
    high_watermark: int
    last_stable_offset: int
    log_start: int
    aborted: tuple[tuple[int, int], ...]
    topic_id: bytes | None = None
    epochs: Sequence[tuple[int, int]] = ()
    epoch_before: int = NO_EPOCH
    _released: Callable[[int], None] | None = field(default=None, repr=False)
    newest_ms: int = NO_TIMESTAMP
    following_ms: int = NO_TIMESTAMP

    @property
    def oldest_ms(self) -> int:
        """About the timestamp of its first record; NO_TIMESTAMP if it isn't known, or after `release`."""
        return first_timestamp(self.buffer)

    def release(self) -> None:
        """Frees room for further fetches: the bytes are no longer needed. `buffer` is empty afterwards.

        A second call does nothing. Slices that the caller still holds stay valid, but nobody counts their memory.
        """
        released, self._released = self._released, None
        if released is not None:
            size, self.buffer = len(self.buffer), _NOTHING
            released(size)


class WholeBatches(NamedTuple):
    """The whole batches at the front of some bytes. `size`: of all of them; `next_offset`: one past the last of them.

    `epochs`: (offset, leader epoch) of the first batch, and of each batch whose epoch differs from the one before it;
    NO_EPOCH for formats without epochs. `newest_ms`: the newest timestamp in the last of them, NO_TIMESTAMP if unknown.
    """

    size: int
    next_offset: int
    epochs: list[tuple[int, int]]
    newest_ms: int = NO_TIMESTAMP


def whole_batches(records: memoryview) -> WholeBatches:
    """Finds the whole batches at the front of `records`; (0, -1, []) if there is none.

    It reads headers only, of every message format. Up to v1 an entry's own offset is its last one (the wrapper of a
    compressed set has the offset of its last message); in v2 a delta is added.
    """
    at, end, last, magic = 0, len(records), -1, 0
    epochs: list[tuple[int, int]] = []
    # Where older formats have a checksum, v2 has the epoch.
    known: int | None = None
    while end - at >= _BATCH_HEAD.size:
        offset, length, epoch, version = _BATCH_HEAD.unpack_from(records, at)
        after = at + _LENGTH_AT + length
        if length <= 0 or after > end:
            break
        if epoch != known or version < 2:
            known = epoch if version >= 2 else None
            if version >= 2 or not epochs or epochs[-1][1] != NO_EPOCH:
                epochs.append((offset, epoch if version >= 2 else NO_EPOCH))
        last, magic, at = at, version, after
    if last < 0:
        return WholeBatches(0, -1, [])
    offset, newest = _BATCH_HEAD.unpack_from(records, last)[0], NO_TIMESTAMP
    if magic >= 2 and at - last >= _V2_HEADER:
        delta, _, newest = _LAST_OFFSET_DELTA.unpack_from(records, last + _LAST_OFFSET_DELTA_AT)
        offset += delta
    # A corrupt one must not break the next request for all other partitions; the reader finds the corruption.
    return WholeBatches(at, min(offset + 1, LARGEST_OFFSET), epochs, newest)
