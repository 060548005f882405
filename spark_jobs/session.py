"""The Spark session of a worker's one Spark application, and the settings that are ours rather than the user's."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Mapping

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

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
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
}
# Spark's own spark.redaction.regex.
_SECRET = re.compile("(?i)secret|password|token|access[.]?key")


def settings(user: Mapping[str, str]) -> dict[str, str]:
    """Spark's configuration from the worker's `spark.*` properties; extra JVM options are added to ours."""
    merged = {**DEFAULTS, **user, **FIXED}
    # TMPDIR is our scratch directory; Java doesn't look at it by itself.
    options = (JVM_OPTIONS, f"-Djava.io.tmpdir={tempfile.gettempdir()}", user.get("spark.driver.extraJavaOptions", ""))
    merged["spark.driver.extraJavaOptions"] = " ".join(filter(None, options))
    return merged


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
