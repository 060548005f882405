"""The table `records` of a connector's statement: its columns, and how JSON in key and value becomes their fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final

from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.mirror.transform_sql import KEY_SCHEMA, VALUE_SCHEMA, TransformSql
from mirror_connect.spark_jobs.compute.expressions import null_if_it_fails
from mirror_connect.spark_jobs.compute.json_fields import holds_more, may_hold_more, out_of_range, with_variants
from mirror_connect.spark_jobs.compute.schema_fields import wrong_field
from mirror_connect.spark_jobs.compute.statement_error import StatementError, spark_errors

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType, StructType

RECORDS: Final = "records"
KEY: Final = "key"
VALUE: Final = "value"
HEADERS: Final = "headers"
TIMESTAMP: Final = "timestamp"
SECRETS: Final = "secrets"
HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"
# In the order in which a statement and a frame have them.
COLUMNS: Final = ("topic", "partition", "offset", TIMESTAMP, KEY, VALUE, HEADERS, "processed_at")
CHANGEABLE: Final = (KEY, VALUE, HEADERS, TIMESTAMP)
# Beside them in each row, and never seen by a statement.
ROW: Final = "__row"
PAD: Final = "__pad"
HIDDEN: Final = (ROW, PAD)
# What comes back beside them and the changed columns.
KEEP: Final = "__keep"
ERROR: Final = "__error"
# In ERROR, for a key or value that is no JSON object of its schema: the line is made where the record is (json_faults.py).
NO_OBJECT: Final[Mapping[str, str]] = {KEY: "no object: key", VALUE: "no object: value"}
# Of rows that a function has made: a bit for each column of CHANGEABLE that it has changed. In others it is null.
CHANGED: Final = "__changed"
# In its place, if the function itself is wrong. Then the error of the row is not about the record.
FUNCTION_FAULT: Final = -1
# Behind each a column of bytes: the text of an object in it, whether there is something else, whether there is anything.
_GIVEN: Final = "__given_"
_BAD: Final = "__bad_"
_THERE: Final = "__there_"
# Whether a STRING field may be more than a string, and then what it was.
_SUSPECT: Final = "__suspect_"
_VARIANTS: Final = "__variants_"
_OBJECT: Final = r"(?s)^\s*\{.*\}\s*$"
# Jackson takes no string of more than 20,000,000 characters by itself. Records are not larger than this (round_trip.py).
_LONGEST: Final = str(32 << 20)
_OPTIONS: Final = {
    "mode": "FAILFAST",
    "columnNameOfCorruptRecord": "__corrupt",
    "allowSingleQuotes": "false",
    # NaN and Infinity are no JSON.
    "allowNonNumericNumbers": "false",
    "maxStringLen": _LONGEST,
}


def columns_of_function(transform: TransformFunction) -> tuple[str, ...]:
    """What a function gets of each record: all of it."""
    return (*COLUMNS, SECRETS) if transform.secret_names else COLUMNS


def frame_type(columns: Iterable[str], sql: TransformSql) -> StructType:
    """The type of the frame that the rows of a task are: hidden columns, then these of the table."""
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415 — with a session only

    types = _types(sql)
    return StructType([StructField(name, types[name]) for name in (*HIDDEN, *columns)])


def rows_type(columns: Iterable[str], sql: TransformSql) -> StructType:
    """The same with the hidden columns where a task's rows have them: the pad is their last one (arrow_rows.py)."""
    from pyspark.sql.types import StructType  # noqa: PLC0415 — with a session only

    wanted = tuple(columns)
    found = frame_type(wanted, sql)
    return StructType([found[name] for name in (ROW, *wanted, PAD)])


def empty_table(session: SparkSession, sql: TransformSql) -> DataFrame:
    """The table without any row, as a statement sees it. StatementError for a schema by which no JSON can be read."""
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415

    schemas = _schemas(session, sql)
    for name, schema in schemas.items():
        _check_readable(session, schema, sql.schemas[name], setting_of(name))
    types = {**_types(sql), **schemas}
    return empty_frame(session, StructType([StructField(name, types[name]) for name in types if name not in HIDDEN]))


def empty_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """A frame of this type without any row. Nothing has to run for it."""
    from pyspark.sql import DataFrame  # noqa: PLC0415 — with a session only

    java = session._jsparkSession
    rows = session._jvm.java.util.ArrayList()
    return DataFrame(java.createDataFrame(rows, java.parseDataType(schema.json())), session)


def unknown_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """A frame of this type of whose rows Spark's optimiser knows nothing, not even that there is none."""
    from pyspark.sql import DataFrame  # noqa: PLC0415 — with a session only

    java = session._jsparkSession
    rows = session.sparkContext._jsc.emptyRDD()
    return DataFrame(java.createDataFrame(rows, java.parseDataType(schema.json())), session)


