"""The Spark of a query: a local session of the command's own, which shares nothing with any worker's.

Its JVM is a child process that ends with this one. What it logs goes to a file.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from mirror_connect.query.errors import QueryError
from mirror_connect.spark_jobs.jvm import JvmEndedError, StartedJvm, gateway_of, start_jvm
from mirror_connect.spark_jobs.spark_settings import PYTHON, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOST_TASKS: Final = 4
NICE: Final = 10
_ENDS_S: Final = 5.0
# The worker's JVM saves memory and never computes. This one computes, for a while.
# Without memory it ends at once. Otherwise Spark would tell that its jobs were cancelled, and not why.
_JVM_OPTIONS: Final = (
    "-XX:TieredStopAtLevel=4 -XX:ReservedCodeCacheSize=240m -Xms384m -Xmn256m -Xss4m -XX:+ExitOnOutOfMemoryError"
)
_SHOWN_LINES: Final = 3
_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


def query_settings(tasks: int, memory: str, scratch: str) -> dict[str, str]:
    """Spark's settings: those of a worker's local application, but for a query."""
    return {
        **settings({"spark.driver.extraJavaOptions": _JVM_OPTIONS}),
        "spark.master": f"local[{tasks}]",
        "spark.app.name": "mirror-connect sql",
        "spark.driver.memory": memory,
        # One line tells what is wrong; Spark would log it too.
        "spark.log.level": "OFF",
        "spark.python.daemon.module": "pyspark.daemon",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "FALLBACK",
        "spark.sql.shuffle.partitions": str(tasks),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        # A table is a topic, and never a file.
        "spark.sql.runSQLOnFiles": "false",
        # `${env:PASSWORD}` in a statement would be replaced before it is parsed.
        "spark.sql.variable.substitute": "false",
        "spark.sql.pyspark.jvmStacktrace.enabled": "false",
        # A task that fails is not tried again: the reader of records has tried for long enough.
        "spark.task.maxFailures": "1",
    }


class QuerySpark:
    """Spark for one query. `begin` starts its JVM; `session` waits for it; `end` ends all of its processes."""

    def __init__(self, memory: str, tasks: int | None = None) -> None:
        self.directory = tempfile.mkdtemp(prefix="mirror-connect-sql-")
        self._memory = memory
        self._tasks = tasks or min(MOST_TASKS, os.cpu_count() or 1)
        self._former = tempfile.tempdir, os.environ.get("TMPDIR")
        self._jvm: StartedJvm | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._chosen: Mapping[str, str] = {}

    def begin(self) -> None:
        """Starts the JVM, which comes up while the caller does something else. QueryError."""
        os.environ["TMPDIR"] = tempfile.tempdir = self.directory
        # Only spark-submit knows what other variables of Spark's mean, and it prints what it logs to the terminal.
        for name in [each for each in os.environ if each.startswith(("SPARK_", "PYSPARK_SUBMIT_"))]:
            del os.environ[name]
        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        # No module comes from the directory in which the command was started.
        os.environ["PYTHONSAFEPATH"] = "1"
        self._chosen = query_settings(self._tasks, self._memory, self.directory)
        self._log = open(Path(self.directory, "log"), "ab")  # noqa: SIM115 — it is closed in `end`
        try:
            # A thread's priority is its own, and what it starts inherits it.
            with ThreadPoolExecutor(1) as thread:
                self._jvm = thread.submit(self._start_nicely, self._log).result()
            self._process = self._jvm.process if self._jvm is not None else None
        except OSError as error:
            raise QueryError(f"Spark can't start: there is no Java ({error.strerror}); set JAVA_HOME") from None

    def _start_nicely(self, output: IO[bytes]) -> StartedJvm | None:
        # A worker on this machine goes first.
        os.nice(NICE)
        return start_jvm(self._chosen, os.environ, output)

    def session(self) -> SparkSession:
        """The session. QueryError."""
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 — the JVM starts before PySpark is imported
        from pyspark.logger import PySparkLogger  # noqa: PLC0415
        from pyspark.sql import SparkSession  # noqa: PLC0415

        for name in _LOGGERS:
            # They print each error of a statement with its trace, beside the one line.
            PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
        os.environ["PYSPARK_PYTHON"] = self._chosen[PYTHON]
        try:
            gateway = gateway_of(self._jvm) if self._jvm is not None else None
        except JvmEndedError as error:
            raise QueryError(f"Spark's JVM does not start, {error}: {self._last_lines()}") from None
        # Not before: it asks the JVM of an earlier session of this process, which may have ended.
        conf = SparkConf(loadDefaults=False).setAll(list(self._chosen.items()))
        SparkContext._ensure_initialized(gateway=gateway, conf=conf)
        self._process = SparkContext._gateway.proc
        SparkContext.getOrCreate(SparkConf().setAll(list(self._chosen.items())))
        session: SparkSession = SparkSession.builder.config(conf=conf).getOrCreate()
        # It would print a trace when the JVM ends before it.
        session.sparkContext._accumulatorServer.handle_error = lambda *_: None
        session.sparkContext.setLogLevel(self._chosen["spark.log.level"])
        return session

    def kill(self) -> None:
        """Kills the JVM, so that nothing waits for it any more. The processes below it end with it."""
        if self._process is not None:
            self._process.kill()

    def end(self) -> None:
        """Ends the JVM and all below it, and removes their files."""
        if self._process is not None:
            with contextlib.suppress(OSError):
                assert self._process.stdin is not None
                self._process.stdin.close()
            try:
                self._process.wait(_ENDS_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._log is not None:
            self._log.close()
        tempfile.tempdir, former = self._former
        if former is None:
            os.environ.pop("TMPDIR", None)
        else:
            os.environ["TMPDIR"] = former
        shutil.rmtree(self.directory, ignore_errors=True)

    def _last_lines(self) -> str:
        lines = Path(self.directory, "log").read_text("utf-8", "replace").split("\n")
        return "; ".join([each.strip() for each in lines if each.strip()][-_SHOWN_LINES:])
