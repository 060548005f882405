"""How a changed column becomes what a record has: bytes, headers, a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirror_connect.spark_jobs.compute.records_table import HEADERS, HEADERS_TYPE, TIMESTAMP
from mirror_connect.spark_jobs.compute.statement_error import StatementError

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def written(name: str, column: Column, found: DataType) -> Column:
    """The column in the record's own type. It raises an error of Spark's where a record can't have this. StatementError."""
    if name == TIMESTAMP:
        return _time(column, found)
    return _headers(column, found) if name == HEADERS else _bytes(name, column, found)


def _bytes(name: str, column: Column, found: DataType) -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only
    from pyspark.sql import types as t  # noqa: PLC0415

    if isinstance(found, t.BinaryType | t.NullType):
        return column.cast("binary")
    if isinstance(found, t.StringType | t.CharType | t.VarcharType):
        return column.cast("binary")
    if isinstance(found, t.StructType | t.MapType | t.ArrayType | t.VariantType):
        return f.to_json(column).cast("binary")
    raise StatementError(
        f"{name} has type {found.simpleString()}: it must be BINARY, STRING (written as UTF-8), or STRUCT, MAP, ARRAY or "
        f"VARIANT (written as JSON): write CAST(… AS STRING) AS {name}"
    )


def _headers(column: Column, found: DataType) -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415
    from pyspark.sql import types as t  # noqa: PLC0415

    if isinstance(found, t.NullType):
        return f.array().cast(HEADERS_TYPE)
    fields = found.elementType.fields if _is_of_structs(found) else []
    kinds = [each.dataType for each in fields]
    if len(kinds) != len(("key", "value")) or not (
        isinstance(kinds[0], t.StringType) and isinstance(kinds[1], t.BinaryType | t.StringType | t.NullType)
    ):
        raise StatementError(
            f"headers has type {found.simpleString()}: it must be {HEADERS_TYPE.upper()}, as "
            "array_append(headers, named_struct('key', 'from', 'value', CAST('eu' AS BINARY))) makes it"
        )
    given = f.coalesce(column.cast(HEADERS_TYPE), f.array().cast(HEADERS_TYPE))
    missing = f.raise_error(f.lit("a header has no key")).cast("string")
    return f.transform(
        given, lambda each: f.struct(f.coalesce(each["key"], missing).alias("key"), each["value"].alias("value"))
    )


def _is_of_structs(found: DataType) -> bool:
    from pyspark.sql import types as t  # noqa: PLC0415

    return isinstance(found, t.ArrayType) and isinstance(found.elementType, t.StructType)


def _time(column: Column, found: DataType) -> Column:
    from pyspark.sql import functions as f  # noqa: PLC0415
    from pyspark.sql import types as t  # noqa: PLC0415

    if not isinstance(found, t.TimestampType):
        raise StatementError(
            f"timestamp has type {found.simpleString()}: it must be TIMESTAMP: write CAST(… AS TIMESTAMP) AS timestamp, "
            "or timestamp_millis(…) of a number"
        )
    none = f.raise_error(f.lit("a record has no time before 1970")).cast("timestamp")
    return f.when(column >= f.lit("1970-01-01 00:00:00").cast("timestamp"), column).otherwise(none)
