"""What is on its way through Spark: batches that were submitted, and the pieces of them that Spark has.

One thread sends pieces, and another one gets what Spark has made of them. Both change a batch at the same time.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from mirror_connect.connectors.record_errors import RecordError
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from mirror_connect.kafka_io.records.record_transforms import MOST_TRANSFORMED
from mirror_connect.spark_jobs.copy.computed_batch import ComputedBatch


@dataclass(slots=True, eq=False)
class SubmittedBatch:
    """One batch. `tolerant`: a record with an error is left out. Otherwise nothing behind it is made.

    `error`: of a record, behind the last piece that was made. `behind`: why there are no more pieces than these.
    """

    batch: ComputedBatch
    tolerant: bool
    made: list[ProducerBatch] = field(default_factory=list)
    error: Exception | None = None
    behind: Exception | None = None
    _filtered: int = 0
    # Pieces that are on their way, and one while more may follow.
    _left: int = 1
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def filter(self, records: int) -> None:
        """So many of its records are dropped."""
        with self._lock:
            self._filtered += records

    def skip(self, error: RecordError) -> None:
        """A record with an error is left out."""
        with self._lock:
            self.batch.skipped.add(error)

    def piece_leaves(self) -> None:
        """A piece is about to be sent."""
        with self._lock:
            self._left += 1

    def part_ends(self) -> bool:
        """A piece has come back, or no more follow. True if nothing more happens to the batch."""
        with self._lock:
            self._left -= 1
            return self._left == 0

    def end(self) -> None:
        """Tells what has become of the batch. In the event loop."""
        self.batch.end(self.made, self._filtered, self.error or self.behind)


@dataclass(slots=True, eq=False)
class SentPiece:
    """A piece that Spark has: uncompressed, with the codec that it gets again. `parts`: the rows that came back.

    `message`: the number of that with its rows, which may have those of other pieces, too. `since`: when it was sent, on the
    monotonic clock. `too_much`: the numbers of records that Spark did not get, as they need too much.
    """

    submitted: SubmittedBatch
    piece: ProducerBatch
    codec: int
    message: int
    parts: list[Any] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)
    too_much: tuple[int, ...] = ()
    _rows: int = 0
    _grown: int = 0

    @property
    def missing(self) -> int:
        """How many of its rows have not come back yet."""
        return self.piece.count - self._rows

    @property
    def grown_too_large(self) -> bool:
        """Whether it has become more than a batch may. Then its rows are thrown away."""
        return self._grown > MOST_TRANSFORMED

    def take(self, rows: Any) -> None:
        """The next of its rows have come back."""
        self._rows += rows.num_rows
        self._grown += rows.nbytes
        if self.grown_too_large:
            self.parts.clear()
        else:
            self.parts.append(rows)
