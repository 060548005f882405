"""The content of a lookup as a table of Arrow, with the columns that its schema names. It blocks: use a thread.

Errors name a column, a line or a row. They show nothing of the content: also keys may be personal data.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from mirror_connect.app.lookups.loaded_lookup import BadLookupError
from mirror_connect.connectors.mirror.lookups import KEY_COLUMN, Column, Format, Type
from mirror_connect.connectors.wording import counted

# Spark's driver has all rows in its memory, and so has each executor.
MOST_BYTES: Final = 32 << 20
MOST_ROWS: Final = 500_000
_TYPES: Final = {
    Type.STRING: pa.string(),
    Type.BOOLEAN: pa.bool_(),
    Type.TINYINT: pa.int8(),
    Type.SMALLINT: pa.int16(),
    Type.INT: pa.int32(),
    Type.BIGINT: pa.int64(),
    Type.FLOAT: pa.float32(),
    Type.DOUBLE: pa.float64(),
    Type.DATE: pa.date32(),
    Type.TIMESTAMP: pa.timestamp("us", "UTC"),
}
# A field in quotes, and whether a quote ends it. As for Arrow, a quote within another field is one of its characters.
_QUOTED: Final = re.compile(rb'(?<![^,\r\n])"(?:[^"]++|"")*+("?)')
_LINE_END: Final = re.compile(rb"\r\n?|\n")
# Number of a row, beside its columns.
_NUMBER: Final = "__number"

# What to do about a record of a topic.
_REPAIR: Final = ": write a right value with its key, or a tombstone"


class TopicRow(NamedTuple):
    """The newest record of a key."""

    timestamp: int
    partition: int
    offset: int
    key: bytes
    value: bytes


def arrow_type(column: Column) -> Any:
    """Of a column."""
    return pa.decimal128(column.precision, column.scale) if column.type is Type.DECIMAL else _TYPES[column.type]


def table_of_file(content: bytes, kind: Format, columns: Sequence[Column]) -> Any:
    """Of a file. BadLookupError."""
    if kind is Format.PARQUET:
        return checked_size(_parquet(content, columns))
    if len(content) > MOST_BYTES:
        raise BadLookupError(_too_large(len(content)))
    try:
        content.decode()
    except UnicodeDecodeError as error:
        raise BadLookupError(f"it is not UTF-8, at byte {error.start}") from None
    # An editor's mark.
    content = content.removeprefix(b"\xef\xbb\xbf")
    return checked_size(_csv(content, columns) if kind is Format.CSV else _json_lines(content, columns))


def table_of_records(rows: Iterable[TopicRow], fields: Sequence[Column]) -> Any:
    """Of a topic's records, in their order: the fields of their values, and their keys. BadLookupError."""
    found = sorted(rows)
    for row in found:
        value = row.value.strip()
        if not (value.startswith(b"{") and value.endswith(b"}")):
            raise BadLookupError(f"the record at {row.partition}-{row.offset} is no JSON object{_REPAIR}")
    # No line ends are within a string of JSON.
    lines = b"\n".join(row.value.translate(None, b"\r\n") for row in found)
    try:
        lines.decode()
        table = _json(lines, fields) if found else _empty(fields)
    except (pa.ArrowException, UnicodeDecodeError, BadLookupError):
        table = None
    if table is None or len(table) != len(found):
        # Which one it is, takes longer to find out.
        for row in found:
            _check_record(row, fields)
        raise BadLookupError("a record's value is no JSON object with the columns of its schema")
    if all(each.name.lower() != KEY_COLUMN for each in fields):
        table = table.append_column(pa.field(KEY_COLUMN, pa.string()), pa.array(map(_text, found), pa.string()))
    return checked_size(table)


def _text(row: TopicRow) -> str | None:
    try:
        return row.key.decode()
    except UnicodeDecodeError:
        return None  # no statement can ask for it


def _check_record(row: TopicRow, fields: Sequence[Column]) -> None:
    try:
        row.value.decode()
        good = len(_json(row.value.translate(None, b"\r\n"), fields)) == 1
    except (pa.ArrowException, UnicodeDecodeError, BadLookupError):
        good = False
    if not good:
        raise BadLookupError(
            f"the record at {row.partition}-{row.offset} is no JSON object with its schema's columns{_REPAIR}"
        )


