"""The query of a Connect task: a clock of one row whose micro-batches each run the task for one epoch.

An epoch takes its connections, producer id and source offsets again, and ends with a commit. So any process may run the next
one. Reports and orders travel over the internal HTTP; Spark gets no rows back.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.record_errors import TransformationError
from mirror_connect.connectors.task_protocol import ABANDONED, DRIVER, EPOCH_ENDED, FAILED, FENCED, FINISHED
from mirror_connect.kafka_io.producer.produce_outcome import FencedError, PartitionRefusedError
from mirror_connect.spark_jobs.executor_place import executor_place
from mirror_connect.spark_jobs.internal_http import RunHandle, RunOverError
from mirror_connect.spark_jobs.log_levels import log_of_a_task
from mirror_connect.spark_jobs.short_slices import ask_for_short_slices
from mirror_connect.spark_jobs.task_context import EPOCH_SECONDS, SparkLostError
from mirror_connect.spark_jobs.unreached_worker import NeverReachedError
from mirror_connect.spark_jobs.worker_client import WorkerClient

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from mirror_connect.spark_jobs.compute.round_trip import RoundTrip

    ArrowFunction = Callable[[Iterator[pyarrow.RecordBatch]], Iterator[pyarrow.RecordBatch]]

log = logging.getLogger(__name__)
# The pause of an epoch without work: its run is over, and the query not stopped yet.
IDLE_EPOCH_SECONDS: Final = 0.2
# What a task in the shared process has to return when it is ordered to abandon. The worker's patience is longer.
ABANDON_SECONDS: Final = 1.0
# Of partitions, in a line about records that Spark had when it ended.
MOST_SHOWN: Final = 3
# Errors whose text names the problem and what to do.
_FOR_PEOPLE: Final = (
    *(ConfigError, ClusterUnreachable, NotAuthorized, FencedError, PartitionRefusedError),
    TransformationError,
)


def start_query(session: SparkSession, handle: RunHandle, scratch: str, *, shared: bool = False) -> StreamingQuery:
    """Starts the streaming query of one run, or with `shared` of the process that light tasks share.

    `scratch` is Spark's checkpoint directory, deleted with the run.
    """
    function = shared_function(handle) if shared else task_function(handle)
    return start_clock(session, function, handle.run_id, scratch)


def start_clock(
    session: SparkSession, function: ArrowFunction, name: str, scratch: str, *, once: bool = False
) -> StreamingQuery:
    """Starts a query that calls `function` once per epoch, in a Python worker process. `once`: it ends after one epoch."""
    return start_writing(map_in_arrow(clock_of(session), function), name, scratch, once=once)


def clock_of(session: SparkSession) -> DataFrame:
    """A frame of one row for each epoch."""
    return session.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()


def start_writing(frame: DataFrame, name: str, scratch: str, *, once: bool = False) -> StreamingQuery:
    """Starts the query whose last step is this one, as its rows go nowhere. `scratch`, `once`: see above."""
    writer = frame.writeStream.format("noop").queryName(name)
    if once:
        writer = writer.trigger(availableNow=True)
    # Of the driver's host: a path alone would be one of Hadoop's default file system, as HDFS where Spark runs on YARN.
    return writer.option("checkpointLocation", f"file:{scratch}").start()


def warm_up(session: SparkSession, scratch: str) -> None:
    """Runs an epoch that does nothing; returns when it has ended.

    The first query of a session takes seconds: Spark's planner is cold, and no Python process is there. Both serve the next.
    """
    start_clock(session, do_nothing, "warm-up", scratch, once=True).awaitTermination()


def do_nothing(rows: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """An epoch that does nothing."""
    for _ in rows:
        pass
    yield from ()


def map_in_arrow(frame: DataFrame, function: ArrowFunction, schema: StructType | None = None) -> DataFrame:
    """`DataFrame.mapInArrow` without pandas, which that method imports but never uses (40 MB in the driver).

    `schema`: of the function's rows; None if it has none. It is not a text, for which Spark would start its parser.
    """
    from pyspark.sql import DataFrame  # noqa: PLC0415 — task processes do not need it
    from pyspark.sql.types import LongType, StructField, StructType  # noqa: PLC0415
    from pyspark.sql.udf import UserDefinedFunction  # noqa: PLC0415
    from pyspark.util import PythonEvalType  # noqa: PLC0415

    made = schema or StructType([StructField("epoch", LongType())])
    udf = UserDefinedFunction(function, made, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = udf(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)


def task_function(handle: RunHandle, seconds: float = EPOCH_SECONDS) -> ArrowFunction:
    """The function that Spark pickles. It contains the capability of one run and nothing else."""

    def epoch(rows: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from mirror_connect.spark_jobs.query import run_epoch  # noqa: PLC0415 — so that it is pickled by reference

        for _ in rows:
            run_epoch(handle, seconds)
        yield from ()

    return epoch


def shared_function(handle: RunHandle) -> ArrowFunction:
    """As `task_function`, for the shared process. It contains its capability, which gives those of its runs."""

    def epoch(rows: Iterator[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        from mirror_connect.spark_jobs.query import run_shared_epoch  # noqa: PLC0415 — so that it is pickled by reference

        for _ in rows:
            run_shared_epoch(handle)
        yield from ()

    return epoch


def run_epoch(handle: RunHandle, seconds: float) -> None:
    """Runs one epoch. It reports an error of the task to the worker, which decides what follows. NeverReachedError."""
    run_in_loop(epoch_of(handle, seconds))


def run_shared_epoch(handle: RunHandle) -> None:
    """Runs the epochs of all light tasks, until the worker has none any more. NeverReachedError."""
    from mirror_connect.spark_jobs.shared_process import SharedProcess  # noqa: PLC0415 — the driver needs it not

    run_in_loop(SharedProcess(handle, epoch_of).run())


def run_in_loop(work: Coroutine[Any, Any, None]) -> None:
    """Runs the work of a task's process."""
    import uvloop  # noqa: PLC0415 — only task processes need it

    log_of_a_task()
    ask_for_short_slices()
    with outliving_the_daemon(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


@contextlib.contextmanager
def outliving_the_daemon() -> Iterator[None]:
    """Lets a task commit and say its last words when its executor is killed, which it does within 3 s (worker_client.py).

    PySpark's daemon sends SIGHUP to its children when the JVM is gone. Without last words, the worker would wait for the end
    of the lease, because it sees no process of an executor. With a local master it kills them.
    """
    if executor_place().executor == DRIVER or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        yield
    finally:
        # As PySpark's daemon has it. A process that waits for its next task has nothing to say.
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


async def epoch_of(
    handle: RunHandle,
    seconds: float,
    beginning: AbstractAsyncContextManager[None] | None = None,
    computing: RoundTrip | None = None,
) -> None:
    """One epoch of a run's task. `beginning`: held while the task is made, which may take the loop for half a second.

    Given in a process with other tasks, of which only one begins at a time, so that the loop has a turn in between.
    `computing`: what takes the task's records to Spark, which transforms them.
    """
    from mirror_connect.spark_jobs.tasks.mirror_source import run_source_task  # noqa: PLC0415 — see the next line
    from mirror_connect.spark_jobs.tasks.registry import TASKS  # noqa: PLC0415 — the driver needs no Kafka client

    loop = asyncio.get_running_loop()
    shared = beginning is not None
    client = WorkerClient(handle, loop, shared=shared, held=tuple if computing is None else computing.held)
    try:
        spec = await client.spec()
    except RunOverError:
        client.close()
        await asyncio.sleep(IDLE_EPOCH_SECONDS)
        return
    except NeverReachedError:
        client.close()
        raise
    client.start()
    log.debug("An epoch of task %s-%d begins, attempt %s", spec.connector, spec.task, client.attempt)
    timer = loop.call_later(seconds, client.end_epoch)
    state, trace = EPOCH_ENDED, None
    abandoning: asyncio.Task[None] | None = None
    try:
        async with beginning or contextlib.nullcontext():
            run = TASKS[spec.connector_class]
            task = asyncio.ensure_future(
                run(spec, client) if computing is None else run_source_task(spec, client, computing)
            )
            await asyncio.sleep(0)
        if shared:
            # A process of its own would be killed.
            abandoning = asyncio.create_task(_end_if_abandoned(task, client))
        await task
    except RunOverError:
        return
    except SparkLostError as error:
        # The task has committed. Spark tries it again, as after the death of this process.
        client.lost = () if computing is None else computing.lost()
        had = f". It had {'; '.join(map(str, client.lost[:MOST_SHOWN]))}" if client.lost else ""
        client.log(f"Its epoch ends: {error}{had}")
    except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 — the worker shows it as the task's trace
        # Only the worker knows whether the other task is the rightful one.
        state, trace = FENCED if isinstance(error, FencedError) else FAILED, trace_of(error)
    finally:
        timer.cancel()
        if abandoning is not None:
            abandoning.cancel()
        if state == EPOCH_ENDED and client.orders.finish:
            state = FINISHED
        if client.orders.abandon:
            state, trace = ABANDONED, None
        if computing is not None and state != EPOCH_ENDED:
            computing.end_run()
        await asyncio.to_thread(client.report_now, state, trace)
        log.debug("An epoch of task %s-%d has ended: %s", spec.connector, spec.task, state)
        client.close()


async def _end_if_abandoned(task: asyncio.Future[None], client: WorkerClient) -> None:
    await client.abandoned.wait()
    await asyncio.sleep(ABANDON_SECONDS)
    task.cancel()


def trace_of(error: BaseException) -> str:
    """The trace for the status. As in Connect its first line, which many consoles show alone, is `ExceptionType: message`.

    Errors whose message is written for users get no stack: it would only hide the message.
    """
    if isinstance(error, _FOR_PEOPLE):
        return f"{type(error).__name__}: {error}\n"
    frames = "".join(traceback.format_exception(error))
    return f"{type(error).__name__}: {error}\n{frames}"
