"""Batches that are re-encoded, piece by piece: at once, or in a thread where that would stop the event loop for long.

A thread helps because decompressing, compressing and the loops over records mostly run without Python's lock
(docs/decisions/0026).
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Mapping
from typing import Final

from mirror_connect.connectors.record_errors import SkippedRecords
from mirror_connect.connectors.record_steps import Steps
from mirror_connect.kafka_io.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from mirror_connect.kafka_io.records.decompressed_size import lz4_bound, zstd_bound
from mirror_connect.kafka_io.records.json_transforms import looks_into_json
from mirror_connect.kafka_io.records.record_batch import BatchView, ProducerBatch, first_timestamp
from mirror_connect.kafka_io.records.record_rewrite import rewrite

# Runs a function in a thread. The future belongs to the event loop.
InThread = Callable[[Callable[[], ProducerBatch | None]], "asyncio.Future[ProducerBatch | None]"]

# A batch of so many bytes as they are sent takes about a millisecond: measured with text, which is compressed to a half.
_LONG: Final[Mapping[int, int]] = {NONE: 2 << 20, GZIP: 16 << 10, SNAPPY: 256 << 10, LZ4: 192 << 10, ZSTD: 80 << 10}


# How long batches are transformed in one turn before a thread takes over.
TRANSFORMED_MS: Final = 1.0
# A millisecond of the loops over records, and of decompressing.
_RECORDS: Final = 10_000
_DECOMPRESSED: Final = 2 << 20
# The same of parsing and writing JSON, without what follows from its length, and by its bytes as they are sent.
_JSON_RECORDS: Final = 100
_JSON_BYTES: Final = 64 << 10


def transform_ms(view: BatchView, *, json: bool = False) -> float:
    """About how many milliseconds it takes to transform and re-encode a batch, by what its headers say.

    `json`: whether a step looks into JSON.
    """
    sent = view.size / _LONG.get(view.codec, _DECOMPRESSED)
    records = max(0, view.count) / (_JSON_RECORDS if json else _RECORDS)
    return max(sent, _bound(view) / _DECOMPRESSED) + records + (view.size / _JSON_BYTES if json else 0.0)


class Rewriting:
    """How the batches of one partition are re-encoded. `steps`: transformations of their records.

    `in_thread`, `on_made`, `tolerant`, `letters`: see RewrittenPieces.
    """

    def __init__(
        self,
        steps: Steps,
        in_thread: InThread | None,
        on_made: Callable[[RewrittenPieces], None],
        *,
        tolerant: bool = False,
        letters: bool = False,
    ) -> None:
        self.steps = steps
        self._tolerant = tolerant
        self._letters = letters
        self._json = looks_into_json(steps)
        self._in_thread = in_thread
        self._on_made = on_made
        # About the milliseconds that were spent on transforming in this turn of the event loop.
        self._spent = 0.0

    def turn(self) -> None:
        """The event loop has had its turn since the last batch."""
        self._spent = 0.0

    def begin(self, view: BatchView, from_offset: int) -> RewrittenPieces:
        """The pieces of a batch. Batches of which nothing is left follow each other, and the loop must go on in between."""
        self._spent += transform_ms(view, json=self._json) if self.steps else 0.0
        apart = self._spent > TRANSFORMED_MS
        if apart:
            self._spent = 0.0
        return RewrittenPieces(
            view,
            from_offset,
            self._in_thread,
            self._on_made,
            self.steps,
            apart=apart,
            tolerant=self._tolerant,
            letters=self._letters,
        )


def _bound(view: BatchView) -> int:
    """The most bytes that it can hold, where that can be read; 0 where not."""
    bound = {LZ4: lz4_bound, ZSTD: zstd_bound}.get(view.codec)
    if bound is None or view.magic < 2:
        return 0
    try:
        return bound(bytes(view.records))
    except (ValueError, IndexError, struct.error):
        return 0  # decompressing says what is wrong


class RewrittenPieces:
    """The pieces of one batch, see record_rewrite.rewrite. `last_offset`: that of the batch.

    `oldest_ms`: about the timestamp of its first record.

    `steps`: transformations of its records; they have dropped `filtered` so far. `apart`: a thread makes them, however small
    the batch is. `tolerant`: records that they can't take are dropped, as `skipped` says; otherwise `take` raises the first.
    `letters`: whether `skipped` keeps them all, for the dead letter topic.
    `in_thread`: None makes each piece at once. `on_made` is called in the event loop when a thread has made a piece.
    """

    def __init__(
        self,
        view: BatchView,
        from_offset: int,
        in_thread: InThread | None,
        on_made: Callable[[RewrittenPieces], None],
        steps: Steps = (),
        *,
        apart: bool = False,
        tolerant: bool = False,
        letters: bool = False,
    ) -> None:
        self.skipped = SkippedRecords(letters=letters)
        self.last_offset = view.last_offset
        self.oldest_ms = first_timestamp(view.data)
        self.filtered = 0
        self._pieces = rewrite(view, from_offset, steps, self._filter, self.skipped.add if tolerant else None)
        self._in_thread = in_thread if apart or view.size >= _LONG.get(view.codec, 0) else None
        self._on_made = on_made
        self._making: asyncio.Future[ProducerBatch | None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a thread is making the next piece."""
        return self._making is not None and not self._making.done()

    def ready(self) -> bool:
        """Whether `take` may be called. If the next piece takes long, a thread begins to make it now."""
        if self._in_thread is not None and self._making is None:
            self._making = self._in_thread(self._make)
            self._making.add_done_callback(self._made)
        return not self.busy

    def take(self) -> ProducerBatch | None:
        """The next piece, None after the last. CorruptBatchError, RecordError."""
        made, self._making = self._making, None
        return self._make() if made is None else made.result()

    def drop(self) -> None:
        """No further piece is wanted."""
        if self._making is not None:
            self._making.remove_done_callback(self._made)
            if not self._making.cancel() and not self._making.cancelled():
                self._making.exception()  # counts as seen

    def _filter(self, records: int) -> None:
        # In a thread, or in the event loop while no thread makes a piece.
        self.filtered += records

    def _make(self) -> ProducerBatch | None:
        return next(self._pieces, None)

    def _made(self, _: asyncio.Future[ProducerBatch | None]) -> None:
        self._on_made(self)