def checked_size(table: Any) -> Any:
    """The table. BadLookupError if it is too large."""
    if len(table) > MOST_ROWS:
        raise BadLookupError(f"it has {counted(len(table), 'row')}, and {MOST_ROWS} at most can be joined")
    if table.nbytes > MOST_BYTES:
        raise BadLookupError(_too_large(table.nbytes))
    return table


def _too_large(size: int) -> str:
    return f"it has {size >> 20} MiB, and {MOST_BYTES >> 20} MiB at most can be joined"


def one_row_a_key(table: Any, keys: Collection[str], *, last_wins: bool) -> Any:
    """The rows that a join by these columns can find: one at most for each key. BadLookupError if a key has several.

    `last_wins`: then the last one of these rows stays. The error's row counts from 1, without a header.
    """
    there = None
    for key in keys:
        valid = pc.is_valid(table.column(key))
        there = valid if there is None else pc.and_(there, valid)
    table = table.filter(there)
    numbered = table.select(list(keys)).append_column(_NUMBER, pa.array(range(len(table)), pa.int64()))
    wanted = [(_NUMBER, "max"), (_NUMBER, "min"), (_NUMBER, "count")]
    grouped = numbered.group_by(list(keys), use_threads=False).aggregate(wanted)
    if len(grouped) == len(table):
        return table
    if not last_wins:
        twice = grouped.filter(pc.greater(grouped.column(f"{_NUMBER}_count"), 1)).slice(0, 1).to_pylist()[0]
        # Its place in the file, where rows without a key are as well.
        first = pc.indices_nonzero(there)[twice[f"{_NUMBER}_min"]].as_py() + 1
        raise BadLookupError(
            f"{twice[f'{_NUMBER}_count']} rows have the same {' and '.join(keys)}, the first is row {first}: "
            "a record can have one of them only"
        )
    numbers = grouped.column(f"{_NUMBER}_max").combine_chunks()
    return table.take(numbers.take(pc.sort_indices(numbers)))


def stream_of(table: Any) -> bytes:
    """The table as a stream of Arrow's."""
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as stream:
        stream.write_table(table, max_chunksize=10_000)
    return out.getvalue()


