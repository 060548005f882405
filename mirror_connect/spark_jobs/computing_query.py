"""The query of a task whose records Spark transforms: the clock, the feeder, the statement, the task.

    clock -> mapInArrow(feeder) -> the statement's columns -> mapInArrow(task) -> noop

With a function of the user's, the feeder has it applied, and no statement follows.

All of it is one Spark task with two Python processes. The task sends rows to the feeder, and Spark gives them to it again,
transformed. Progress, orders and epochs are those of every task (query.py).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from mirror_connect.connectors.mirror.record_transform import RecordTransform
from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.mirror.transform_sql import SQL, TransformSql
from mirror_connect.spark_jobs.compute.lookup_joins import LookupJoin, table_type
from mirror_connect.spark_jobs.compute.records_table import (
    CHANGEABLE,
    CHANGED,
    ERROR,
    HEADERS,
    KEEP,
    PAD,
    ROW,
    TIMESTAMP,
    columns_of_function,
    rows_type,
)
from mirror_connect.spark_jobs.compute.statement import applied, read_statement, statement_session
from mirror_connect.spark_jobs.compute.statement_error import StatementError
from mirror_connect.spark_jobs.internal_http import RunHandle
from mirror_connect.spark_jobs.query import clock_of, epoch_of, map_in_arrow, run_in_loop, start_writing
from mirror_connect.spark_jobs.task_context import EPOCH_SECONDS

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from mirror_connect.spark_jobs.query import ArrowFunction

# What Spark puts into one batch of rows for Python. A pad fills it (compute/arrow_rows.py).
BATCH_BYTES: Final = 128 << 10
# What a task has to end that Spark has left.
LAST_WORDS_S: Final = 1.0
# Of a session of its own: for other queries a batch has one row, and no code is generated.
SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
    # An epoch waits until the worker has its lookups, as long as that takes.
    "spark.sql.broadcastTimeout": "-1",
}


def start_computing_query(
    session: SparkSession, handle: RunHandle, transform: RecordTransform, scratch: str
) -> StreamingQuery:
    """As query.start_query, for a task with a statement or a function. StatementError if it can't be applied."""
    own = statement_session(session)
    for name, value in SETTINGS.items():
        own.conf.set(name, value)
    if isinstance(transform, TransformFunction):
        made = map_in_arrow(clock_of(own), function_feeder(handle, transform.name), _made_type())
        task = computing_function(handle, transform, columns_of_function(transform), ())
    else:
        made, task = _with_statement(own, handle, transform)
    return start_writing(map_in_arrow(made, task), handle.run_id, scratch)


def _with_statement(own: SparkSession, handle: RunHandle, sql: TransformSql) -> tuple[DataFrame, ArrowFunction]:
    try:
        statement = read_statement(own, sql)
        fed = map_in_arrow(clock_of(own), feeder_function(handle), rows_type(statement.columns, sql))
        transformed = applied(statement, fed, lambda join: lookup_frame(own, handle, join, sql))
    except StatementError as error:
        raise StatementError(f"{error.setting or SQL}: {error.line(sql.text)}") from None
    return transformed, computing_function(handle, statement.sql, statement.columns, statement.changes)


def _made_type() -> StructType:
    """The type of the rows that a function makes (compute/python_function.py)."""
    from pyspark.sql import types as t  # noqa: PLC0415 — task processes do not need it

    header = t.StructType([t.StructField("key", t.StringType()), t.StructField("value", t.BinaryType())])
    kinds: dict[str, t.DataType] = {
        ROW: t.LongType(),
        KEEP: t.BooleanType(),
        ERROR: t.StringType(),
        CHANGED: t.IntegerType(),
        **dict.fromkeys(CHANGEABLE, t.BinaryType()),
        HEADERS: t.ArrayType(header),
        TIMESTAMP: t.TimestampType(),
        PAD: t.BinaryType(),
    }
    return t.StructType([t.StructField(name, kind) for name, kind in kinds.items()])


def function_feeder(handle: RunHandle, name: str) -> ArrowFunction:
    """As `feeder_function`, with a function of the user's. `name`: as the config has it."""
    token = handle.token

    def feed_epochs(rows: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from mirror_connect.spark_jobs.compute.function_feeder import feed_function  # noqa: PLC0415 — see below

        yield from feed_function(token, name, rows)

    return feed_epochs


def lookup_frame(session: SparkSession, handle: RunHandle, join: LookupJoin, sql: TransformSql) -> DataFrame:
    """The rows of a lookup, which a Python process of Spark's gets from the worker once for each epoch."""
    return map_in_arrow(session.range(0, 1, 1, 1), lookup_function(handle, join), table_type(sql, join))


def lookup_function(handle: RunHandle, join: LookupJoin) -> ArrowFunction:
    """The function that gets a lookup's rows. As that of the task it has the capability of its run alone."""

    def lookup(ticks: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from mirror_connect.spark_jobs.compute.lookup_rows import rows_of  # noqa: PLC0415 — see below

        for _ in ticks:
            yield from rows_of(handle, join)

    return lookup


def feeder_function(handle: RunHandle) -> ArrowFunction:
    """The function of the feeder that Spark pickles. Of the run it has the token alone, by which its task knows it."""
    token = handle.token

    def feed_epochs(rows: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from mirror_connect.spark_jobs.compute.feeder import feed  # noqa: PLC0415 — so that it is pickled by reference

        yield from feed(token, rows)

    return feed_epochs


def computing_function(
    handle: RunHandle,
    transform: RecordTransform,
    columns: Sequence[str],
    changes: Sequence[str],
    seconds: float = EPOCH_SECONDS,
) -> ArrowFunction:
    """As query.task_function, for a task whose records are transformed. It has no value of a secret.

    `columns`: those of a record that leave the task. `changes`: those that come back.
    """

    def epoch(rows: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from mirror_connect.spark_jobs.computing_query import run_computing_epoch  # noqa: PLC0415 — see above

        run_computing_epoch(handle, seconds, (transform, columns, changes), rows)
        yield from ()

    return epoch


def run_computing_epoch(
    handle: RunHandle,
    seconds: float,
    what: tuple[RecordTransform, Sequence[str], Sequence[str]],
    rows: Iterator[pyarrow.RecordBatch],
) -> None:
    """As query.run_epoch. SparkLostError if Spark, or the feeder, has ended: then Spark tries both again."""
    from mirror_connect.spark_jobs.compute.feeder_socket import (  # noqa: PLC0415 — see query.py
        FeederListener,
        attempt,
        is_another_attempt,
    )
    from mirror_connect.spark_jobs.compute.round_trip import RoundTrip  # noqa: PLC0415

    transform, columns, changes = what
    trip = RoundTrip(rows, FeederListener(handle.token, attempt()), columns, changes, transform)
    trip.start()
    try:
        if is_another_attempt():
            # The one before commits, and says which records Spark had. As soon as this one asks for its spec, it is killed.
            time.sleep(LAST_WORDS_S)
        run_in_loop(epoch_of(handle, seconds, computing=trip))
    finally:
        trip.close()
