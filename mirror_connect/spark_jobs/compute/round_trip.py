"""Takes batches of records to Spark and back: the task's side, with a thread for each direction.

One thread makes rows of the records and sends them to the feeder. Another one gets what Spark has made of them, in the same
order, and makes batches of it. A row is known by its number. So a row that is missing, comes twice, or was never sent ends
the task, and is never taken for another one.

Spark keeps rows back until a batch is full. When nothing more is to be sent, pads push them out.

Spark's code is compiled as it runs. So rows that are no records go first, while the task connects to its clusters.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.record_transform import RecordTransform, setting_of_transform
from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.mirror.transform_sql import PYTHON, SQL
from mirror_connect.connectors.record_errors import OriginalRecord, RecordError
from mirror_connect.kafka_io.records.compiled import SourceOffsets
from mirror_connect.kafka_io.records.compression import NONE, CodecError, compress, decompress
from mirror_connect.kafka_io.records.record_batch import CODEC_MASK, BatchView, CorruptBatchError, ProducerBatch
from mirror_connect.kafka_io.records.record_columns import with_columns
from mirror_connect.kafka_io.records.record_rewrite import rewrite, unpack
from mirror_connect.kafka_io.records.record_transforms import MOST_TRANSFORMED, TOO_LARGE
from mirror_connect.spark_jobs.compute.arrow_rows import (
    RowErrors,
    Rows,
    changes_of,
    function_changes,
    keep_column,
    row_numbers,
    whole_column,
)
from mirror_connect.spark_jobs.compute.feeder_socket import END, FeederListener, closed_quietly
from mirror_connect.spark_jobs.compute.records_table import CHANGED, ERROR, FUNCTION_FAULT, KEEP, ROW
from mirror_connect.spark_jobs.copy.computed_batch import ComputedBatch
from mirror_connect.spark_jobs.task_context import SparkLostError

# The shortest time between two flushes: each costs Spark and the feeder about a millisecond of processor time.
FLUSH_S: Final = 0.005
# The same while the last flush has not come back: Spark has enough to do.
FLUSH_AGAIN_S: Final = 0.1
# How much may be submitted ahead, as it was fetched.
ROOM_BYTES: Final = 8 << 20
# Of rows in one message: Spark holds several of them in its memory.
MESSAGE_BYTES: Final = 1 << 20
# Of records that are rows at a time. A batch may decompress to hundreds of megabytes, and rows need that several times.
PIECE_BYTES: Final = 4 << 20
# Batches of a few records go in one message, if others wait behind them.
HELD_BYTES: Final = 256 << 10
# No record that is larger goes through Spark, which needs its memory several times.
MOST_BYTES: Final = 32 << 20
# How long Spark has for the end of an epoch.
END_S: Final = 20.0
# Before the first record: Spark is warm when so many answers in a row took no longer than this. That long it may take.
QUICK_S: Final = 0.004
QUICK_ANSWERS: Final = 3
WARM_S: Final = 2.0
_BUFFER: Final = 256 << 10


class StrangeRowsError(Exception):
    """Spark has given back other rows than it got: a bug here, or of a statement's query."""


@dataclass(slots=True, eq=False)
class _Trip:
    """One submitted batch. `left`: pieces that are on their way, and one while more may follow.

    `error`: of a record, behind the last piece that was made. `behind`: why there are no more pieces than these.
    """

    batch: ComputedBatch
    left: int = 1
    made: list[ProducerBatch] = field(default_factory=list)
    filtered: int = 0
    error: Exception | None = None
    behind: Exception | None = None


@dataclass(slots=True, eq=False)
class _Sent:
    """A piece that Spark has: uncompressed, with the codec that it gets again. `parts`: the rows that came back.

    `grown`: their bytes. They are thrown away if that is more than a batch may become.
    """

    trip: _Trip
    piece: ProducerBatch
    codec: int
    rows: int = 0
    grown: int = 0
    parts: list[Any] = field(default_factory=list)


class _Flushed:
    """A flush has come back."""


