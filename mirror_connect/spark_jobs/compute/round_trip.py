"""Takes batches of records to Spark and back: the task's side, with a thread for each direction.

`row_sender.py` makes rows of the records and sends them to the feeder. `row_reader.py` gets what Spark has made of them, in
the same order, and makes batches of it. Here is what the task sees of both.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from mirror_connect.connectors.mirror.record_transform import RecordTransform, setting_of_transform
from mirror_connect.connectors.mirror.transform_sql import TransformSql
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import SourceRange
from mirror_connect.spark_jobs.compute.arrow_rows import Rows
from mirror_connect.spark_jobs.compute.feeder_socket import FeederListener
from mirror_connect.spark_jobs.compute.piece_changes import PieceChanges
from mirror_connect.spark_jobs.compute.row_reader import RowReader
from mirror_connect.spark_jobs.compute.row_sender import RowSender
from mirror_connect.spark_jobs.compute.sent_pieces import SubmittedBatch
from mirror_connect.spark_jobs.copy.computed_batch import ComputedBatch, Waiting
from mirror_connect.spark_jobs.task_context import SparkLostError

# How much may be submitted ahead, as it was fetched.
ROOM_BYTES: Final = 8 << 20
# How long Spark has for the end of an epoch; and for that of a run, whose rows nobody wants any more.
END_S: Final = 20.0
LAST_END_S: Final = 2.0
# After so many seconds without any record back, a statement is suspected if the heap is full. All are slower then.
HELD_S: Final = 10.0
# So many batches end at once in the event loop, which others wait for.
ENDS_AT_ONCE: Final = 32


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
        self._listener = listener
        self._encoder = Rows(columns, transform.secret_names, transform.objects)
        self._sender = RowSender(
            listener,
            self._encoder,
            setting_of_transform(transform),
            on_part=self._part_ended,
            on_failure=self._fail,
        )
        self._reader = RowReader(
            rows,
            self._sender.sent,
            PieceChanges(transform, changes),
            on_answer=self._sender.answered,
            on_part=self._part_ended,
            on_failure=self._fail,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._bytes = 0
        self._tolerant = self._run_is_over = False
        # Batches to which nothing more happens; and whether the event loop is about to look.
        self._over: deque[SubmittedBatch] = deque()
        self._told = False
        self._error: Exception | None = None
        self._lost_records: tuple[SourceRange, ...] = ()
        self._lost: asyncio.Future[None] | None = None
        self._sending = threading.Thread(target=self._sender.run, name="to-spark", daemon=True)
        self._reading = threading.Thread(target=self._reader.run, name="from-spark", daemon=True)

    def start(self) -> None:
        """Waits for the feeder in a thread. `close` must follow, as Spark waits for it."""
        self._reading.start()
        self._sending.start()

    def begin(
        self,
        secrets: Mapping[str, str],
        *,
        tolerant: bool = False,
        suspects: Sequence[SourceRange] = (),
        too_much: Sequence[SourceRange] = (),
    ) -> None:
        """See Computing."""
        self._tolerant = tolerant
        self._sender.know(suspects, too_much)
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
        self._sender.put(SubmittedBatch(batch, self._tolerant))

    def has_room(self) -> bool:
        """See Computing."""
        return self._bytes < ROOM_BYTES

    def waits(self) -> Waiting | None:
        """See Computing."""
        sent = self._sender.sent
        try:
            head = sent[0]
        except IndexError:
            return None
        found: dict[TopicPartition, tuple[int, int]] = {}
        # More may be sent meanwhile, which is another message.
        with contextlib.suppress(RuntimeError):
            for each in sent:
                if each.message != head.message:
                    break
                partition = each.submitted.batch.partition
                first, _ = found.get(partition, (each.piece.first_offset, 0))
                found[partition] = first, each.piece.last_offset
        return Waiting(found, time.monotonic() - max(head.since, self._reader.came)) if found else None

    def lost(self) -> tuple[SourceRange, ...]:
        """The records that Spark has, and does not give back any more: when it has ended."""
        return self._lost_records

    def held(self) -> tuple[SourceRange, ...]:
        """The records that Spark has, if a statement has given back none for HELD_S. In any thread."""
        if not isinstance(self.transform, TransformSql):
            # A function has a process of its own.
            return ()
        waiting = self.waits()
        return () if waiting is None or waiting.seconds < HELD_S else self._sender.under_way()

    def end_run(self) -> None:
        """The run has no other epoch: `close` does not wait for its rows."""
        self._run_is_over = True

    def close(self) -> None:
        """Ends the epoch for Spark. SparkLostError if Spark has not ended it in order: then its attempt must fail."""
        self._reader.end()
        self._sender.end()
        waits = self.waits()
        hopeless = self._run_is_over or (waits is not None and waits.seconds > END_S)
        until = time.monotonic() + (LAST_END_S if hopeless else END_S)
        for thread in (self._sending, self._reading):
            thread.join(max(0.0, until - time.monotonic()))
        self._listener.close()
        self._sender.close()
        if self._reading.is_alive():
            raise SparkLostError("Spark did not end an epoch in time")
        if isinstance(self._error, SparkLostError):
            raise self._error

    # In the threads.

    def _part_ended(self, submitted: SubmittedBatch) -> None:
        if not submitted.part_ends():
            return
        # Before the question whether the loop will look: it forgets that first, and looks then.
        self._over.append(submitted)
        if self._told:
            return
        self._told = True
        loop = self._loop
        assert loop is not None
        try:
            loop.call_soon_threadsafe(self._end)
        except RuntimeError:
            return  # the task has ended

    def _fail(self, error: Exception) -> None:
        if self._error is None:
            self._error = error
            # Before the sender goes on, to see that it writes to nobody.
            self._lost_records = self._sender.under_way() if isinstance(error, SparkLostError) else ()
        self._sender.give_up()
        if self._loop is not None:
            try:
                self._loop.call_soon_threadsafe(self._lose, error)
            except RuntimeError:
                return

    # In the event loop.

    def _end(self) -> None:
        self._told = False
        try:
            for _ in range(min(ENDS_AT_ONCE, len(self._over))):
                submitted = self._over.popleft()
                self._bytes -= submitted.batch.view.size
                submitted.end()
        finally:
            if self._over:
                self._told = True
                asyncio.get_running_loop().call_soon(self._end)

    def _lose(self, error: Exception) -> None:
        if self._lost is not None and not self._lost.done():
            self._lost.set_exception(error)
            self._lost.exception()  # counts as seen, if the task ends before anybody waits
