"""The sending half of a round trip: makes rows of batches, and sends them to the feeder.

Spark keeps rows back until a batch is full. When nothing more is to be sent, pads push them out.

Spark's code is compiled as it runs. So rows that are no records go first, while the task connects to its clusters.
"""

from __future__ import annotations

import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from math import isqrt
from typing import Any, Final

import pyarrow as pa

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.connectors.task_protocol import SourceRange
from mirror_connect.kafka_io.records.compiled import SourceOffsets
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError, ProducerBatch
from mirror_connect.spark_jobs.compute.arrow_rows import ReadPiece, Rows
from mirror_connect.spark_jobs.compute.batch_pieces import pieces_of
from mirror_connect.spark_jobs.compute.feeder_socket import END, FeederListener, ended
from mirror_connect.spark_jobs.compute.sent_pieces import SentPiece, SubmittedBatch
from mirror_connect.spark_jobs.task_context import SparkLostError

# The shortest time between two flushes: each costs Spark and the feeder about a millisecond of processor time.
FLUSH_S: Final = 0.005
# The same while the last flush has not come back: Spark has enough to do.
FLUSH_AGAIN_S: Final = 0.1
# Of rows in one message: Spark holds several of them in its memory.
MESSAGE_BYTES: Final = 1 << 20
# Batches of a few records go in one message, if others wait behind them.
HELD_BYTES: Final = 256 << 10
# Fewer bytes than these wait for the next flush, without which they would not come back anyway.
LEAST_BYTES: Final = 32 << 10
# So many bytes since the last flush show a stream whose rows push out those before them.
PUSHING_BYTES: Final = 64 << 10
# Before the first record: Spark is warm when so many answers in a row took no longer than this. That long it may take.
QUICK_S: Final = 0.004
QUICK_ANSWERS: Final = 3
# So many suspects are sent one by one. Of more, parts of as many as there are parts.
FEW_SUSPECTS: Final = 64
WARM_S: Final = 2.0
_BUFFER: Final = 256 << 10


class _Answered:
    """A flush has come back."""


