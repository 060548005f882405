"""Splits a batch that is larger than the target allows, as Kafka's ProducerBatch.split does."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from mirror_connect.kafka_io.records import compiled
from mirror_connect.kafka_io.records.batch_builder import pack
from mirror_connect.kafka_io.records.compression import CodecError, DecompressesTooMuchError, decompress
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError, ProducerBatch
from mirror_connect.kafka_io.records.unpacked_records import RECORD_OVERHEAD, REWRITTEN_RECORDS, Record, read_records

# Splitting runs in the event loop and takes some microseconds a record. Batches above these limits are not split.
SPLIT_RECORDS: Final = 200_000
SPLIT_DECOMPRESSED: Final = 64 << 20
# How much of the limit the pieces of a split batch should fill: their compressed size is only known afterwards.
FILLED: Final = 0.95


class TooMuchToSplitError(Exception):
    """The batch can't be split within a bounded time. The text says why, in half a sentence."""


def split(batch: ProducerBatch, limit: int) -> list[ProducerBatch]:
    """Splits the batch into batches of at most `limit` bytes and REWRITTEN_RECORDS records each.

    A record larger than `limit` gets a batch of its own. Together, the batches hold the same records and cover the same
    offsets. CorruptBatchError if the records cannot be read, TooMuchToSplitError if that would take too long.
    """
    if batch.count > SPLIT_RECORDS:
        raise TooMuchToSplitError(f"splitting more than {SPLIT_RECORDS} records would delay other partitions")
    try:
        data = decompress(batch.codec, batch.records, SPLIT_DECOMPRESSED)
    except DecompressesTooMuchError as error:
        raise TooMuchToSplitError(str(error)) from None
    except CodecError as error:
        raise CorruptBatchError(batch.first_offset, str(error)) from None
    unpacked = read_records(data, batch.first_offset, batch.base_timestamp, batch.count)
    if batch.size <= limit:
        deque(unpacked, maxlen=0)  # finds corrupt records
        return [batch]
    pieces = compiled.split(batch, data, limit, FILLED, REWRITTEN_RECORDS)
    if pieces is None:
        records = (
            (offset, timestamp, rest)
            for offset, (_, timestamp, rest) in zip(_source_offsets(batch), unpacked, strict=True)
        )
        pieces = list(_pieces(records, len(data), batch.codec, batch.size, limit))
    # They also cover the offsets without a record before the first record and after the last.
    first = pieces[0]
    if first.upstream_offsets is None and first.first_offset != batch.first_offset:
        first.upstream_offsets = ((first.first_offset, first.count),)
    first.first_offset, pieces[-1].last_offset = batch.first_offset, batch.last_offset
    for piece in pieces:
        piece.append_time = batch.append_time
    return pieces


def _pieces(records: Iterable[Record], decompressed: int, codec: int, size: int, limit: int) -> Iterator[ProducerBatch]:
    """`decompressed`: bytes of the records before compression; `size`: about their bytes as one batch."""
    for group, measure in _groups(records, decompressed * min(limit * FILLED / size, 0.5)):
        piece = pack(group, codec, group[0][0], group[-1][0])
        if piece.size <= limit or len(group) == 1:
            yield piece
        else:
            yield from _pieces(group, measure, codec, piece.size, limit)


def _groups(records: Iterable[Record], most: float) -> Iterator[tuple[list[Record], int]]:
    """Groups of consecutive records, and the bytes of each: at most `most` bytes and REWRITTEN_RECORDS records.

    A group has at least one record. If `most` is half of all bytes, there are at least two groups, because even an empty
    record has RECORD_OVERHEAD.
    """
    group: list[Record] = []
    measure = 0
    for record in records:
        own = len(record[2]) + RECORD_OVERHEAD
        if group and (measure + own > most or len(group) == REWRITTEN_RECORDS):
            yield group, measure
            group, measure = [], 0
        group.append(record)
        measure += own
    if group:
        yield group, measure


def _source_offsets(batch: ProducerBatch) -> Iterator[int]:
    for start, count in batch.upstream_offsets or ((batch.first_offset, batch.count),):
        yield from range(start, start + count)
