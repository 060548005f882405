"""The pieces in which a batch goes through Spark: uncompressed, after the steps before Spark's, and none too large."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from copy import copy
from typing import Final

from mirror_connect.connectors.record_errors import OriginalRecord, RecordError
from mirror_connect.kafka_io.records.compiled import SourceOffsets
from mirror_connect.kafka_io.records.compression import NONE, CodecError, decompress
from mirror_connect.kafka_io.records.record_batch import CODEC_MASK, BatchView, CorruptBatchError, ProducerBatch
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from mirror_connect.kafka_io.records.unpacked_records import unpack
from mirror_connect.spark_jobs.compute.sent_pieces import SubmittedBatch

# Of records that are rows at a time. A batch may decompress to hundreds of megabytes, and rows need that several times.
PIECE_BYTES: Final = 4 << 20
# No record that is larger goes through Spark, which needs its memory several times.
MOST_BYTES: Final = 32 << 20


def pieces_of(submitted: SubmittedBatch, setting: str) -> Iterator[tuple[ProducerBatch, int]]:
    """The pieces, and the codec that each gets again. `setting`: of an error. CorruptBatchError, RecordError.

    The batch gets to know of the records that are dropped, and with its tolerance of those that have an error.
    """
    batch = submitted.batch
    view = batch.view
    on_error = submitted.skip if submitted.tolerant else None
    pieces = rewrite(_plain(view), batch.from_offset, batch.steps, submitted.filter, on_error, most_bytes=PIECE_BYTES)
    for piece in pieces:
        codec = piece.codec if view.magic < 2 else view.codec
        if piece.codec != NONE:
            piece.records, piece.codec = decompress(piece.codec, piece.records), NONE
        if len(piece.records) <= MOST_BYTES or piece.count > 1:
            yield piece, codec
        else:
            _refuse(view, piece, setting, on_error)


def originals(view: BatchView, from_offset: int, wanted: Collection[int]) -> dict[int, OriginalRecord]:
    """The source's records with these offsets. CorruptBatchError."""
    records, _ = unpack(view, from_offset)
    return {offset: OriginalRecord(timestamp, rest) for offset, timestamp, rest in records if offset in wanted}


def _plain(view: BatchView) -> BatchView:
    """The batch as if it had never been compressed. CorruptBatchError."""
    if view.magic < 2 or view.codec == NONE:
        return view
    plain = copy(view)
    try:
        plain._records = decompress(view.codec, view.records)
    except CodecError as error:
        raise CorruptBatchError(view.base_offset, str(error)) from None
    plain.attributes &= ~CODEC_MASK
    return plain


def _refuse(
    view: BatchView, piece: ProducerBatch, setting: str, on_error: Callable[[RecordError], None] | None
) -> None:
    """This piece is one record that is too large. RecordError without `on_error`."""
    ((offset, _),) = SourceOffsets(piece).of(0, 1)
    error = RecordError(
        offset,
        setting,
        f"it has {len(piece.records)} bytes, and at most {MOST_BYTES} go through Spark",
        original=originals(view, offset, {offset}).get(offset),
    )
    if on_error is None:
        raise error
    on_error(error)