class RowSender:
    """`setting`: of the errors of records that can't be sent. `sent`: the pieces that Spark has, in order.

    `on_part(batch)` is called when a piece of it has come back, and when no more follow. `on_failure`: no rows are sent any
    more.
    """

    def __init__(
        self,
        listener: FeederListener,
        encoder: Rows,
        setting: str,
        *,
        on_part: Callable[[SubmittedBatch], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self.sent: deque[SentPiece] = deque()
        self._listener = listener
        self._encoder = encoder
        self._setting = setting
        self._on_part = on_part
        self._on_failure = on_failure
        # None at the end. No SimpleQueue: see pyproject.toml.
        self._waiting: queue.Queue[SubmittedBatch | _Answered | None] = queue.Queue()
        self._next_row = self._messages = 0
        # What goes with the next message, and its bytes. Each message costs Spark and the feeder half a millisecond.
        self._held: list[ReadPiece] = []
        self._held_bytes = 0
        self._flushed_at = 0.0
        # `_flushing` is set by one thread and cleared by another one: a flush has not come back.
        self._unflushed = self._flushing = False
        self._unflushed_bytes = 0
        # Rows without a number have come back.
        self._answered = threading.Event()
        self._has_work = self._failed = False
        self._suspects: Mapping[TopicPartition, SourceRange] = {}
        self._too_much: frozenset[tuple[TopicPartition, int]] = frozenset()
        # Of suspects: what alone Spark has now.
        self._alone: SourceRange | None = None
        # Open until `close`.
        self._connection: socket.socket | None = None

    def know(self, suspects: Sequence[SourceRange], too_much: Sequence[SourceRange]) -> None:
        """See TaskSpec. Before the first batch. A piece with suspects goes in parts, and Spark has one of them at a time."""
        self._suspects = {TopicPartition(each.topic, each.partition): each for each in suspects}
        self._too_much = frozenset((TopicPartition(each.topic, each.partition), each.first) for each in too_much)

    def under_way(self) -> tuple[SourceRange, ...]:
        """The records that Spark has, by partition."""
        if self._alone is not None:
            return (self._alone,)
        found: dict[TopicPartition, SourceRange] = {}
        for each in self.sent.copy():
            partition = each.submitted.batch.partition
            first = found[partition].first if partition in found else each.piece.first_offset
            found[partition] = SourceRange(partition.topic, partition.partition, first, each.piece.last_offset)
        return tuple(found.values())

    def put(self, batch: SubmittedBatch) -> None:
        """The batch goes to Spark after those before it."""
        self._has_work = True
        self._waiting.put(batch)

    def answered(self) -> None:
        """Rows without a number have come back: a flush, or what warms Spark up."""
        # At once: behind batches that wait in the queue it would come late.
        self._flushing = False
        self._answered.set()
        self._waiting.put(_Answered())

    def end(self) -> None:
        """Nothing follows. Rows that are there are sent, and Spark's input ends in order."""
        self._has_work = True
        self._waiting.put(None)

    def give_up(self) -> None:
        """No answer comes any more, so nobody may wait for one."""
        self._failed = True
        self._answered.set()

    def close(self) -> None:
        """Nobody wants rows any more: a thread that still sends ends, and the feeder hears of it."""
        if self._connection is not None:
            ended(self._connection)

    def run(self) -> None:
        """Waits for the feeder, then sends until the end."""
        try:
            connection = self._listener.accept(lambda: not self._failed)
        except OSError as error:
            self._on_failure(SparkLostError(str(error)))
            return
        self._connection = connection
        try:
            with connection.makefile("wb", buffering=_BUFFER) as out:
                with pa.ipc.new_stream(out, self._encoder.schema) as stream:
                    out.flush()
                    self._warm_up(stream, out)
                    self._send_all(stream, out)
                out.write(END)
            connection.shutdown(socket.SHUT_WR)
        except OSError as error:
            self._on_failure(SparkLostError(f"Spark takes no rows any more: {error}"))
            ended(connection)
        except Exception as error:  # noqa: BLE001 — the task fails with it
            self._on_failure(error)
            ended(connection)

    def _warm_up(self, stream: Any, out: Any) -> None:
        """Ends as soon as Spark is quick, or a record is there."""
        until = time.monotonic() + WARM_S
        quick = 0
        while quick < QUICK_ANSWERS and not self._has_work and not self._failed:
            began = time.monotonic()
            self._answered.clear()
            stream.write_batch(self._encoder.samples)
            stream.write_batch(self._encoder.pads)
            out.flush()
            if not self._answered.wait(until - began) or time.monotonic() > until:
                return
            quick = quick + 1 if time.monotonic() - began <= QUICK_S else 0

    def _send_all(self, stream: Any, out: Any) -> None:
        while True:
            try:
                found = self._next()
            except queue.Empty:
                self._flush(stream, out)
                continue
            if found is None:
                self._write_held(stream)
                return
            if isinstance(found, _Answered):
                continue
            if not found.batch.dropped:
                self._send(stream, out, found)
            if self._held_bytes >= LEAST_BYTES and self._waiting.empty():
                self._write_held(stream)
            self._on_part(found)

    def _next(self) -> SubmittedBatch | _Answered | None:
        """queue.Empty if a flush is due: also if others wait, unless they push out themselves what was sent before."""
        if not self._unflushed:
            return self._waiting.get()
        wait = self._flushed_at + (FLUSH_AGAIN_S if self._flushing else FLUSH_S) - time.monotonic()
        if wait <= 0 and self._unflushed_bytes < PUSHING_BYTES:
            raise queue.Empty
        return self._waiting.get(wait > 0, max(wait, 0.0))

    def _flush(self, stream: Any, out: Any) -> None:
        self._write_held(stream)
        # Before the answer can be there.
        self._flushing = True
        stream.write_batch(self._encoder.pads)
        out.flush()
        self._flushed_at, self._unflushed, self._unflushed_bytes = time.monotonic(), False, 0

    def _send(self, stream: Any, out: Any, submitted: SubmittedBatch) -> None:
        try:
            for piece, codec in pieces_of(submitted, self._setting):
                self._send_piece(stream, out, submitted, piece, codec)
                self._unflushed = True
        except (CorruptBatchError, RecordError) as error:
            submitted.behind = error

    def _send_piece(self, stream: Any, out: Any, submitted: SubmittedBatch, piece: ProducerBatch, codec: int) -> None:
        partition = submitted.batch.partition
        read = self._encoder.read(piece, partition, time.time_ns() // 1000)
        too_much = self._too_much_of(partition, piece)
        submitted.piece_leaves()
        self._unflushed_bytes += len(piece.records)
        most = min(HELD_BYTES, MESSAGE_BYTES // 4)
        if self._held_bytes + len(piece.records) > most:
            self._write_held(stream)
        suspects = self._suspects.get(partition)
        if suspects is not None and suspects.first <= piece.last_offset and piece.first_offset <= suspects.last:
            self._write_held(stream)
            sent = SentPiece(submitted, piece, codec, self._messages, too_much=too_much)
            self._send_carefully(stream, out, sent, self._rows_of(read, too_much))
            return
        alone = len(piece.records) > most or bool(too_much)
        if alone:
            self._write_held(stream)
        # Before it is sent: the answer may be there at once.
        self.sent.append(SentPiece(submitted, piece, codec, self._messages, too_much=too_much))
        if not alone:
            self._held.append(read)
            self._held_bytes += len(piece.records)
            return
        self._messages += 1
        rows = self._rows_of(read, too_much)
        size = max(1, piece.count * MESSAGE_BYTES // len(piece.records))
        for at in range(0, piece.count, size):
            stream.write_batch(rows.slice(at, size))

    def _rows_of(self, piece: ReadPiece, without: Collection[int]) -> Any:
        """Those of one piece; nothing in the rows `without`."""
        rows = self._encoder.of([piece], self._next_row)
        self._next_row += piece.count
        return self._encoder.without(rows, without) if without else rows

    def _too_much_of(self, partition: TopicPartition, piece: ProducerBatch) -> tuple[int, ...]:
        """The numbers of those records of a piece."""
        wanted = {offset for where, offset in self._too_much if where == partition}
        if not any(piece.first_offset <= each <= piece.last_offset for each in wanted):
            return ()
        offsets = [o for first, count in SourceOffsets(piece).of(0, piece.count) for o in range(first, first + count)]
        return tuple(number for number, offset in enumerate(offsets) if offset in wanted)

    def _send_carefully(self, stream: Any, out: Any, sent: SentPiece, rows: Any) -> None:
        """Sends one part of a piece after the other. The next attempt divides the one at which Spark ends."""
        partition, count = sent.submitted.batch.partition, sent.piece.count
        suspects = self._suspects[partition]
        several = suspects.last - suspects.first + 1
        size = 1 if several <= FEW_SUSPECTS else isqrt(several)
        while self.sent and not self._failed:
            self._push(stream, out)
        if self._failed:
            return
        self.sent.append(sent)
        offsets = SourceOffsets(sent.piece)
        for at in range(0, count, size):
            ranges = offsets.of(at, min(size, count - at))
            last, more = ranges[-1]
            self._alone = SourceRange(partition.topic, partition.partition, ranges[0][0], last + more - 1)
            stream.write_batch(rows.slice(at, size))
            self._messages += 1
            while sent.missing > max(0, count - at - size) and not self._failed:
                self._push(stream, out)
            if self._failed:
                return
        self._alone = None

    def _push(self, stream: Any, out: Any) -> None:
        """Pushes out what Spark has, and waits a moment for it."""
        self._answered.clear()
        stream.write_batch(self._encoder.pads)
        out.flush()
        self._answered.wait(FLUSH_AGAIN_S)

    def _write_held(self, stream: Any) -> None:
        if self._held:
            rows = self._encoder.of(self._held, self._next_row)
            self._next_row += rows.num_rows
            stream.write_batch(rows)
            self._held, self._held_bytes = [], 0
            self._messages += 1