class RoundTrip:
    """Of one epoch of one task. `rows`: what Spark gives back. `changes`: the columns that come back changed.

    `submit` and `has_room` are called in the event loop that `begin` was called in, and answers come there.
    """

    def __init__(
        self,
        rows: Iterator[Any],
        listener: FeederListener,
        columns: Sequence[str],
        changes: Sequence[str],
        transform: RecordTransform,
    ) -> None:
        self.transform = transform
        self._by_function = isinstance(transform, TransformFunction)
        self._rows = rows
        self._listener = listener
        self._changes = tuple(changes)
        self._encoder = Rows(columns, transform.secret_names, transform.objects)
        self._loop: asyncio.AbstractEventLoop | None = None
        # Of batches; of what `_take` has seen; None at the end.
        self._submitted: queue.SimpleQueue[ComputedBatch | _Flushed | None] = queue.SimpleQueue()
        self._sent: deque[_Sent] = deque()
        self._next_row = self._expected_row = 0
        # Rows that go with the next message, and their bytes. Each message costs Spark and the feeder half a millisecond.
        self._held: list[Any] = []
        self._held_bytes = 0
        # What both threads change of a trip.
        self._lock = threading.Lock()
        self._bytes = 0
        self._closing = self._tolerant = False
        # Rows without a number have come back.
        self._answered = threading.Event()
        self._error: Exception | None = None
        self._lost: asyncio.Future[None] | None = None
        self._sending = threading.Thread(target=self._send_all, name="to-spark", daemon=True)
        self._reading = threading.Thread(target=self._read_all, name="from-spark", daemon=True)

    def start(self) -> None:
        """Waits for the feeder in a thread. `close` must follow, as Spark waits for it."""
        self._reading.start()
        self._sending.start()

    def begin(self, secrets: Mapping[str, str], *, tolerant: bool = False) -> None:
        """See Computing."""
        self._tolerant = tolerant
        self._encoder.know(secrets)
        self._loop = asyncio.get_running_loop()
        self._lost = self._loop.create_future()
        if self._error is not None:
            self._lose(self._error)

    async def watch(self) -> None:
        """See Computing."""
        assert self._lost is not None
        await asyncio.shield(self._lost)

    def submit(self, batch: ComputedBatch) -> None:
        """See Computing."""
        self._bytes += batch.view.size
        self._submitted.put(batch)

    def has_room(self) -> bool:
        """See Computing."""
        return self._bytes < ROOM_BYTES

    def close(self) -> None:
        """Ends the epoch for Spark. SparkLostError if Spark has not ended it in order: then its attempt must fail."""
        self._closing = True
        self._submitted.put(None)
        self._sending.join(END_S)
        self._reading.join(END_S)
        self._listener.close()
        if self._reading.is_alive():
            raise SparkLostError("Spark did not end an epoch in time")
        if isinstance(self._error, SparkLostError):
            raise self._error

    # To Spark.

    def _send_all(self) -> None:
        try:
            connection = self._listener.accept(lambda: self._error is None)
        except OSError as error:
            self._fail(SparkLostError(str(error)))
            return
        try:
            with connection, connection.makefile("wb", buffering=_BUFFER) as out:
                with pa.ipc.new_stream(out, self._encoder.schema) as stream:
                    out.flush()
                    self._warm_up(stream, out)
                    self._send(stream, out)
                out.write(END)
        except OSError as error:
            self._fail(SparkLostError(f"Spark takes no rows any more: {error}"))
        except Exception as error:  # noqa: BLE001 — the task fails with it
            self._fail(error)
        finally:
            closed_quietly(connection)

    def _warm_up(self, stream: Any, out: Any) -> None:
        """Ends as soon as Spark is quick, or a record is there."""
        until = time.monotonic() + WARM_S
        quick = 0
        while quick < QUICK_ANSWERS and self._bytes == 0 and not self._closing and self._error is None:
            began = time.monotonic()
            self._answered.clear()
            stream.write_batch(self._encoder.samples)
            stream.write_batch(self._encoder.pads)
            out.flush()
            if not self._answered.wait(until - began) or time.monotonic() > until:
                return
            quick = quick + 1 if time.monotonic() - began <= QUICK_S else 0

    def _send(self, stream: Any, out: Any) -> None:
        flushed_at, unflushed, flushing = 0.0, False, False
        while True:
            try:
                pause = FLUSH_AGAIN_S if flushing else FLUSH_S
                wait = flushed_at + pause - time.monotonic() if unflushed else None
                batch = self._submitted.get(wait is None or wait > 0, None if wait is None else max(wait, 0.0))
            except queue.Empty:
                self._write_held(stream)
                stream.write_batch(self._encoder.pads)
                out.flush()
                flushed_at, unflushed, flushing = time.monotonic(), False, True
                continue
            if batch is None:
                self._write_held(stream)
                return
            if isinstance(batch, _Flushed):
                flushing = False
                continue
            trip = _Trip(batch)
            if not batch.dropped:
                try:
                    for piece, codec in self._pieces(trip):
                        self._send_piece(stream, _Sent(trip, piece, codec))
                        unflushed = True
                except (CorruptBatchError, RecordError) as error:
                    trip.behind = error
            if self._submitted.empty():
                self._write_held(stream)
            self._arrived(trip)

    def _pieces(self, trip: _Trip) -> Iterator[tuple[ProducerBatch, int]]:
        batch = trip.batch

        def filter_some(records: int) -> None:
            with self._lock:
                trip.filtered += records

        def skip(error: RecordError) -> None:
            # The other thread may add what Spark has found in a piece before.
            with self._lock:
                batch.skipped.add(error)

        on_error = skip if self._tolerant else None
        pieces = rewrite(
            _plain(batch.view), batch.from_offset, batch.steps, filter_some, on_error, most_bytes=PIECE_BYTES
        )
        yield from uncompressed_pieces(batch.view, pieces, on_error, setting_of_transform(self.transform))

    def _send_piece(self, stream: Any, sent: _Sent) -> None:
        piece = sent.piece
        rows = self._encoder.of(piece, sent.trip.batch.partition, self._next_row, time.time_ns() // 1000)
        with self._lock:
            sent.trip.left += 1
        self._next_row += piece.count
        # Before it is sent: the answer may be there at once.
        self._sent.append(sent)
        most = min(HELD_BYTES, MESSAGE_BYTES // 4)
        if self._held_bytes + len(piece.records) > most:
            self._write_held(stream)
        if len(piece.records) <= most:
            self._held.append(rows)
            self._held_bytes += len(piece.records)
            return
        size = max(1, piece.count * MESSAGE_BYTES // len(piece.records))
        for at in range(0, piece.count, size):
            stream.write_batch(rows.slice(at, size))

    def _write_held(self, stream: Any) -> None:
        if self._held:
            stream.write_batch(self._held[0] if len(self._held) == 1 else _as_one(self._held))
            self._held, self._held_bytes = [], 0

    # From Spark.

    def _read_all(self) -> None:
        try:
            for rows in self._rows:
                self._take(rows)
        except (StrangeRowsError, CorruptBatchError, ConfigError, ValueError) as error:
            self._fail(error)
            # Spark goes on only if it gets rid of its rows.
            self._drain()
        except Exception as error:  # noqa: BLE001 — PySpark has many for a connection that ends
            self._fail(SparkLostError(f"Spark's rows have ended: {type(error).__name__}"))
        else:
            if not self._closing:
                self._fail(SparkLostError("Spark's rows have ended"))

    def _drain(self) -> None:
        try:
            for _ in self._rows:
                pass
        except Exception:  # noqa: BLE001 — the task has failed already
            return

    def _take(self, rows: Any) -> None:
        numbers = rows.column(ROW)
        if numbers.null_count:
            self._answered.set()
            self._submitted.put(_Flushed())
        if numbers.null_count == len(numbers):
            return
        if numbers.null_count == 0:
            self._take_records(rows)
            return
        at = 0
        there = numbers.is_valid().to_pylist()
        while at < len(there):
            end = at
            while end < len(there) and there[end] == there[at]:
                end += 1
            if there[at]:
                self._take_records(rows.slice(at, end - at))
            at = end

    def _take_records(self, rows: Any) -> None:
        count = rows.num_rows
        numbers = rows.column(ROW)
        first = self._expected_row
        if not numbers.equals(row_numbers(first, count)):
            raise StrangeRowsError(f"Spark has given back other rows than {first} to {first + count - 1}")
        self._expected_row += count
        at = 0
        while at < count:
            if not self._sent:
                raise StrangeRowsError(f"Spark has given back row {first + at}, which it did not get")
            sent = self._sent[0]
            some = min(count - at, sent.piece.count - sent.rows)
            part = rows.slice(at, some)
            sent.grown += part.nbytes
            if sent.grown > MOST_TRANSFORMED:
                sent.parts.clear()
            else:
                sent.parts.append(part)
            sent.rows += some
            at += some
            if sent.rows == sent.piece.count:
                self._sent.popleft()
                self._finish(sent)

    def _finish(self, sent: _Sent) -> None:
        """All rows of a piece have come back."""
        trip = sent.trip
        if not trip.batch.dropped and trip.error is None:
            made, filtered, error = self._applied(sent)
            if made is not None:
                trip.made.append(made)
            trip.error = error
            with self._lock:
                trip.filtered += filtered
        self._arrived(trip)

    def _applied(self, sent: _Sent) -> tuple[ProducerBatch | None, int, Exception | None]:
        """What the rows make of a piece, how many records they drop, and the error of the record behind it."""
        try:
            return self._changed(sent)
        except CorruptBatchError as error:
            return None, 0, error

    def _changed(self, sent: _Sent) -> tuple[ProducerBatch | None, int, Exception | None]:
        """As `_applied`. CorruptBatchError."""
        piece, parts = sent.piece, sent.parts
        if sent.grown > MOST_TRANSFORMED:
            raise CorruptBatchError(piece.first_offset, TOO_LARGE)
        errors, kept = whole_column(parts, ERROR), whole_column(parts, KEEP)
        if self._by_function:
            self._check_function(parts, errors)
        failed: RecordError | None = None
        skipped = 0
        if errors.null_count < len(errors):
            kept = pc.and_(kept, errors.is_null())
            failing = [number for number, there in enumerate(errors.is_valid().to_pylist()) if there]
            letters = sent.trip.batch.skipped.letters is not None
            from_source = self._originals(sent, failing) if letters else {}
            found = RowErrors(piece, errors, setting_of_transform(self.transform), from_source)
            if self._tolerant:
                skipped = len(failing)
                with self._lock:
                    for number in failing:
                        sent.trip.batch.skipped.add(found.of(number))
            else:
                # What is before it is copied, and nothing behind it.
                failed = found.of(failing[0])
                rest = len(kept) - failing[0]
                kept = pa.concat_arrays([kept.slice(0, failing[0]), pa.array([False] * rest)])
                skipped = rest
        keep = keep_column(kept)
        filtered = len(kept) - kept.true_count - skipped
        changed = self._changed_columns(sent)
        if keep is None and not changed:
            piece.records, piece.codec = compress(sent.codec, piece.records), sent.codec
            return piece, 0, None
        made = with_columns(piece, changes_of(changed, keep), sent.codec)
        if made is not None and failed is not None:
            made.last_offset = failed.offset - 1
        return made, filtered, failed

    def _originals(self, sent: _Sent, failing: Sequence[int]) -> dict[int, OriginalRecord]:
        """The records of these rows as the source has them, by their offsets: steps may have changed what Spark got."""
        places = SourceOffsets(sent.piece)
        wanted = {first for number in failing for first, _ in places.of(number, 1)}
        batch = sent.trip.batch
        return originals(batch.view, batch.from_offset, wanted)

    def _changed_columns(self, sent: _Sent) -> dict[str, Any]:
        """The columns that came back changed."""
        if self._by_function:
            return function_changes(sent.parts, sent.piece)
        return {name: whole_column(sent.parts, name) for name in self._changes}

    def _check_function(self, parts: Sequence[Any], errors: Any) -> None:
        """ConfigError if the function itself is wrong, whatever the records are."""
        at = pc.index(whole_column(parts, CHANGED), pa.scalar(FUNCTION_FAULT, pa.int32())).as_py()
        if at >= 0:
            raise ConfigError(PYTHON, None, errors[at].as_py())

    # Both.

    def _arrived(self, trip: _Trip) -> None:
        with self._lock:
            trip.left -= 1
            if trip.left:
                return
        loop = self._loop
        assert loop is not None
        try:
            loop.call_soon_threadsafe(self._end, trip)
        except RuntimeError:
            return  # the task has ended

    def _end(self, trip: _Trip) -> None:
        self._bytes -= trip.batch.view.size
        trip.batch.end(trip.made, trip.filtered, trip.error or trip.behind)

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
        # Nobody may wait for an answer that can't come.
        self._answered.set()
        # Nothing comes any more.
        self._answered.set()
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._lose, error)
            except RuntimeError:
                return

    def _lose(self, error: Exception) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_exception(error)
            self._lost.exception()  # counts as seen, if the task ends before anybody waits


def _as_one(batches: Sequence[Any]) -> Any:
    """These batches of rows as one."""
    return pa.Table.from_batches(batches).combine_chunks().to_batches()[0]


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


def originals(view: BatchView, from_offset: int, wanted: Collection[int]) -> dict[int, OriginalRecord]:
    """The source's records with these offsets. CorruptBatchError."""
    records, _ = unpack(view, from_offset)
    return {offset: OriginalRecord(timestamp, rest) for offset, timestamp, rest in records if offset in wanted}


def uncompressed_pieces(
    view: BatchView,
    pieces: Iterable[ProducerBatch],
    on_error: Callable[[RecordError], None] | None = None,
    setting: str = SQL,
) -> Iterator[tuple[ProducerBatch, int]]:
    """These pieces of a batch, and the codec that each gets again. CorruptBatchError.

    `on_error` gets a record that is too large, which is then left out. Without it RecordError. `setting`: of the error.
    """
    for piece in pieces:
        codec = piece.codec if view.magic < 2 else view.codec
        if piece.codec != NONE:
            piece.records, piece.codec = decompress(piece.codec, piece.records), NONE
        if len(piece.records) > MOST_BYTES and piece.count == 1:
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
            continue
        yield piece, codec
