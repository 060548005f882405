"""Records as rows of Arrow, which go to Spark or to a user's function. What they change of the records: row_changes.py.

Besides the columns that the statement needs, a row has its number (`__row`), which comes back. Rows without a number are no
records: they push those before them through Spark's buffers (`pads`).
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.records.compiled import SourceOffsets
from mirror_connect.kafka_io.records.json_objects import trailing_tokens
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from mirror_connect.kafka_io.records.record_columns import BytesColumn, HeadersColumn, RecordColumns, read_columns
from mirror_connect.spark_jobs.compute.records_table import HEADERS, KEY, PAD, ROW, SECRETS, TIMESTAMP, VALUE

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
# For fewer it is quicker to make them one by one.
_FEW: Final = 50


@dataclass(frozen=True, slots=True)
class ReadPiece:
    """A piece of a batch, as its records were read. `now_us`: when that was, in microseconds since the epoch.

    `wrong`: of a column of JSON objects, the rows with something behind the object.
    """

    batch: ProducerBatch
    partition: TopicPartition
    now_us: int
    columns: RecordColumns
    wrong: Mapping[str, Collection[int]]

    @property
    def count(self) -> int:
        """Of its records."""
        return self.batch.count

    def bytes_column(self, name: str) -> BytesColumn:
        """That of the keys or of the values."""
        column = self.columns.keys if name == KEY else self.columns.values
        assert column is not None
        return column


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
        """Takes the values of the secrets, which the next rows have."""
        self._secrets = tuple(secrets[each].encode() for each in self._secret_names)

    def read(self, batch: ProducerBatch, partition: TopicPartition, now_us: int) -> ReadPiece:
        """What rows are made of, of an uncompressed batch that `rewrite` has made. CorruptBatchError.

        `now_us`: the time of `processed_at`, in microseconds since 1970.
        """
        found = read_columns(batch, self._read)
        wrong = {}
        for name, column in ((KEY, found.keys), (VALUE, found.values)):
            if column is not None and name in self._objects and (rows := trailing_tokens(column, batch.count)):
                wrong[name] = frozenset(rows)
        return ReadPiece(batch, partition, now_us, found, wrong)

    def of(self, pieces: Sequence[ReadPiece], first_row: int) -> Any:
        """The rows of all these pieces as one batch. `first_row`: the number of the first one.

        Arrow lets other threads run in nearly each of its calls, and on a busy processor each such turn takes up to
        `sys.getswitchinterval()`. So the calls are as many for a hundred small pieces as for one.
        """
        count = sum(each.count for each in pieces)
        arrays = [row_numbers(first_row, count)]
        for name in self._wanted:
            if name == TOPIC:
                runs = ((each.partition.topic.encode(), each.count) for each in pieces)
                arrays.append(_joined([_repeated(topic, number) for topic, number in _in_runs(runs)]))
            elif name == PARTITION:
                arrays.append(_repeated_numbers(pa.int32(), "i", ((p.partition.partition, p.count) for p in pieces)))
            elif name == OFFSET:
                arrays.append(_offsets(pieces))
            elif name == PROCESSED_AT:
                arrays.append(_repeated_numbers(TIME, "q", ((each.now_us, each.count) for each in pieces)))
            elif name == TIMESTAMP:
                arrays.append(_timestamps(pieces, count))
            elif name == HEADERS:
                arrays.append(_joined([_headers_column(each) for each in pieces]))
            else:
                arrays.append(_contents(pieces, name))
        if self._secret_names:
            secrets = [_repeated(each, count) for each in self._secrets]
            arrays.append(pa.StructArray.from_arrays(secrets, self._secret_names))
        return pa.RecordBatch.from_arrays([*arrays, pa.nulls(count, pa.binary())], schema=self.schema)

    def without(self, rows: Any, numbers: Collection[int]) -> Any:
        """These rows, of which those with these numbers, counted from 0, are empty. To Spark they are no records."""
        empty = pc.is_in(row_numbers(0, rows.num_rows), pa.array(numbers, pa.int64()))
        columns = [rows.column(ROW)]
        for field in list(self.schema)[1:-1]:
            at = pc.if_else(empty, pa.scalar(None, pa.int64()), row_numbers(0, rows.num_rows))
            columns.append(rows.column(field.name).take(at))
        pad = pc.if_else(empty, pa.scalar(b"", pa.binary()), pa.scalar(None, pa.binary()))
        return pa.RecordBatch.from_arrays([*columns, pad], schema=self.schema)


def _contents(pieces: Sequence[ReadPiece], name: str) -> Any:
    """The keys or the values of the pieces."""
    found: list[Any] = []
    for small, group in itertools.groupby(pieces, lambda each: each.count <= _FEW):
        if small:
            found.append(pa.array([content for each in group for content in _contents_list(each, name)], pa.binary()))
        else:
            found += [_contents_array(each, name) for each in group]
    return _joined(found)


def _contents_list(piece: ReadPiece, name: str) -> list[bytes | None]:
    """The keys or the values of a piece, those that are no object as empty."""
    column, wrong = piece.bytes_column(name), piece.wrong.get(name, ())
    validity, data = column.validity, memoryview(column.data)
    at = memoryview(column.offsets).cast("B").cast("i")
    found: list[bytes | None] = []
    for row in range(piece.count):
        if validity is not None and not validity[row >> 3] >> (row & 7) & 1:
            found.append(None)
        else:
            found.append(b"" if row in wrong else bytes(data[at[row] : at[row + 1]]))
    return found


def _contents_array(piece: ReadPiece, name: str) -> Any:
    contents = bytes_array(piece.bytes_column(name), piece.count, pa.binary())
    rows = piece.wrong.get(name)
    if not rows:
        return contents
    wrong = pc.is_in(row_numbers(0, piece.count), pa.array(sorted(rows), pa.int64()))
    return pc.if_else(wrong, pa.scalar(b"", pa.binary()), contents)


def _timestamps(pieces: Sequence[ReadPiece], count: int) -> Any:
    values: list[Any] = []
    for each in pieces:
        assert each.columns.timestamps is not None
        values.append(each.columns.timestamps.values)
    return pa.Array.from_buffers(TIME, count, [None, pa.py_buffer(values[0] if len(values) == 1 else b"".join(values))])


def _headers_column(piece: ReadPiece) -> Any:
    assert piece.columns.headers is not None
    return headers_array(piece.columns.headers, piece.count)


def _joined(arrays: Sequence[Any]) -> Any:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _in_runs(counted: Iterable[tuple[bytes, int]]) -> Iterator[tuple[bytes, int]]:
    """Neighbours of the same text as one, with the sum of their counts."""
    for text, group in itertools.groupby(counted, lambda each: each[0]):
        yield text, sum(count for _, count in group)


def row_numbers(first: int, count: int) -> Any:
    """An array of `count` consecutive numbers, from `first` on."""
    if count <= _FEW:
        return _numbers(pa.int64(), "q", range(first, first + count))
    global _counted  # noqa: PLW0603 — it only grows, and making it costs more than all the rest of a row
    counted = _counted
    if len(counted) < count:
        counted = _counted = pa.array(range(2 * count), pa.int64())
    return pc.add(counted.slice(0, count), pa.scalar(first, pa.int64()))


def _numbers(kind: Any, code: str, numbers: Iterable[int]) -> Any:
    numbers = numbers if isinstance(numbers, array) else array(code, numbers)
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def _repeated_numbers(kind: Any, code: str, counted: Iterable[tuple[int, int]]) -> Any:
    numbers = array(code)
    for number, count in counted:
        numbers.extend(array(code, [number]) * count)
    return _numbers(kind, code, numbers)


def _offsets(pieces: Sequence[ReadPiece]) -> Any:
    numbers = array("q")
    for each in pieces:
        for first, count in SourceOffsets(each.batch).of(0, each.count):
            numbers.extend(range(first, first + count))
    return _numbers(pa.int64(), "q", numbers)


def _repeated(text: bytes, count: int) -> Any:
    return pa.repeat(pa.scalar(text.decode(), pa.string()), count)


def bytes_array(column: BytesColumn, count: int, kind: Any) -> Any:
    """An array of Arrow's over the buffers of a column of records; `kind`: its type, of bytes or of text."""
    buffers = [None if each is None else pa.py_buffer(each) for each in column[:3]]
    return pa.Array.from_buffers(kind, count, buffers)


def headers_array(column: HeadersColumn, count: int) -> Any:
    """The same for headers."""
    size = len(memoryview(column.names.offsets)) // 4 - 1
    fields = [bytes_array(column.names, size, pa.string()), bytes_array(column.contents, size, pa.binary())]
    structs = pa.StructArray.from_arrays(fields, fields=list(_HEADER))
    return pa.Array.from_buffers(HEADERS_LIST, count, [None, pa.py_buffer(column.offsets)], children=[structs])
