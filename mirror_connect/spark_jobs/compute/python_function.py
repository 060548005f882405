"""A user's function of records: rows of Arrow in, and rows with what it makes of them out. Pure, and without Spark.

The function gets the records of a batch as columns of the table `records`, and returns columns of the same length. A record
may fail: with an `error` of the function's, or as the function raises for it alone. What the function does for all records
in a wrong way is no error of a record but of the function (`FunctionFault`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from mirror_connect.connectors.user_code.user_function import place_of
from mirror_connect.spark_jobs.compute.arrow_rows import HEADERS_LIST, PAD_BYTES, TIME
from mirror_connect.spark_jobs.compute.records_table import (
    CHANGEABLE,
    CHANGED,
    COLUMNS,
    ERROR,
    FUNCTION_FAULT,
    HEADERS,
    HIDDEN,
    KEEP,
    KEY,
    PAD,
    ROW,
    SECRETS,
    TIMESTAMP,
    VALUE,
)

# What a function may return beside the changed columns.
KEEP_COLUMN: Final = "keep"
ERROR_COLUMN: Final = "error"
_TAKEN: Final = (*CHANGEABLE, KEEP_COLUMN, ERROR_COLUMN)
# The longest text of an error that a function gives.
_MOST_TEXT: Final = 500
_TYPES: Final[Mapping[str, Any]] = {
    ROW: pa.int64(),
    KEEP: pa.bool_(),
    ERROR: pa.string(),
    CHANGED: pa.int32(),
    **{name: {TIMESTAMP: TIME, HEADERS: HEADERS_LIST}.get(name, pa.binary()) for name in CHANGEABLE},
    PAD: pa.binary(),
}
# Of the rows that come out. The pad is the last column, as in arrow_rows.py.
SCHEMA: Final = pa.schema(list(_TYPES.items()))


class FunctionFault(Exception):
    """What a function does that no record is to blame for: the end of a sentence that names it."""


class PythonFunction:
    """Applies a function. `name`: as it is written in the config. `fault`: why there is none."""

    def __init__(self, name: str, function: Callable[..., Any] | None, fault: str | None = None) -> None:
        self._name = name
        self._function = function
        self._fault = fault

    def rows(self, batch: Any) -> Iterator[Any]:
        """What becomes of rows of the task (arrow_rows.Rows): as many, in order, maybe in several batches."""
        numbers = batch.column(ROW)
        if numbers.null_count:
            # The task sends rows without a number by themselves.
            yield PADS
            return
        records = batch.select([name for name in batch.schema.names if name not in HIDDEN])
        at = 0
        try:
            if self._fault is not None:
                raise FunctionFault(self._fault)
            for made in self._applied(records):
                size = len(made[KEEP])
                yield _batch(numbers.slice(at, size), made)
                at += size
        except FunctionFault as fault:
            rest = len(numbers) - at
            texts = pa.array([f"{self._name} {fault}"] * rest, pa.string())
            yield _batch(
                numbers.slice(at),
                {KEEP: _all(rest, False), ERROR: texts, CHANGED: pa.array([FUNCTION_FAULT] * rest, pa.int32())},
            )

    def _applied(self, records: Any) -> Iterator[dict[str, Any]]:
        assert self._function is not None
        try:
            found = self._function(records)
        except Exception as error:  # noqa: BLE001 — it is the user's code
            size = records.num_rows
            if size == 1:
                # Its text may quote the record, or a secret.
                text = f"{self._name} raised {type(error).__name__}{place_of(error)}"
                yield {KEEP: _all(1, False), ERROR: pa.array([text], pa.string()), CHANGED: _mask(1, 0)}
                return
            # Those that fail alone are to be found.
            yield from self._applied(records.slice(0, size // 2))
            yield from self._applied(records.slice(size // 2))
        else:
            yield made_of(records, found)


def made_of(records: Any, returned: Any) -> dict[str, Any]:
    """Columns of the rows, by what a function has returned for these records. FunctionFault."""
    given = _columns(returned)
    count = records.num_rows
    errors: dict[int, str] = {}
    made: dict[str, Any] = {}
    changed = 0
    for name, column in given.items():
        if name not in _TAKEN:
            _check_unchanged(name, column, records)
            continue
        array = _array(name, column, count)
        if name == ERROR_COLUMN:
            errors |= {
                n: " ".join(text.split())[:_MOST_TEXT] for n, text in enumerate(array.to_pylist()) if text is not None
            }
        elif name == KEEP_COLUMN:
            made[KEEP] = array.fill_null(False)
        else:
            if name == VALUE and (tombstones := records.column(VALUE).is_null()).true_count:
                # A tombstone stays one.
                array = pc.if_else(tombstones, pa.scalar(None, pa.binary()), array)
            if not array.equals(records.column(name)):
                made[name] = array
                changed |= 1 << CHANGEABLE.index(name)
                errors = _problems(name, array) | errors
    made.setdefault(KEEP, _all(count, True))
    made[CHANGED] = _mask(count, changed)
    if errors:
        made[ERROR] = pa.array([errors.get(number) for number in range(count)], pa.string())
        made[KEEP] = pc.and_(made[KEEP], made[ERROR].is_null())
    return made


def _columns(returned: Any) -> Mapping[str, Any]:
    if isinstance(returned, pa.RecordBatch | pa.Table):
        return dict(zip(returned.schema.names, returned.columns, strict=True))
    if isinstance(returned, Mapping):
        return returned
    raise FunctionFault(
        f"returned {_a(returned)}: it must return a mapping of columns by their names, a RecordBatch or a Table of pyarrow"
    )


def _check_unchanged(name: str, column: Any, records: Any) -> None:
    """A function may return all that it got, with a few changed columns."""
    if name in (*COLUMNS, SECRETS) and name in records.schema.names:
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if isinstance(column, pa.Array) and column.equals(records.column(name)):
            return
        raise FunctionFault(f"returned another {name}, which can't be changed")
    raise FunctionFault(f"returned a column {name!r}: there are {', '.join(_TAKEN)}")


def _array(name: str, column: Any, count: int) -> Any:
    """A returned column with the type that it needs. FunctionFault."""
    wanted = {KEEP_COLUMN: pa.bool_(), ERROR_COLUMN: pa.string()}.get(name) or _TYPES[name]
    if isinstance(column, list | tuple):
        try:
            column = pa.array(column, wanted)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            raise FunctionFault(f"returned a list as {name} that is none of {_named(name)}") from None
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if not isinstance(column, pa.Array):
        raise FunctionFault(f"returned {_a(column)} as {name}: it must be an array of pyarrow, or a list")
    if len(column) != count:
        raise FunctionFault(f"returned {len(column)} of {name} for {count} records: it must return one for each")
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == wanted:
        return column
    if not pa.types.is_null(column.type) and not _fits(name, column.type):
        raise FunctionFault(f"returned {name} of type {column.type}: it must be {_named(name)}")
    try:
        return _cast(column, wanted)
    except pa.ArrowException:
        raise FunctionFault(f"returned {name} of type {column.type}, which can't be cast to {wanted}") from None


def _cast(column: Any, wanted: Any) -> Any:
    if pa.types.is_timestamp(column.type) and column.type.tz is None:
        # Without a time zone it is UTC.
        column = column.cast(pa.timestamp("us"), safe=False)
    return column.cast(wanted, safe=False)


def _fits(name: str, kind: Any) -> bool:
    types = pa.types
    if name in (KEY, VALUE):
        return any(
            of(kind)
            for of in (
                *(types.is_binary, types.is_large_binary, types.is_binary_view, types.is_fixed_size_binary),
                *(types.is_string, types.is_large_string, types.is_string_view),
            )
        )
    if name == ERROR_COLUMN:
        return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))
    if name == TIMESTAMP:
        return bool(types.is_timestamp(kind))
    if name == HEADERS:
        return bool(
            (types.is_list(kind) or types.is_large_list(kind))
            and types.is_struct(kind.value_type)
            and [field.name for field in kind.value_type] == ["key", "value"]
        )
    return False


def _named(name: str) -> str:
    return {
        KEEP_COLUMN: "bool",
        ERROR_COLUMN: "string",
        TIMESTAMP: "timestamp",
        HEADERS: "list<struct<key: string, value: binary>>",
    }.get(name, "binary, or string, which is written as UTF-8")


def _problems(name: str, array: Any) -> dict[int, str]:
    """What no record can have, by the records' numbers."""
    if name == TIMESTAMP:
        # As Kafka's, in milliseconds since 1970.
        right = pc.fill_null(pc.greater_equal(array.cast(pa.int64()), 0), False)
        text = "it was given no time, or one before 1970"
    elif name == HEADERS:
        if array.flatten().field("key").null_count == 0:
            return {}
        right = pa.array(
            [each is None or all(header["key"] is not None for header in each) for each in array.to_pylist()],
            pa.bool_(),
        )
        text = "it was given a header without a key"
    else:
        return {}
    if right.true_count == len(right):
        return {}
    return {number: text for number, there in enumerate(right.to_pylist()) if not there}


def _batch(numbers: Any, made: Mapping[str, Any]) -> Any:
    arrays = [numbers if field.name == ROW else made.get(field.name) for field in SCHEMA]
    blank = len(numbers)
    return pa.RecordBatch.from_arrays(
        [pa.nulls(blank, field.type) if array is None else array for field, array in zip(SCHEMA, arrays, strict=True)],
        schema=SCHEMA,
    )


def _all(count: int, value: bool) -> Any:
    return pa.repeat(pa.scalar(value), count)


def _mask(count: int, mask: int) -> Any:
    return pa.repeat(pa.scalar(mask, pa.int32()), count)


def _a(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


# As Rows.pads: one that fills Spark's batch, and one that follows it.
PADS: Final = pa.RecordBatch.from_arrays(
    [
        *(pa.nulls(2, field.type) for field in SCHEMA if field.name != PAD),
        pa.array([bytes(PAD_BYTES), b""], pa.binary()),
    ],
    schema=SCHEMA,
)