def _csv(content: bytes, columns: Sequence[Column]) -> Any:
    import pyarrow.csv as arrow_csv  # noqa: PLC0415 — it is seldom needed, and takes memory

    _check_quotes(content)
    try:
        header = next(csv.reader([_LINE_END.split(content, 1)[0].decode()]), [])
    except csv.Error:
        raise BadLookupError(f"its first line has a name of more than {csv.field_size_limit()} characters") from None
    for column in columns:
        if (count := header.count(column.name)) != 1:
            there = "two columns" if count else "no column"
            raise BadLookupError(f"its first line has {there} {column.name}")
    names = [each.name for each in columns]
    try:
        table = arrow_csv.read_csv(
            io.BytesIO(content),
            read_options=arrow_csv.ReadOptions(use_threads=False, block_size=len(content) + 1),
            parse_options=arrow_csv.ParseOptions(newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                include_columns=names,
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        )
    except pa.ArrowException:
        raise BadLookupError(f"it is no CSV: not each line has {len(header)} fields, as the first one") from None
    return _cast(table, columns)


def _check_quotes(content: bytes) -> None:
    """Arrow would take all behind a quote that is not closed for one field, and the rows in it would be missing."""
    for field in _QUOTED.finditer(content):
        if not field[1]:
            line = 1 + len(_LINE_END.findall(content, 0, field.start()))
            raise BadLookupError(f"line {line} has a quote that is not closed: write a quote within quotes twice")


def _json_lines(content: bytes, columns: Sequence[Column]) -> Any:
    lines = [each for each in content.split(b"\n") if each.strip()]
    if not lines:
        return _empty(columns)
    try:
        table = _json(b"\n".join(lines), columns)
    except (pa.ArrowException, BadLookupError):
        table = None
    if table is not None and len(table) == len(lines) and all(each.lstrip().startswith(b"{") for each in lines):
        return table
    for number, line in enumerate(content.split(b"\n"), 1):
        if line.strip():
            _check_line(number, line, columns)
    raise BadLookupError("a line is no JSON object with the columns of its schema")


def _check_line(number: int, line: bytes, columns: Sequence[Column]) -> None:
    try:
        good = len(_json(line, columns)) == 1
    except (pa.ArrowException, BadLookupError):
        good = False
    if not good:
        raise BadLookupError(f"line {number} is no JSON object with the columns of its schema")


def _json(lines: bytes, columns: Sequence[Column]) -> Any:
    import pyarrow.json as arrow_json  # noqa: PLC0415 — as above

    # A date is a text in JSON. All else Arrow reads as it is.
    fields = [
        (each.name, pa.string() if each.type in (Type.DATE, Type.TIMESTAMP) else arrow_type(each)) for each in columns
    ]
    table = arrow_json.read_json(
        io.BytesIO(lines),
        read_options=arrow_json.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=arrow_json.ParseOptions(explicit_schema=pa.schema(fields), unexpected_field_behavior="ignore"),
    )
    return _cast(table.select([each.name for each in columns]), columns)


def _parquet(content: bytes, columns: Sequence[Column]) -> Any:
    import pyarrow.parquet as arrow_parquet  # noqa: PLC0415 — as above

    names = [each.name for each in columns]
    try:
        file = arrow_parquet.ParquetFile(io.BytesIO(content))
        found = file.metadata
        if found.num_rows > MOST_ROWS:
            raise BadLookupError(f"it has {found.num_rows} rows, and {MOST_ROWS} at most can be joined")
        size = sum(found.row_group(number).total_byte_size for number in range(found.num_row_groups))
        if size > 4 * MOST_BYTES:
            raise BadLookupError(_too_large(size))
        texts = [each.name for each in columns if _may_repeat(file, each)]
        file = arrow_parquet.ParquetFile(io.BytesIO(content), read_dictionary=texts)
        table = file.read(columns=names, use_threads=False)
    except (pa.ArrowException, OSError):
        raise BadLookupError("it is no Parquet file, or a part of one") from None
    size = sum(_written_out(chunk) for column in table.columns for chunk in column.chunks)
    if size > 4 * MOST_BYTES:
        raise BadLookupError(_too_large(size))
    return _cast(table.select(names), columns)


def _may_repeat(file: Any, column: Column) -> bool:
    """Whether one value in the file may be a long one of many rows. BadLookupError if the column can't be read."""
    schema = file.schema_arrow
    if column.name not in schema.names:
        raise BadLookupError(f"it has no column {column.name}")
    found = schema.field(column.name).type
    if pa.types.is_nested(found):
        raise BadLookupError(f"column {column.name} has a value that is no {column.ddl}")
    # Such a column is read with all its values written out.
    if pa.types.is_fixed_size_binary(found) and (size := found.byte_width * file.metadata.num_rows) > 4 * MOST_BYTES:
        raise BadLookupError(_too_large(size))
    return bool(pa.types.is_string(found) or pa.types.is_binary(found) or pa.types.is_large_string(found))


def _written_out(chunk: Any) -> int:
    """Bytes of a column's part with each value written out. A text may be in the file once, and in each row."""
    if not pa.types.is_dictionary(chunk.type):
        return int(chunk.nbytes)
    lengths = pc.binary_length(chunk.dictionary)
    return pc.sum(pc.cast(lengths.take(chunk.indices), pa.int64())).as_py() or 0


def _cast(table: Any, columns: Sequence[Column]) -> Any:
    """With the types of the columns. BadLookupError."""
    arrays = [_as(table.column(each.name), each) for each in columns]
    return pa.table(arrays, pa.schema([(each.name, arrow_type(each)) for each in columns]))


def _as(array: Any, column: Column) -> Any:
    ways: list[Callable[[], Any]] = [lambda: array.cast(arrow_type(column))]
    if column.type is Type.TIMESTAMP:
        # Without an offset it is in UTC, as all times of a statement.
        ways.append(lambda: array.cast(pa.timestamp("us")).cast(arrow_type(column)))
    for way in ways:
        try:
            return way()
        except pa.ArrowException:
            continue
    raise BadLookupError(f"column {column.name} has a value that is no {column.ddl}")


def _empty(columns: Sequence[Column]) -> Any:
    return pa.schema([(each.name, arrow_type(each)) for each in columns]).empty_table()
