"""What the rows that Spark gives back make of a piece: changed records, dropped ones, and errors of others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.record_transform import RecordTransform, setting_of_transform
from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.mirror.transform_sql import PYTHON
from mirror_connect.connectors.record_errors import OriginalRecord, RecordError
from mirror_connect.kafka_io.records.compiled import SourceOffsets
from mirror_connect.kafka_io.records.compression import compress
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError
from mirror_connect.kafka_io.records.record_columns import with_columns
from mirror_connect.kafka_io.records.record_transforms import TOO_LARGE
from mirror_connect.spark_jobs.compute.arrow_rows import row_numbers
from mirror_connect.spark_jobs.compute.batch_pieces import originals
from mirror_connect.spark_jobs.compute.records_table import CHANGED, ERROR, FUNCTION_FAULT, KEEP
from mirror_connect.spark_jobs.compute.row_changes import (
    RowErrors,
    changes_of,
    function_changes,
    keep_column,
    whole_column,
)
from mirror_connect.spark_jobs.compute.sent_pieces import SentPiece

TOO_MUCH: Final = "it needs more stack than Spark has (StackOverflowError), as rlike can for a long text"


class PieceChanges:
    """Applies what this transform has done. `changes`: the columns that come back changed."""

    def __init__(self, transform: RecordTransform, changes: Sequence[str]) -> None:
        self._setting = setting_of_transform(transform)
        self._by_function = isinstance(transform, TransformFunction)
        self._schemas = {} if isinstance(transform, TransformFunction) else transform.schemas
        self._changes = tuple(changes)

    def apply(self, sent: SentPiece) -> None:
        """All rows of the piece are there: its batch gets to know what has become of it. ConfigError, ValueError."""
        try:
            self._apply(sent)
        except CorruptBatchError as error:
            sent.submitted.error = error

    def _apply(self, sent: SentPiece) -> None:
        submitted, piece, parts = sent.submitted, sent.piece, sent.parts
        if sent.grown_too_large:
            raise CorruptBatchError(piece.first_offset, TOO_LARGE)
        errors, kept = whole_column(parts, ERROR), whole_column(parts, KEEP)
        if sent.too_much:
            refused = pc.is_in(row_numbers(0, len(errors)), pa.array(sent.too_much, pa.int64()))
            errors = pc.if_else(refused, pa.scalar(TOO_MUCH, pa.string()), errors)
        if self._by_function:
            _check_function(parts, errors)
        failed: RecordError | None = None
        skipped = 0
        if errors.null_count < len(errors):
            kept, skipped, failed = self._without_errors(sent, errors, pc.and_(kept, errors.is_null()))
        keep = keep_column(kept)
        changed = self._changed_columns(sent)
        if keep is None and not changed:
            piece.records, piece.codec = compress(sent.codec, piece.records), sent.codec
            submitted.made.append(piece)
            return
        made = with_columns(piece, changes_of(changed, keep), sent.codec)
        if made is not None:
            if failed is not None:
                made.last_offset = failed.offset - 1
            submitted.made.append(made)
        submitted.filter(len(kept) - kept.true_count - skipped)
        submitted.error = failed

    def _without_errors(self, sent: SentPiece, errors: Any, kept: Any) -> tuple[Any, int, RecordError | None]:
        """Which records are kept, how many are left out for an error, and the error behind which nothing is copied."""
        submitted = sent.submitted
        failing = [number for number, there in enumerate(errors.is_valid().to_pylist()) if there]
        from_source = {} if submitted.batch.skipped.letters is None else _originals(sent, failing)
        found = RowErrors(sent.piece, errors, self._setting, self._schemas, from_source)
        if submitted.tolerant:
            for number in failing:
                submitted.skip(found.of(number))
            return kept, len(failing), None
        # What is before it is copied, and nothing behind it.
        first = failing[0]
        rest = len(kept) - first
        return pa.concat_arrays([kept.slice(0, first), pa.array([False] * rest)]), rest, found.of(first)

    def _changed_columns(self, sent: SentPiece) -> dict[str, Any]:
        if self._by_function:
            return function_changes(sent.parts, sent.piece)
        return {name: whole_column(sent.parts, name) for name in self._changes}


def _originals(sent: SentPiece, failing: Sequence[int]) -> dict[int, OriginalRecord]:
    """The records of these rows as the source has them, by their offsets: steps may have changed what Spark got."""
    places = SourceOffsets(sent.piece)
    wanted = {first for number in failing for first, _ in places.of(number, 1)}
    batch = sent.submitted.batch
    return originals(batch.view, batch.from_offset, wanted)


def _check_function(parts: Sequence[Any], errors: Any) -> None:
    """ConfigError if the function itself is wrong, whatever the records are."""
    at = pc.index(whole_column(parts, CHANGED), pa.scalar(FUNCTION_FAULT, pa.int32())).as_py()
    if at >= 0:
        raise ConfigError(PYTHON, None, errors[at].as_py())
