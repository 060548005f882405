"""What the fetcher hands over, and the account of the bytes that it keeps alive."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from mirror_connect.connectors.records.positions import NO_EPOCH

_BATCH_HEAD: Final = struct.Struct(">qiib")
_LAST_OFFSET_DELTA: Final = struct.Struct(">i")
_LAST_OFFSET_DELTA_AT: Final = 23
_V2_HEADER: Final = 61
_LENGTH_AT: Final = 12
_NOTHING: Final = memoryview(b"")


class SourcePartition(NamedTuple):
    """A partition of the source cluster."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Share:
    """A received frame's bytes, shared by the partitions in it: all of it stays alive until the last one is done."""

    __slots__ = ("_freed", "_parts", "_size")

    def __init__(self, size: int, parts: int, freed: Callable[[int], None]) -> None:
        self._size = size
        self._parts = parts
        self._freed = freed

    def part_done(self) -> None:
        """One partition's piece is no longer needed."""
        self._parts -= 1
        if self._parts == 0:
            self._freed(self._size)


@dataclass(eq=False, slots=True)
class Fetched:
    """What one fetch brought of one partition: whole batches only (a cut-off one at the end is not in `buffer`).

    Brokers never begin with a cut-off one: where the first batch claims to be longer than what came, its length is wrong,
    and `buffer` is all that came, for the reader to find that out.

    `buffer` may start in the middle of a batch: its first records can lie below `fetch_offset` and are not wanted.
    `next_offset` is one past the last offset of the last batch. `aborted`: (producer id, first offset) of the aborted
    transactions that overlap (read_committed only). `last_stable_offset` and `log_start` are -1 if the broker didn't say.
    `topic_id`: the topic's, which one made again under its name doesn't have; None where there are none.
    `epochs`: as whole_batches has them; where the fetch begins below what came before, the log was truncated there.
    `epoch_before`: of the record in front of `fetch_offset`, NO_EPOCH where it isn't known.
    """

    partition: SourcePartition
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

    def release(self) -> None:
        """The bytes are no longer needed: frees room for further fetches; `buffer` is empty afterwards.

        Calling it twice does nothing more. Slices the caller still holds stay valid, but keep their memory uncounted.
        """
        released, self._released = self._released, None
        if released is not None:
            size, self.buffer = len(self.buffer), _NOTHING
            released(size)


class WholeBatches(NamedTuple):
    """`size`: the bytes that whole batches take at the front; `next_offset`: the one after the last of them.

    `epochs`: (offset, leader epoch) of the first batch and of each with another epoch than the one before it; NO_EPOCH for
    formats that hold none.
    """

    size: int
    next_offset: int
    epochs: list[tuple[int, int]]


def whole_batches(records: memoryview) -> WholeBatches:
    """What is at the front of `records`; (0, -1, []) when not even one is whole.

    Reads headers only, of every message format: up to v1 an entry's own offset is its last one (the wrapper of a compressed
    set has that of its last message), in v2 a delta is added.
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
    offset = _BATCH_HEAD.unpack_from(records, last)[0]
    if magic >= 2 and at - last >= _V2_HEADER:
        offset += _LAST_OFFSET_DELTA.unpack_from(records, last + _LAST_OFFSET_DELTA_AT)[0]
    return WholeBatches(at, offset + 1, epochs)
