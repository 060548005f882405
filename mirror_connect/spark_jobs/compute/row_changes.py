"""What rows that have come back, of Spark or of a user's function, change of their records, and what is wrong with some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mirror_connect.connectors.record_errors import OriginalRecord, RecordError
from mirror_connect.kafka_io.records.compiled import SourceOffsets
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from mirror_connect.kafka_io.records.record_columns import (
    BytesColumn,
    Changes,
    HeadersColumn,
    KeepColumn,
    TimesColumn,
    read_columns,
)
from mirror_connect.spark_jobs.compute.arrow_rows import bytes_array, headers_array
from mirror_connect.spark_jobs.compute.json_faults import fault_line
from mirror_connect.spark_jobs.compute.records_table import (
    CHANGEABLE,
    CHANGED,
    HEADERS,
    KEY,
    NO_OBJECT,
    TIMESTAMP,
    VALUE,
)


def function_changes(parts: Sequence[Any], batch: ProducerBatch) -> dict[str, Any]:
    """The columns that a user's function has changed, by name. A row that it left alone has what the batch has.

    `parts`: batches of rows that have come back; `batch`: the records that they were made of.
    """
    masks = whole_column(parts, CHANGED)
    different = pc.unique(masks).to_pylist()
    found = {}
    for number, name in enumerate(CHANGEABLE):
        bits = [mask >> number & 1 for mask in different]
        if not any(bits):
            continue
        column = whole_column(parts, name)
        if not all(bits) and name != TIMESTAMP:
            # A null timestamp is the record's own anyway.
            bit = pa.scalar(1 << number, pa.int32())
            column = pc.if_else(pc.equal(pc.bit_wise_and(masks, bit), bit), column, _own(name, batch))
        found[name] = column
    return found


def _own(name: str, batch: ProducerBatch) -> Any:
    found = read_columns(batch, (name,))
    if name == HEADERS:
        assert found.headers is not None
        return headers_array(found.headers, batch.count)
    column = found.keys if name == KEY else found.values
    assert column is not None
    return bytes_array(column, batch.count, pa.binary())


def whole_column(parts: Sequence[Any], name: str) -> Any:
    """A column of these batches of rows as one array."""
    columns = [each.column(name) for each in parts]
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def keep_column(kept: Any) -> KeepColumn | None:
    """Which records stay, by an array of booleans without nulls; None if all do."""
    return None if kept.true_count == len(kept) else KeepColumn(memoryview(kept.buffers()[1]), kept.offset)


def changes_of(found: Mapping[str, Any], keep: KeepColumn | None) -> Changes:
    """What rows change of the records. `found`: the changed columns that came back, by name."""
    times = found.get(TIMESTAMP)
    return Changes(
        keep,
        None if times is None else TimesColumn(_validity(times), memoryview(times.buffers()[1]), times.offset),
        _column_of(found.get(KEY)),
        _column_of(found.get(VALUE)),
        _headers_of(found.get(HEADERS)),
    )


def _validity(column: Any) -> memoryview | None:
    return None if column.null_count == 0 else memoryview(column.buffers()[0])


def _column_of(column: Any) -> BytesColumn | None:
    if column is None:
        return None
    _, offsets, data = column.buffers()[:3]
    return BytesColumn(
        _validity(column),
        bytes(4) if offsets is None else memoryview(offsets),
        b"" if data is None else memoryview(data),
        column.offset,
    )


def _headers_of(column: Any) -> HeadersColumn | None:
    if column is None:
        return None
    names, contents = (_column_of(column.values.field(each)) for each in range(2))
    assert names is not None
    assert contents is not None
    # A field of a slice begins where the slice does.
    return HeadersColumn(_validity(column), memoryview(column.buffers()[1]), names, contents, column.offset)


class RowErrors:
    """The errors of the rows of a batch. `reasons`: the column of them. `setting`: of what raised them.

    `schemas`: of the JSON objects in key and value. `originals`: the source's records, by offset.
    """

    def __init__(
        self,
        batch: ProducerBatch,
        reasons: Any,
        setting: str,
        schemas: Mapping[str, str],
        originals: Mapping[int, OriginalRecord],
    ) -> None:
        self._schemas = {NO_OBJECT[name]: (name, schema) for name, schema in schemas.items()}
        self._originals = originals
        self._batch = batch
        self._setting = setting
        self._reasons = reasons
        found = read_columns(batch, (KEY, VALUE))
        assert found.keys is not None
        assert found.values is not None
        self._keys = bytes_array(found.keys, batch.count, pa.binary())
        self._values = bytes_array(found.values, batch.count, pa.binary())

    def of(self, number: int) -> RecordError:
        """The error of the record with this number."""
        ((offset, _),) = SourceOffsets(self._batch).of(number, 1)
        return RecordError(
            offset,
            self._setting,
            self.reason(number),
            key=self._keys[number].as_py(),
            value=self._values[number].as_py(),
            original=self._originals.get(offset),
        )

    def reason(self, number: int) -> str:
        """What is wrong with the record with this number, without anything of what it holds."""
        reason = str(self._reasons[number].as_py())
        if reason not in self._schemas:
            return reason
        name, schema = self._schemas[reason]
        return fault_line(name, (self._keys if name == KEY else self._values)[number].as_py(), schema)
