"""What a statement makes of some records, for the worker that shows them to a user (app/planning/preview.py).

Rows, statement and codec are those of a task. The driver computes the rows by itself, as part of Spark's planning: no job
runs, so it needs no slot. Only joins with lookups need jobs: Spark broadcasts their rows, as for a task. Records and secrets
are data of one relation in the driver's memory. Spark prints the columns of such a relation in plans, events and logs, and
never its rows.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from mirror_connect.connectors.mirror.transform_sql import SQL, TransformSql
from mirror_connect.kafka_io.records.asked_records import AskedRecord, TransformedRecord
from mirror_connect.kafka_io.records.batch_builder import one_record
from mirror_connect.kafka_io.records.compression import NONE
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError, ProducerBatch
from mirror_connect.kafka_io.records.record_columns import with_columns
from mirror_connect.kafka_io.records.unpacked_records import record_of
from mirror_connect.spark_jobs.compute.arrow_rows import Rows
from mirror_connect.spark_jobs.compute.records_table import ERROR, HEADERS, KEEP, KEY, ROW, TIMESTAMP, VALUE, rows_type
from mirror_connect.spark_jobs.compute.row_changes import RowErrors, changes_of
from mirror_connect.spark_jobs.compute.statement import applied, read_statement
from mirror_connect.spark_jobs.compute.statement_error import StatementError, problem_answer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from mirror_connect.spark_jobs.compute.lookup_joins import LookupJoin
    from mirror_connect.spark_jobs.compute.statement import Statement

    LookupFrame = Callable[[LookupJoin, TransformSql], DataFrame]

# How long jobs have for the records; less than whoever asked waits.
PATIENCE_S: Final = 25.0
# Of all answered records. The worker reads the answer on its loop.
MOST_BYTES: Final = 2 << 20
TOO_MANY: Final = "it becomes {} bytes, too many for a preview"
_SIZE: Final = "__size_of_"
_HEADER: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
# Times come as numbers: Python has no year 10000.
_TYPES: Final = {KEY: pa.binary(), VALUE: pa.binary(), HEADERS: pa.list_(_HEADER), TIMESTAMP: pa.int64()}


class _TooLate(Exception):
    """Jobs have taken too long."""


def preview_answer(session: SparkSession, body: Any, lookup: LookupFrame | None = None) -> dict[str, Any]:
    """The answer for records. `session`: of `statement_session`. `lookup` gives the rows of a lookup as a task gets them."""
    keep_calls_out_of_the_log()
    sql = TransformSql.from_json(body["sql"])
    try:
        statement = read_statement(session, sql)
    except StatementError as error:
        return problem_answer(error, sql.text)
    records = [AskedRecord.from_json(each) for each in body["records"]]
    rows = Rows(statement.columns, sql.secret_names, sql.objects)
    rows.know(body["secrets"])
    try:
        found = _transformed(session, statement, rows, records, lookup)
    except _TooLate:
        why = f"Spark did not join the lookups within {PATIENCE_S:g} s: it has no free slot, or they are large"
        return {"away": f"{why}. Try again"}
    return {"records": [each.to_json() for each in limited(found)]}


def _transformed(
    session: SparkSession,
    statement: Statement,
    rows: Rows,
    records: Sequence[AskedRecord],
    lookup: LookupFrame | None,
) -> list[TransformedRecord]:
    pieces = [one_record((each.offset, each.timestamp, each.rest)) for each in records]
    now_us = time.time_ns() // 1000
    batches: list[Any] = []
    failed: dict[int, TransformedRecord] = {}
    for number, (record, piece) in enumerate(zip(records, pieces, strict=True)):
        try:
            batches.append(rows.of([rows.read(piece, record.partition, now_us)], number))
        except CorruptBatchError as error:
            failed[number] = TransformedRecord(False, record.timestamp, None, str(error))
    made = {each[ROW]: each for each in _collected(statement, _frame(session, statement, rows, batches), lookup)}
    return [
        failed[number] if number in failed else _record(made[number], piece, statement)
        for number, piece in enumerate(pieces)
    ]


def _frame(session: SparkSession, statement: Statement, rows: Rows, batches: Sequence[Any]) -> DataFrame:
    """`createDataFrame` would write the rows to a file, for the JVM to read."""
    from pyspark.sql import DataFrame  # noqa: PLC0415 — with a session only

    jvm = session._jvm
    whole = pa.Table.from_batches(batches, rows.schema).combine_chunks().to_batches()
    given = jvm.java.util.ArrayList()
    for each in whole:
        given.add(each.serialize().to_pybytes())
    kind = rows_type(statement.columns, statement.sql)
    iterator = jvm.scala.jdk.javaapi.CollectionConverters.asScala(given.iterator())
    python = jvm.org.apache.spark.sql.api.python.PythonSQLUtils
    return DataFrame(python.toDataFrame(iterator, kind.json(), session._jsparkSession), session)


def _collected(statement: Statement, frame: DataFrame, lookup: LookupFrame | None) -> list[dict[str, Any]]:
    from pyspark.sql import functions as f  # noqa: PLC0415 — with a session only

    made = applied(statement, frame, None if lookup is None else lambda join: lookup(join, statement.sql))
    columns: list[Any] = [ROW, KEEP, ERROR]
    for name in statement.changes:
        if name in (KEY, VALUE):
            # What is too much for an answer stays in the JVM. It would be there and here several times.
            size = f.octet_length(name)
            columns += [f.when(size <= MOST_BYTES, f.col(name)).alias(name), size.alias(_SIZE + name)]
        else:
            columns.append(f.unix_micros(name).alias(name) if name == TIMESTAMP else name)
    with _limited_jobs(frame.sparkSession) if statement.lookups else nullcontext():
        return [each.asDict(recursive=True) for each in made.select(*columns).collect()]


@contextmanager
def _limited_jobs(session: SparkSession) -> Iterator[None]:
    """Jobs of this thread end in time. Without a free slot they would wait for one. _TooLate."""
    context, group = session.sparkContext, f"preview-{uuid.uuid4().hex}"
    late = threading.Event()

    def cancel() -> None:
        late.set()
        context.cancelJobGroup(group)

    context.setJobGroup(group, "a preview", interruptOnCancel=True)
    timer = threading.Timer(PATIENCE_S, cancel)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception:
        if late.is_set():
            raise _TooLate from None
        raise
    finally:
        timer.cancel()


def _record(row: dict[str, Any], piece: ProducerBatch, statement: Statement) -> TransformedRecord:
    timestamp, changes = piece.base_timestamp, statement.changes
    if row[ERROR] is not None:
        errors = RowErrors(piece, pa.array([row[ERROR]]), SQL, statement.sql.schemas, {})
        return TransformedRecord(False, timestamp, None, errors.reason(0))
    if not row[KEEP]:
        return TransformedRecord(False, timestamp, None, None)
    size = max((row[_SIZE + name] or 0 for name in changes if name in (KEY, VALUE)), default=0)
    if size > MOST_BYTES:
        return TransformedRecord(True, timestamp, None, TOO_MANY.format(size))
    schema = pa.schema([(name, _TYPES[name]) for name in changes])
    values = pa.RecordBatch.from_pylist([{name: row[name] for name in changes}], schema)
    try:
        made = with_columns(piece, changes_of({name: values.column(name) for name in changes}, None), NONE)
    except CorruptBatchError as error:
        return TransformedRecord(False, timestamp, None, str(error))
    assert made is not None
    _, timestamp, rest = record_of(made)
    return TransformedRecord(True, timestamp, rest)


def limited(found: Sequence[TransformedRecord]) -> list[TransformedRecord]:
    """Those that are too much for one answer are told without their bytes."""
    left, told = MOST_BYTES, []
    for each in found:
        size = len(each.rest or b"")
        if size <= left:
            left -= size
            told.append(each)
        else:
            told.append(replace(each, rest=None, error=TOO_MANY.format(size)))
    return told


def _is_no_call(record: logging.LogRecord) -> bool:
    return record.levelno > logging.DEBUG


def keep_calls_out_of_the_log() -> None:
    """Py4J logs each call with its arguments, here records and secrets, if somebody asks for its DEBUG lines."""
    for name in ("py4j.java_gateway", "py4j.clientserver"):
        logger = logging.getLogger(name)
        if _is_no_call not in logger.filters:
            logger.addFilter(_is_no_call)
