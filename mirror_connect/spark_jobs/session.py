"""The Spark session of a worker's one Spark application, and the settings that are ours rather than the user's."""

from __future__ import annotations

import logging
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

# The classes that the JVM loads at each start (class_archive.py).
ARCHIVE: Final = Path(sys.prefix) / "share" / "mirror-connect" / "spark.jsa"
# An archive that doesn't fit, and classes that it can't hold, are no trouble of the user's.
QUIET: Final = "-Xlog:cds*=off"
# A user's own spark.* properties win over these; what may not be overridden is in FIXED.
DEFAULTS = {
    "spark.master": "local[64,4]",
    "spark.driver.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.sql.streaming.numRecentProgressUpdates": "2",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "200",
    "spark.sql.shuffle.partitions": "1",
    "spark.cleaner.periodicGC.interval": "60min",
}
# Serial collection and a small code cache: the JVM only places and watches tasks, so memory matters and pauses don't.
# No perf data file: it would lie outside of our scratch directory and outlive a kill.
JVM_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xss512k -XX:ReservedCodeCacheSize=64m -XX:-UsePerfData"
FIXED = {
    "spark.app.name": "mirror-connect",
    "spark.pyspark.python": sys.executable,
    "spark.pyspark.driver.python": sys.executable,
    # Imports what a task needs before it forks, so that its pages are shared by all tasks.
    "spark.python.daemon.module": "mirror_connect.spark_jobs.daemon",
    "spark.python.worker.reuse": "true",
    # Who doesn't know the secret gets nothing of Spark's ports, on this machine neither. The JVM makes the secret up and
    # keeps it in its memory (SecurityManager.initializeAuth, for local masters).
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
}
# PySpark's `/.UUID.sock`, and what the smallest of systems takes with the zero at its end.
_SOCKET_NAME = len("/.00000000-0000-0000-0000-000000000000.sock")
_SOCKET_PATH = 103
# Spark's own spark.redaction.regex.
_SECRET = re.compile("(?i)secret|password|token|access[.]?key")


def settings(user: Mapping[str, str]) -> dict[str, str]:
    """Spark's configuration from the worker's `spark.*` properties; extra JVM options are added to ours."""
    # TMPDIR is our scratch directory, which nobody else may enter; Java doesn't look at it by itself.
    scratch = tempfile.gettempdir()
    merged = {**DEFAULTS, **user, **FIXED, **_python_sockets(scratch)}
    # What a JVM leaves that crashes is there too and goes with it: it may hold secrets.
    ours = f"-Djava.io.tmpdir={scratch} -XX:ErrorFile={scratch}/hs_err_pid%p.log -XX:-CreateCoredumpOnCrash"
    options = (JVM_OPTIONS, archive_option(), ours, user.get("spark.driver.extraJavaOptions", ""))
    merged["spark.driver.extraJavaOptions"] = " ".join(filter(None, options))
    return merged


def _python_sockets(scratch: str) -> dict[str, str]:
    """How the JVM and Python's processes meet.

    On a port of loopback PySpark's daemon forks for whoever connects, and asks who it is afterwards. So sockets in a
    directory that only this user may enter, unless its path is too long for one.
    """
    enabled = len(os.fsencode(scratch)) + _SOCKET_NAME <= _SOCKET_PATH
    if not enabled:
        log.warning(
            "TMPDIR is too long for Unix sockets (%s): PySpark's processes meet on ports of loopback, where other users of "
            "this machine can make it fork; a shorter TMPDIR mends that",
            scratch,
        )
    return {
        "spark.python.unix.domain.socket.enabled": str(enabled).lower(),
        "spark.python.unix.domain.socket.dir": scratch,
    }


def archive_option(archive: Path = ARCHIVE) -> str:
    """The options of a JVM that uses the archive; empty without one."""
    return f'-XX:SharedArchiveFile="{archive}" {QUIET}' if archive.is_file() else ""


def open_session(user: Mapping[str, str]) -> SparkSession:
    """Starts the JVM and the session (some seconds)."""
    chosen = settings(user)
    # PySpark starts the JVM with its settings as arguments, which everybody on the machine can read: so the JVM first,
    # without those that are secret, and then the session with all of them.
    SparkContext._ensure_initialized(conf=_conf({n: v for n, v in chosen.items() if not _SECRET.search(n)}))
    session: SparkSession = SparkSession.builder.config(conf=_conf(chosen)).getOrCreate()
    session.sparkContext.setLogLevel(chosen["spark.log.level"])
    _quieten(session)
    return session


def _conf(chosen: Mapping[str, str]) -> SparkConf:
    return SparkConf(loadDefaults=False).setAll(list(chosen.items()))


def _quieten(session: SparkSession) -> None:
    """Stopping a query whose task has returned is logged by Spark as an error of its (empty) sink; it is none."""
    log4j = session.sparkContext._jvm.org.apache.logging.log4j
    noisy = "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec"
    log4j.core.config.Configurator.setLevel(noisy, log4j.Level.OFF)
