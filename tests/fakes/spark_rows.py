"""A Spark without a JVM: what a statement does to rows, between a feeder and a round trip in one process."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.mirror.transform_sql import TransformSql
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_steps import Steps
from mirror_connect.kafka_io.records.record_batch import split_fetch
from mirror_connect.spark_jobs.compute.feeder import relayed
from mirror_connect.spark_jobs.compute.feeder_socket import FeederListener
from mirror_connect.spark_jobs.compute.function_feeder import transformed
from mirror_connect.spark_jobs.compute.records_table import COLUMNS, SECRETS
from mirror_connect.spark_jobs.compute.round_trip import RoundTrip
from mirror_connect.spark_jobs.copy.computed_batch import ComputedBatch
from tests.fakes.encoded_batches import Plain
from tests.fakes.rewritten_batches import offsets_of, records_of
from tests.waiting import state_reached

# Names of abstract sockets follow from it, and all processes of a machine share those.
TOKEN = uuid.uuid4().hex
PARTITION = TopicPartition("orders", 3)
# Names of such sockets are the machine's: two processes with tests must not meet.
_attempts = itertools.count(os.getpid() << 20)
Row = dict[str, Any]
Statement = Callable[[Row], Row]
Change = Callable[[Iterator[Any]], Iterator[Any]]


def answered(rows: Any, statement: Statement) -> Any:
    """A batch of rows after the statement. It gives back `__keep`, `__error`, and the columns that it changes."""
    found = []
    for row in rows.to_pylist():
        if row["__row"] is None:
            found.append({"__row": None, "__pad": row["__pad"], "__keep": False})
        else:
            found.append({"__row": row["__row"], "__keep": True, **statement(row)})
    header = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    types = {"__row": pa.int64(), "__pad": pa.binary(), "__keep": pa.bool_(), "__error": pa.string(), "key": pa.binary(),
             "value": pa.binary(), "headers": header, "timestamp": pa.timestamp("us", "UTC")}  # fmt: skip
    return pa.RecordBatch.from_arrays(
        [pa.array([row.get(name) for row in found], kind) for name, kind in types.items()], list(types)
    )


def streamed(batches: Iterator[Any]) -> Iterator[Any]:
    """As the task reads Spark's rows: a stream of Arrow. It begins with the first rows, and ends with the feeder."""
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer  # noqa: PLC0415

    spark, task = socket.socketpair()

    def write() -> None:
        stream = None
        with spark, spark.makefile("wb") as out, contextlib.suppress(Exception):
            for each in batches:
                if stream is None:
                    stream = pa.ipc.new_stream(out, each.schema)
                stream.write_batch(each)
                out.flush()
            if stream is not None:
                stream.close()

    threading.Thread(target=write, daemon=True).start()
    with task, task.makefile("rb") as incoming:
        yield from ArrowStreamSerializer().load_stream(incoming)


class _Trip:
    """A round trip to a Spark without a JVM."""

    def __init__(self, attempt: int, trip: RoundTrip) -> None:
        self.attempt = attempt
        self.trip = trip
        self.ended: list[ComputedBatch] = []
        self.trip.start()

    def submit(
        self, content: bytes, from_offset: int = 0, steps: Steps = (), *, letters: bool = False
    ) -> list[ComputedBatch]:
        """Submits the batches of a fetch."""
        made = [
            ComputedBatch(view, from_offset, PARTITION, steps, self.ended.append, letters=letters)
            for view in split_fetch(content)
        ]
        for each in made:
            self.trip.submit(each)
        return made


class FunctionRows(_Trip):
    """A round trip through a function of the user's, in its own process. `failed`: what its feeder has raised."""

    def __init__(self, name: str, secret_names: tuple[str, ...] = (), change: Change = lambda batches: batches) -> None:
        attempt = next(_attempts)
        self.failed: list[Exception] = []

        def fed() -> Iterator[Any]:
            try:
                yield from transformed(TOKEN, attempt, name)
            except Exception as error:
                self.failed.append(error)
                raise

        transform = TransformFunction(name, secret_names)
        columns = (*COLUMNS, SECRETS) if secret_names else COLUMNS
        super().__init__(attempt, RoundTrip(change(fed()), FeederListener(TOKEN, attempt), columns, (), transform))


class SparkRows(_Trip):
    """A round trip through a statement. `change(batches)`: what Spark makes of the rows on their way."""

    def __init__(
        self,
        statement: Statement,
        columns: tuple[str, ...] = ("value",),
        changes: tuple[str, ...] = ("value",),
        change: Change = lambda batches: batches,
        *,
        secret_names: tuple[str, ...] = (),
        value_schema: str | None = None,
        text: str = "",
    ) -> None:
        attempt = next(_attempts)
        self.listener = FeederListener(TOKEN, attempt)
        fed = (answered(each, statement) for each in relayed(TOKEN, attempt))
        transform = TransformSql(text, value_schema, secret_names=secret_names)
        super().__init__(attempt, RoundTrip(change(fed), self.listener, columns, changes, transform))


# What the tests of a round trip share.


def masks(row: Row) -> Row:
    return {"value": None if row["value"] is None else b"masked " + row["value"]}


def fails_at_each_tenth(row: Row) -> Row:
    if row["offset"] % 10 == 5:
        return {"__keep": True, "__error": "WHERE raised an error"}
    return {"__keep": row["offset"] % 2 == 0, "value": b"masked"}


async def all_of(spark: SparkRows, batches: list[ComputedBatch]) -> list[Plain]:
    """The records that have come back, with their source offsets."""
    await state_reached(lambda: all(not each.busy for each in batches), "all batches are back")
    found: list[Plain] = []
    for each in batches:
        while (made := each.take()) is not None:
            found += [r._replace(offset=o) for r, o in zip(records_of(made), offsets_of(made), strict=True)]
    return found


def rechunked(batches: Iterator[Any], seed: int) -> Iterator[Any]:
    """As other batches, as Spark makes them: rows wait until a pad or many others come."""
    chance = random.Random(seed)
    held: list[Any] = []
    for each in batches:
        held.append(each)
        padded = each.column("__row").null_count > 0
        if padded or sum(one.num_rows for one in held) > 50:
            whole = pa.Table.from_batches(held).combine_chunks().to_batches()[0]
            at = 0
            while at < whole.num_rows:
                size = chance.randint(1, 20)
                yield whole.slice(at, size)
                at += size
            held = []
    yield from held
