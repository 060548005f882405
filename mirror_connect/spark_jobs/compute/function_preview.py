"""What a user's function makes of some records, for the worker that shows them to a user (app/planning/preview.py).

Rows, function and codec are those of a task. Each record is given to the function alone, in a process that then ends.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.mirror.transform_sql import PYTHON
from mirror_connect.kafka_io.records.asked_records import AskedRecord, TransformedRecord
from mirror_connect.kafka_io.records.batch_builder import one_record
from mirror_connect.kafka_io.records.compression import NONE
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError, ProducerBatch
from mirror_connect.kafka_io.records.record_columns import with_columns
from mirror_connect.kafka_io.records.unpacked_records import record_of
from mirror_connect.spark_jobs.compute.arrow_rows import Rows
from mirror_connect.spark_jobs.compute.feeder_socket import END
from mirror_connect.spark_jobs.compute.function_process import kill_function, start_function
from mirror_connect.spark_jobs.compute.records_table import CHANGED, ERROR, FUNCTION_FAULT, KEEP, columns_of_function
from mirror_connect.spark_jobs.compute.row_changes import changes_of, function_changes
from mirror_connect.spark_jobs.compute.statement_preview import limited

# How long the function has for all records; less than whoever asked waits.
PATIENCE_S: Final = 25.0


class _FunctionProblem(Exception):
    """Why there is no answer, in one line."""


def function_answer(body: Any) -> dict[str, Any]:
    """The answer for records, which has a line about the function if it is wrong."""
    transform = TransformFunction.from_json(body["sql"])
    records = [AskedRecord.from_json(each) for each in body["records"]]
    rows = Rows(columns_of_function(transform), transform.secret_names)
    rows.know(body["secrets"])
    try:
        found = list(_transformed(transform.name, rows, records))
    except _FunctionProblem as problem:
        return {"problem": str(problem), "setting": PYTHON}
    return {"records": [each.to_json() for each in limited(found)]}


def _transformed(name: str, rows: Rows, records: Sequence[AskedRecord]) -> Iterator[TransformedRecord]:
    now_us = time.time_ns() // 1000
    pieces: list[ProducerBatch] = []
    batches: list[Any] = []
    failed: dict[int, str] = {}
    for number, record in enumerate(records):
        pieces.append(one_record((record.offset, record.timestamp, record.rest)))
        try:
            batches.append(rows.of([rows.read(pieces[-1], record.partition, now_us)], number))
        except CorruptBatchError as error:
            failed[number] = str(error)
    made = iter(_made(name, rows, batches))
    for number, (record, piece) in enumerate(zip(records, pieces, strict=True)):
        if number in failed:
            yield TransformedRecord(False, record.timestamp, None, failed[number])
        else:
            yield _record(next(made), piece, record.timestamp)


def _made(name: str, rows: Rows, batches: Sequence[Any]) -> list[Any]:
    """The row of each record."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        for each in batches:
            stream.write_batch(each)
    process = start_function(name, subprocess.PIPE)
    try:
        found, _ = process.communicate(sink.getvalue().to_pybytes() + END, PATIENCE_S)
    except subprocess.TimeoutExpired:
        raise _FunctionProblem(f"{name} takes more than {PATIENCE_S:g} s") from None
    finally:
        kill_function(process)
        process.wait()
    if process.returncode != 0 or not found.endswith(END):
        raise _FunctionProblem(f"{name} has ended its process (exit code {process.returncode})")
    with pa.ipc.open_stream(found) as answer:
        return list(answer)


def _record(row: Any, piece: ProducerBatch, timestamp: int) -> TransformedRecord:
    error = row.column(ERROR)[0].as_py()
    if row.column(CHANGED)[0].as_py() == FUNCTION_FAULT:
        raise _FunctionProblem(error)
    if error is not None or not row.column(KEEP)[0].as_py():
        return TransformedRecord(False, timestamp, None, error)
    try:
        made = with_columns(piece, changes_of(function_changes([row], piece), None), NONE)
    except CorruptBatchError as corrupt:
        return TransformedRecord(False, timestamp, None, str(corrupt))
    assert made is not None
    _, timestamp, rest = record_of(made)
    return TransformedRecord(True, timestamp, rest)