def with_json(frame: DataFrame, sql: TransformSql) -> tuple[DataFrame, dict[str, Column]]:
    """A frame whose key and value are read by their schemas; and by column a condition: it is no JSON object of its schema.

    What Spark reads of a wrong object would be half of it. So a fault makes all of it null.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only

    schemas = {name: each for name, each in _schemas(frame.sparkSession, sql).items() if name in frame.columns}
    if not schemas:
        return frame, {}
    given: list[Column] = []
    read: list[Column] = []
    suspects: list[Column] = []
    variants: list[Column] = []
    bad: list[Column] = []
    for name in frame.columns:
        column = f.col(name)
        if name not in schemas:
            given.append(column)
            read.append(column)
            continue
        text, there, suspect = (f.col(each + name) for each in (_GIVEN, _THERE, _SUSPECT))
        schema = schemas[name]
        given += (_given(column).alias(_GIVEN + name), column.isNotNull().alias(_THERE + name))
        # Named twice, the text stays a column of its own. Else Spark moves it into from_json, and generates no code for it.
        read += (null_if_it_fails(f.from_json(text, schema, _OPTIONS)).alias(name), text, there)
        wrong = there & column.isNull()
        if (infinite := out_of_range(column, schema)) is not None:
            wrong = wrong | f.coalesce(infinite, f.lit(False))
        if (may := may_hold_more(column, schema)) is not None:
            suspects.append(f.coalesce(may, f.lit(False)).alias(_SUSPECT + name))
            seen = f.when(suspect, null_if_it_fails(f.from_json(text, with_variants(schema), _OPTIONS)))
            variants.append(seen.alias(_VARIANTS + name))
            more = holds_more(f.col(_VARIANTS + name), schema)
            assert more is not None
            # What can't be read again may be anything.
            wrong = wrong | (suspect & (f.col(_VARIANTS + name).isNull() | f.coalesce(more, f.lit(False))))
        bad.append(wrong.alias(_BAD + name))
    found = frame.select(*given).select(*read)
    if suspects:
        found = found.select("*", *suspects).select("*", *variants)
    return found.select(*frame.columns, *bad), {name: f.col(_BAD + name) for name in schemas}


def _given(column: Column) -> Column:
    """The text of an object; null of anything else, and of text that is not UTF-8.

    Spark would take what follows an object for nothing, and replace characters that are none. A task's rows have no object
    that another one follows (arrow_rows.py).
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only

    text = column.cast("string")
    # Nearly all have no space around them. A regular expression costs ten times as much.
    is_object = (text.startswith("{") & text.endswith("}")) | text.rlike(_OBJECT)
    return f.when(f.is_valid_utf8(text) & is_object, text)


def setting_of(name: str) -> str:
    """The setting of a column's schema."""
    return VALUE_SCHEMA if name == VALUE else KEY_SCHEMA


def _types(sql: TransformSql) -> dict[str, DataType]:
    from pyspark.sql import types as t  # noqa: PLC0415

    header = t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
    found: dict[str, DataType] = {
        ROW: t.LongType(),
        PAD: t.BinaryType(),
        "topic": t.StringType(),
        "partition": t.IntegerType(),
        "offset": t.LongType(),
        TIMESTAMP: t.TimestampType(),
        KEY: t.BinaryType(),
        VALUE: t.BinaryType(),
        HEADERS: t.ArrayType(header),
        "processed_at": t.TimestampType(),
    }
    if sql.secret_names:
        found[SECRETS] = t.StructType([t.StructField(name, t.StringType()) for name in sql.secret_names])
    return found


def _is_type(session: SparkSession, text: str) -> bool:
    try:
        with spark_errors(text):
            session._jvm.org.apache.spark.sql.types.DataType.fromDDL(text)
    except StatementError:
        return False
    return True


def _schemas(session: SparkSession, sql: TransformSql) -> dict[str, StructType]:
    """Columns that are read as JSON, and the type of their objects."""
    given = {KEY: sql.key_schema, VALUE: sql.value_schema}
    return {name: _parsed(session, setting_of(name), ddl) for name, ddl in given.items() if ddl is not None}


def _parsed(session: SparkSession, setting: str, ddl: str) -> StructType:
    try:
        with spark_errors(ddl, setting=setting):
            found = _struct(session, ddl)
    except StatementError as error:
        raise StatementError(wrong_field(ddl, partial(_is_type, session)) or error.problem, setting=setting) from None
    if not found.fields:
        raise StatementError(
            "it has no field: it must be those of an object, as: id BIGINT, name STRING", setting=setting
        )
    _check_names(found, setting)
    return found


def _check_readable(session: SparkSession, schema: StructType, ddl: str, setting: str) -> None:
    """Spark has types that it reads from no JSON, as TIME and CHAR(3). StatementError."""
    if (problem := _unreadable(session, schema)) is None:
        return

    def is_readable(text: str) -> bool:
        return _unreadable(session, _struct(session, f"a {text}")) is None

    raise StatementError(wrong_field(ddl, is_readable, "which Spark reads from no JSON") or problem, setting=setting)


def _unreadable(session: SparkSession, schema: StructType) -> str | None:
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only

    try:
        with spark_errors(""):
            empty_frame(session, schema).select(f.from_json(f.lit("{}"), schema, _OPTIONS))
    except StatementError as error:
        return error.problem
    return None


def _struct(session: SparkSession, ddl: str) -> StructType:
    from pyspark.sql.types import StructType, _parse_datatype_json_string  # noqa: PLC0415 — with a session only

    found = _parse_datatype_json_string(session._jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl).json())
    assert isinstance(found, StructType)
    return found


def _check_names(kind: DataType, setting: str) -> None:
    """No two fields of a struct have one name, however deep. StatementError."""
    from pyspark.sql import types as t  # noqa: PLC0415

    if isinstance(kind, t.StructType):
        names = [each.name.lower() for each in kind.fields]
        twice = next((each for each in names if names.count(each) > 1), None)
        if twice is not None:
            raise StatementError(
                f"two fields have the name {twice}, and names in SQL are case-insensitive", setting=setting
            )
        inner = [each.dataType for each in kind.fields]
    elif isinstance(kind, t.ArrayType):
        inner = [kind.elementType]
    else:
        inner = [kind.valueType] if isinstance(kind, t.MapType) else []
    for each in inner:
        _check_names(each, setting)
