"""The query of a Connect task: a clock of one row, and one micro-batch per epoch that runs the task function.

An epoch begins with nothing (connections, producer id and positions are taken anew) and ends with a commit, so any process
may run the next one. What happens in an epoch travels over the internal HTTP; the row that Spark gets back is empty.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.task_protocol import EPOCH_ENDED, FAILED, FENCED, FINISHED
from mirror_connect.kafka_io.producer.produce_outcome import FencedError, PartitionRefusedError
from mirror_connect.spark_jobs.worker_client import RunHandle, RunOverError, WorkerClient

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    ArrowFunction = Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]

EPOCH_SECONDS: Final = 900.0
# Between two epochs that had nothing to do (the run is over, the query not yet stopped): not a hot loop.
IDLE_EPOCH_SECONDS: Final = 0.2
# Errors whose text says what is the matter and what to do.
_TOLD: Final = (ConfigError, ClusterUnreachable, NotAuthorized, FencedError, PartitionRefusedError)


def start_query(session: SparkSession, handle: RunHandle, scratch: str) -> StreamingQuery:
    """Starts the streaming query of one run; `scratch` is Spark's checkpoint directory, thrown away with the run."""
    return start_clock(session, task_function(handle), handle.run_id, scratch)


def start_clock(session: SparkSession, function: ArrowFunction, name: str, scratch: str) -> StreamingQuery:
    """Starts a query that calls `function` once per epoch, in a task's process."""
    clock = session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    return (
        _map_in_arrow(clock, function, "epoch long")
        .writeStream.format("noop")
        .queryName(name)
        .option("checkpointLocation", scratch)
        .start()
    )


def _map_in_arrow(frame: DataFrame, function: ArrowFunction, schema: str) -> DataFrame:
    """`DataFrame.mapInArrow` without its demand for pandas, which it checks for but never uses (40 MB in the driver)."""
    from pyspark.sql import DataFrame  # noqa: PLC0415 — the tasks' processes need none of it
    from pyspark.sql.udf import UserDefinedFunction  # noqa: PLC0415
    from pyspark.util import PythonEvalType  # noqa: PLC0415

    udf = UserDefinedFunction(function, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = udf(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)


def task_function(handle: RunHandle, seconds: float = EPOCH_SECONDS) -> ArrowFunction:
    """What Spark pickles: it holds the capability of one run and nothing else."""

    def epoch(rows: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from mirror_connect.spark_jobs.query import run_epoch  # noqa: PLC0415 — by reference, not pickled by value

        for _ in rows:
            run_epoch(handle, seconds)
        yield from ()

    return epoch


def run_epoch(handle: RunHandle, seconds: float) -> None:
    """One epoch, to its end. Never raises: an error of the task is reported to the worker, which decides what follows."""
    import uvloop  # noqa: PLC0415 — in the task's process alone

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_epoch(handle, seconds))


async def _epoch(handle: RunHandle, seconds: float) -> None:
    from mirror_connect.spark_jobs.tasks.registry import TASKS  # noqa: PLC0415 — the driver needs no Kafka client

    loop = asyncio.get_running_loop()
    client = WorkerClient(handle, loop)
    try:
        spec = await client.spec()
    except RunOverError:
        client.close()
        await asyncio.sleep(IDLE_EPOCH_SECONDS)
        return
    client.start()
    timer = loop.call_later(seconds, client.end_epoch)
    state, trace = EPOCH_ENDED, None
    try:
        await TASKS[spec.connector_class](spec, client)
    except RunOverError:
        return
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 — the worker shows it as the task's trace
        # Whether that other one is in charge only the worker can tell.
        state, trace = FENCED if isinstance(error, FencedError) else FAILED, trace_of(error)
    finally:
        timer.cancel()
        if state == EPOCH_ENDED and client.orders.finish:
            state = FINISHED
        await asyncio.to_thread(client.report_now, state, trace)
        client.close()


def trace_of(error: BaseException) -> str:
    """As Connect's traces begin: `ExceptionType: message` is the first line, which is all that many consoles show.

    Nothing else where that line is written for people: our own stack would only hide it.
    """
    if isinstance(error, _TOLD):
        return f"{type(error).__name__}: {error}\n"
    frames = "".join(traceback.format_exception(error))
    return f"{type(error).__name__}: {error}\n{frames}"
