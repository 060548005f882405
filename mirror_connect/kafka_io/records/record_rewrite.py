"""Rewrites batches that cannot be copied as they are: drops records, applies transformations, sets timestamps.

Only the numbers of a record are written again, unless a transformation changes more. A record takes two to three
microseconds here. compiled.py does the same where it can, in less than a tenth of one; what it leaves over is done here.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from copy import copy
from math import inf

from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.connectors.record_steps import Steps
from mirror_connect.kafka_io.records import compiled, varint
from mirror_connect.kafka_io.records.batch_builder import pack
from mirror_connect.kafka_io.records.json_transforms import (
    OnError,
    looks_into_json,
    transform_json,
    transformed_json,
)
from mirror_connect.kafka_io.records.record_batch import LOG_APPEND_TIME, BatchView, ProducerBatch, as_is, stamp
from mirror_connect.kafka_io.records.record_transforms import only_bytes, transform, transformed
from mirror_connect.kafka_io.records.unpacked_records import (
    EARLIEST,
    LATEST,
    RECORD_OVERHEAD,
    REWRITTEN_RECORDS,
    Record,
    decompress_records,
    in_order,
    read_batch,
)


def _nothing(_: int) -> None: ...


def rewrite(
    view: BatchView,
    from_offset: int,
    steps: Steps = (),
    on_filtered: Callable[[int], None] = _nothing,
    on_error: OnError | None = None,
    *,
    most_bytes: float = inf,
) -> Iterator[ProducerBatch]:
    """The batch without records below `from_offset`, without gaps, with the timestamps that a consumer sees.

    It comes in pieces of REWRITTEN_RECORDS, or about `most_bytes` decompressed ones, nothing if no record is left. A larger
    record is a piece of its own. Each piece is checked and made when it is requested. With a delete horizon as base
    timestamp, the records' deltas are relative to it (KIP-534), so it needs no special case. CorruptBatchError for records
    that contradict the header.

    `steps`: transformations to apply to the records. `on_filtered` gets how many of them they have dropped. `on_error` gets
    a record that they can't take, which is then left out. Without it RecordError follows the pieces of those before.
    """
    failed: RecordError | None = None
    if view.magic >= 2 and view.count == 0:  # compaction keeps the header of a producer's last batch
        return
    data, transformed_here = decompress_records(view), False
    before: bytes | None = data
    if steps and view.magic >= 2:
        if looks_into_json(steps):
            before = None
            after, kept, filtered, failed = transform_json(data, view, from_offset, steps, on_error)
        else:
            after, kept = transform(data, view.count, only_bytes(steps), view.base_offset)
            filtered = view.count - kept
        on_filtered(filtered)
        if failed is not None and (not kept or failed.offset <= from_offset):
            raise failed
        if not kept:
            return
        data, transformed_here = after, after is not data
        view = copy(view)
        view.count = kept
        if failed is not None:
            view.last_offset = failed.offset - 1
    # That one sends the records as they were fetched.
    if (
        view.log_append_time
        and not transformed_here
        and len(data) <= most_bytes
        and (whole := _with_the_brokers_time(view, data, from_offset)) is not None
    ):
        yield whole
        return
    left: int | None = from_offset
    if view.magic >= 2:
        left = yield from compiled.rewrite(view, data, from_offset, REWRITTEN_RECORDS, most_bytes, whole=before)
    if left is not None:
        records, codec = read_batch(view, data)
        if steps and view.magic < 2:
            records = _of_legacy(records, left, steps, on_filtered, on_error)
        failed = (yield from _in_pieces(view, records, codec, left, most_bytes)) or failed
    if failed is not None:
        raise failed


def _in_pieces(
    view: BatchView, records: Iterable[Record], codec: int, from_offset: int, most_bytes: float
) -> Generator[ProducerBatch, None, RecordError | None]:
    """The pieces in Python. It returns the error of the record behind the last piece."""
    begins = None if view.magic < 2 else max(view.base_offset, from_offset)
    piece: list[Record] = []
    measure = 0
    last_offset, failed = view.last_offset, None
    try:
        for record in in_order(records, view, from_offset):
            own = len(record[2]) + RECORD_OVERHEAD
            if piece and (len(piece) == REWRITTEN_RECORDS or measure + own > most_bytes):
                last = piece[-1][0]
                yield pack(piece, codec, piece[0][0] if begins is None else begins, last)
                piece, begins, measure = [], last + 1, 0
            piece.append(record)
            measure += own
    except RecordError as error:
        last_offset, failed = error.offset - 1, error
    if piece:
        yield pack(piece, codec, piece[0][0] if begins is None else begins, last_offset)
    return failed


def _of_legacy(
    records: Iterable[Record],
    from_offset: int,
    steps: Steps,
    on_filtered: Callable[[int], None],
    on_error: OnError | None,
) -> Iterator[Record]:
    for offset, timestamp, before in records:
        if offset < from_offset:
            continue
        try:
            rest = after_steps((offset, timestamp, before), steps)
        except RecordError as error:
            if on_error is None:
                raise
            on_error(error)
            continue
        if rest is None:
            on_filtered(1)
        else:
            yield offset, timestamp, rest


def after_steps(record: Record, steps: Steps) -> bytes | None:
    """What one record's bytes become; None if the steps drop it. RecordError."""
    offset, timestamp, rest = record
    if looks_into_json(steps):
        return transformed_json(rest, steps, offset, timestamp)
    return transformed(rest, only_bytes(steps))


def _with_the_brokers_time(view: BatchView, data: bytes, from_offset: int) -> ProducerBatch | None:
    """The batch with LogAppendTime as a change of its header alone: its records have one time and nothing else is to change.

    Producers that are busy, and those that send single records, write such batches. Compressing is most of a rewrite's cost.
    """
    if from_offset > view.base_offset or view.count != view.last_offset - view.base_offset + 1:
        return None
    functions = compiled.functions
    delta = _common_delta(data, view.count) if functions is None else functions.common_delta(data, view.count)
    if delta is None or not EARLIEST <= view.max_timestamp - delta <= LATEST:
        return None
    batch = as_is(view)
    batch.base_timestamp = view.max_timestamp - delta
    batch.append_time = None
    return batch


def with_append_time(batch: ProducerBatch) -> list[ProducerBatch]:
    """The batch with its `append_time` on all records, in pieces; for one that `as_is` made. CorruptBatchError."""
    view = BatchView(memoryview(stamp(batch, -1, -1, -1)))
    view.base_offset, view.last_offset = batch.first_offset, batch.last_offset
    view.attributes |= LOG_APPEND_TIME
    return list(rewrite(view, batch.first_offset))


def _common_delta(data: bytes, count: int) -> int | None:
    """The timestamp delta of all records. None if they have several, or offsets other than 0, 1, 2 …, or are not valid."""
    at, common = 0, None
    try:
        for number in range(count):
            length, at = varint.decode(data, at)
            following = at + length
            delta, at = varint.decode(data, at + 1)
            offset, at = varint.decode(data, at)
            common = delta if number == 0 else common
            if length < RECORD_OVERHEAD or not at <= following <= len(data) or (offset, delta) != (number, common):
                return None
            at = following
    except (IndexError, ValueError):
        return None
    return common if at == len(data) else None
