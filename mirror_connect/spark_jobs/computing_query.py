"""The query of a task whose records Spark transforms: the clock, the feeder, the statement, the task.

    clock -> mapInArrow(feeder) -> the statement's columns -> mapInArrow(task) -> noop

All of it is one Spark task with two Python processes. The task sends rows to the feeder, and Spark gives them to it again,
transformed. Progress, orders and epochs are those of every task (query.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from mirror_connect.connectors.mirror.transform_sql import SQL, TransformSql
from mirror_connect.spark_jobs.compute.records_table import rows_type
from mirror_connect.spark_jobs.compute.statement import applied, read_statement, statement_session
from mirror_connect.spark_jobs.compute.statement_error import StatementError
from mirror_connect.spark_jobs.internal_http import RunHandle
from mirror_connect.spark_jobs.query import clock_of, epoch_of, map_in_arrow, run_in_loop, start_writing
from mirror_connect.spark_jobs.task_context import EPOCH_SECONDS

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from mirror_connect.spark_jobs.compute.statement import Statement
    from mirror_connect.spark_jobs.query import ArrowFunction

# What Spark puts into one batch of rows for Python. A pad fills it (compute/arrow_rows.py).
BATCH_BYTES: Final = 128 << 10
# Of a session of its own: for other queries a batch has one row, and no code is generated.
SETTINGS: Final[Mapping[str, str]] = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(BATCH_BYTES),
    "spark.sql.execution.arrow.useLargeVarTypes": "false",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


def start_computing_query(session: SparkSession, handle: RunHandle, sql: TransformSql, scratch: str) -> StreamingQuery:
    """As query.start_query, for a task with a statement. StatementError if it can't be applied."""
    own = statement_session(session)
    for name, value in SETTINGS.items():
        own.conf.set(name, value)
    try:
        statement = read_statement(own, sql)
        fed = map_in_arrow(clock_of(own), feeder_function(handle), rows_type(statement.columns, sql))
        transformed = applied(statement, fed)
    except StatementError as error:
        raise StatementError(f"{error.setting or SQL}: {error.line(sql.text)}") from None
    return start_writing(map_in_arrow(transformed, computing_function(handle, statement)), handle.run_id, scratch)


def feeder_function(handle: RunHandle) -> ArrowFunction:
    """The function of the feeder that Spark pickles. Of the run it has the token alone, by which its task knows it."""
    token = handle.token

    def feed_epochs(rows: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from mirror_connect.spark_jobs.compute.feeder import feed  # noqa: PLC0415 — so that it is pickled by reference

        yield from feed(token, rows)

    return feed_epochs


def computing_function(handle: RunHandle, statement: Statement, seconds: float = EPOCH_SECONDS) -> ArrowFunction:
    """As query.task_function, for a task with a statement, of which it has no value of a secret."""

    def epoch(rows: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from mirror_connect.spark_jobs.computing_query import run_computing_epoch  # noqa: PLC0415 — see above

        run_computing_epoch(handle, seconds, statement, rows)
        yield from ()

    return epoch


def run_computing_epoch(
    handle: RunHandle, seconds: float, statement: Statement, rows: Iterator[pyarrow.RecordBatch]
) -> None:
    """As query.run_epoch. SparkLostError if Spark, or the feeder, has ended: then Spark tries both again."""
    from mirror_connect.spark_jobs.compute.feeder_socket import FeederListener, attempt  # noqa: PLC0415 — see query.py
    from mirror_connect.spark_jobs.compute.round_trip import RoundTrip  # noqa: PLC0415

    trip = RoundTrip(rows, FeederListener(handle.token, attempt()), statement.columns, statement.changes, statement.sql)
    trip.start()
    try:
        run_in_loop(epoch_of(handle, seconds, computing=trip))
    finally:
        trip.close()
