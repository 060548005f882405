"""Records as Arrow's rows for Spark, and what Spark makes of them as changes of the records.

Besides the columns that the statement needs, a row has its number (`__row`), which comes back. Rows without a number are no
records: they push those before them through Spark's buffers (`pads`).
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_errors import OriginalRecord, RecordError
from mirror_connect.kafka_io.records.compiled import SourceOffsets
from mirror_connect.kafka_io.records.json_objects import trailing_tokens
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from mirror_connect.kafka_io.records.record_columns import (
    BytesColumn,
    Changes,
    HeadersColumn,
    KeepColumn,
    TimesColumn,
    read_columns,
)
from mirror_connect.spark_jobs.compute.json_faults import fault_line
from mirror_connect.spark_jobs.compute.records_table import (
    CHANGEABLE,
    CHANGED,
    HEADERS,
    KEY,
    NO_OBJECT,
    PAD,
    ROW,
    SECRETS,
    TIMESTAMP,
    VALUE,
)

TOPIC: Final = "topic"
PARTITION: Final = "partition"
OFFSET: Final = "offset"
PROCESSED_AT: Final = "processed_at"
# As many as Spark puts into one batch for Python (computing_query.py). A batch leaves when it has them and a row follows.
PAD_BYTES: Final = 128 << 10
# Of one message that warms Spark up.
SAMPLES: Final = 200
TIME: Final = pa.timestamp("us", "UTC")
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS_LIST: Final = pa.list_(_HEADER)
_TYPES: Final[Mapping[str, Any]] = {
    TOPIC: pa.string(),
    PARTITION: pa.int32(),
    OFFSET: pa.int64(),
    TIMESTAMP: TIME,
    KEY: pa.binary(),
    VALUE: pa.binary(),
    HEADERS: HEADERS_LIST,
    PROCESSED_AT: TIME,
}
_READ: Final = (TIMESTAMP, KEY, VALUE, HEADERS)
# The numbers from 0 on, as many as were needed so far.
_counted = pa.array(range(10_000), pa.int64())
# For fewer it is quicker to make them anew.
_FEW: Final = 50


class Rows:
    """Makes rows. `columns`: those of `records` that the statement needs; `secret_names`: of the struct `secrets`.

    `objects`: the columns whose bytes are JSON objects. One with something behind it becomes empty, which is no object:
    Spark's parser would take no notice of the rest.
    """

    def __init__(self, columns: Sequence[str], secret_names: Sequence[str] = (), objects: Collection[str] = ()) -> None:
        self._wanted = tuple(each for each in columns if each != SECRETS)
        self._read = tuple(each for each in columns if each in _READ)
        self._secret_names = tuple(secret_names) if SECRETS in columns else ()
        self._objects = frozenset(objects)
        self._secrets: tuple[bytes, ...] = ()
        types = [(each, _TYPES[each]) for each in self._wanted]
        if self._secret_names:
            types.append((SECRETS, pa.struct([(each, pa.string()) for each in self._secret_names])))
        # The pad is the last column. Python's writer sends what is long at once, and keeps what little is behind it.
        self.schema = pa.schema([(ROW, pa.int64()), *types, (PAD, pa.binary())])
        blank = [pa.nulls(2, each.type) for each in self.schema]
        # A row that fills the batch, and one that follows it.
        self.pads = pa.RecordBatch.from_arrays(
            [*blank[:-1], pa.array([bytes(PAD_BYTES), b""], pa.binary())], schema=self.schema
        )
        # Spark takes these for records, and nobody takes what becomes of them: they have no number.
        objects = pa.array([b"{}"] * SAMPLES, pa.binary())
        self.samples = pa.RecordBatch.from_arrays(
            [objects if each.name in (KEY, VALUE) else pa.nulls(SAMPLES, each.type) for each in self.schema],
            schema=self.schema,
        )

    def know(self, secrets: Mapping[str, str]) -> None:
        """The values of the secrets."""
        self._secrets = tuple(secrets[each].encode() for each in self._secret_names)

    def of(self, batch: ProducerBatch, partition: TopicPartition, first_row: int, now_us: int) -> Any:
        """Those of an uncompressed batch that `rewrite` has made. CorruptBatchError."""
        count = batch.count
        found = read_columns(batch, self._read)
        arrays = [row_numbers(first_row, count)]
        for name in self._wanted:
            if name == TOPIC:
                arrays.append(_repeated(partition.topic.encode(), count))
            elif name == PARTITION:
                arrays.append(_numbers(pa.int32(), "i", [partition.partition] * count))
            elif name == OFFSET:
                arrays.append(_offsets(batch))
            elif name == PROCESSED_AT:
                arrays.append(_numbers(TIME, "q", [now_us] * count))
            elif name == TIMESTAMP:
                assert found.timestamps is not None
                arrays.append(pa.Array.from_buffers(TIME, count, [None, pa.py_buffer(found.timestamps.values)]))
            elif name == HEADERS:
                assert found.headers is not None
                arrays.append(_headers(found.headers, count))
            else:
                column = found.keys if name == KEY else found.values
                assert column is not None
                contents = _bytes(column, count, pa.binary())
                arrays.append(_only_objects(contents, column) if name in self._objects else contents)
        if self._secret_names:
            secrets = [_repeated(each, count) for each in self._secrets]
            arrays.append(pa.StructArray.from_arrays(secrets, self._secret_names))
        return pa.RecordBatch.from_arrays([*arrays, pa.nulls(count, pa.binary())], schema=self.schema)

    def without(self, rows: Any, numbers: Collection[int]) -> Any:
        """These rows with nothing in those of these numbers, counted from 0. To Spark they are no records."""
        empty = pc.is_in(row_numbers(0, rows.num_rows), pa.array(numbers, pa.int64()))
        columns = [rows.column(ROW)]
        for field in list(self.schema)[1:-1]:
            at = pc.if_else(empty, pa.scalar(None, pa.int64()), row_numbers(0, rows.num_rows))
            columns.append(rows.column(field.name).take(at))
        pad = pc.if_else(empty, pa.scalar(b"", pa.binary()), pa.scalar(None, pa.binary()))
        return pa.RecordBatch.from_arrays([*columns, pad], schema=self.schema)


def _only_objects(contents: Any, column: BytesColumn) -> Any:
    rows = trailing_tokens(column, len(contents))
    if not rows:
        return contents
    wrong = pc.is_in(row_numbers(0, len(contents)), pa.array(rows, pa.int64()))
    return pc.if_else(wrong, pa.scalar(b"", pa.binary()), contents)


def row_numbers(first: int, count: int) -> Any:
    """An array of `count` numbers in a row."""
    if count <= _FEW:
        return _numbers(pa.int64(), "q", range(first, first + count))
    global _counted  # noqa: PLW0603 — it only grows, and making it costs more than all the rest of a row
    counted = _counted
    if len(counted) < count:
        counted = _counted = pa.array(range(2 * count), pa.int64())
    return pc.add(counted.slice(0, count), pa.scalar(first, pa.int64()))


def _numbers(kind: Any, code: str, numbers: Any) -> Any:
    numbers = array(code, numbers)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def _offsets(batch: ProducerBatch) -> Any:
    numbers = array("q")
    for first, count in SourceOffsets(batch).of(0, batch.count):
        numbers.extend(range(first, first + count))
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def _repeated(text: bytes, count: int) -> Any:
    return pa.repeat(pa.scalar(text.decode(), pa.string()), count)


def _bytes(column: BytesColumn, count: int, kind: Any) -> Any:
    buffers = [None if each is None else pa.py_buffer(each) for each in column[:3]]
    return pa.Array.from_buffers(kind, count, buffers)


def _headers(column: HeadersColumn, count: int) -> Any:
    size = len(memoryview(column.names.offsets)) // 4 - 1
    fields = [_bytes(column.names, size, pa.string()), _bytes(column.contents, size, pa.binary())]
    structs = pa.StructArray.from_arrays(fields, fields=list(_HEADER))
    return pa.Array.from_buffers(HEADERS_LIST, count, [None, pa.py_buffer(column.offsets)], children=[structs])


# What comes back.


def function_changes(parts: Sequence[Any], batch: ProducerBatch) -> dict[str, Any]:
    """The columns that a function has changed of these rows, by name; what it has left in some rows is as in the batch."""
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
        return _headers(found.headers, batch.count)
    column = found.keys if name == KEY else found.values
    assert column is not None
    return _bytes(column, batch.count, pa.binary())


def whole_column(parts: Sequence[Any], name: str) -> Any:
    """A column of these batches of rows as one array."""
    columns = [each.column(name) for each in parts]
    return columns[0] if len(columns) == 1 else pa.concat_arrays(columns)


def keep_column(kept: Any) -> KeepColumn | None:
    """Of an array of booleans without nulls; None if all are kept."""
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
        self._keys = _bytes(found.keys, batch.count, pa.binary())
        self._values = _bytes(found.values, batch.count, pa.binary())

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
