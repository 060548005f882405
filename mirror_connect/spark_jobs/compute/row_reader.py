"""The reading half of a round trip: rows that Spark gives back, in order, as batches again.

A row is known by its number. So a row that is missing, comes twice, or was never sent ends the task, and is never taken for
another one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from mirror_connect.spark_jobs.compute.arrow_rows import row_numbers
from mirror_connect.spark_jobs.compute.piece_changes import PieceChanges
from mirror_connect.spark_jobs.compute.records_table import ROW
from mirror_connect.spark_jobs.compute.sent_pieces import SentPiece, SubmittedBatch
from mirror_connect.spark_jobs.task_context import SparkLostError


class StrangeRowsError(Exception):
    """Spark has given back other rows than it got: a bug here, or of a statement's query."""


class RowReader:
    """`rows`: what Spark gives back. `sent`: the pieces that it has, in order.

    `on_answer` is called when rows without a number have come back. `on_part`: see RowSender. `on_failure`: no rows are read
    any more.
    """

    def __init__(
        self,
        rows: Iterator[Any],
        sent: deque[SentPiece],
        changes: PieceChanges,
        *,
        on_answer: Callable[[], None],
        on_part: Callable[[SubmittedBatch], None],
        on_failure: Callable[[Exception], None],
    ) -> None:
        self._rows = rows
        self._sent = sent
        self._changes = changes
        self._on_answer = on_answer
        self._on_part = on_part
        self._on_failure = on_failure
        self._expected_row = 0
        # When rows of records came back the last time, on the monotonic clock.
        self.came = 0.0
        self._ending = False

    def end(self) -> None:
        """From now on the end of the rows is no error."""
        self._ending = True

    def run(self) -> None:
        """Reads until Spark gives back no more."""
        rows = iter(self._rows)
        while True:
            try:
                batch = next(rows, None)
            except Exception as error:  # noqa: BLE001 — whatever PySpark and Arrow raise here, the connection has ended
                # If the feeder dies before its first row, there is no schema. Arrow calls that invalid, a ValueError.
                self._on_failure(SparkLostError(f"Spark's rows have ended: {type(error).__name__}"))
                return
            if batch is None:
                if not self._ending:
                    self._on_failure(SparkLostError("Spark's rows have ended"))
                return
            try:
                self._take(batch)
            except Exception as error:  # noqa: BLE001 — the task fails with it
                self._on_failure(error)
                # Spark goes on only if it gets rid of its rows.
                self._drain()
                return

    def _drain(self) -> None:
        try:
            for _ in self._rows:
                pass
        except Exception:  # noqa: BLE001 — the task has failed already
            return

    def _take(self, rows: Any) -> None:
        numbers = rows.column(ROW)
        if numbers.null_count:
            self._on_answer()
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
        first = self._expected_row
        if not rows.column(ROW).equals(row_numbers(first, count)):
            raise StrangeRowsError(f"Spark has given back other rows than {first} to {first + count - 1}")
        self._expected_row += count
        self.came = time.monotonic()
        at = 0
        while at < count:
            if not self._sent:
                raise StrangeRowsError(f"Spark has given back row {first + at}, which it did not get")
            sent = self._sent[0]
            some = min(count - at, sent.missing)
            sent.take(rows.slice(at, some))
            at += some
            if not sent.missing:
                self._sent.popleft()
                self._finish(sent)

    def _finish(self, sent: SentPiece) -> None:
        """All rows of a piece have come back."""
        submitted = sent.submitted
        if not submitted.batch.dropped and submitted.error is None:
            self._changes.apply(sent)
        self._on_part(submitted)
