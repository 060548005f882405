"""Opens the Spark session of a worker's Spark application."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mirror_connect.spark_jobs.jvm import StartedJvm, gateway_of, start_jvm
from mirror_connect.spark_jobs.jvm_log import quieten
from mirror_connect.spark_jobs.spark_settings import PYTHON, settings, without_secrets
from mirror_connect.spark_jobs.warm_executors import start_python

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession


log = logging.getLogger("mirror_connect.spark_jobs")


class Opening:
    """A session that is being opened: its JVM starts at once. `user`: the worker's `spark.*` properties.

    `statements`: whether it applies statements of connectors.
    PySpark is imported after that, while the JVM comes up. OSError: there is no such Java.
    """

    def __init__(self, user: Mapping[str, str], *, statements: bool = False) -> None:
        self._chosen = settings(user, statements=statements)
        # The JVM gets its settings as arguments. It starts without the secret ones, and then the session gets all of them.
        self._jvm: StartedJvm | None = start_jvm(without_secrets(self._chosen), os.environ)

    def session(self) -> SparkSession:
        """The session, which takes some seconds."""
        from pyspark import SparkConf, SparkContext  # noqa: PLC0415 — see above
        from pyspark.sql import SparkSession  # noqa: PLC0415

        # The Python of tasks. PySpark's own setting of that name is one of spark-submit, which does not start this process.
        os.environ["PYSPARK_PYTHON"] = self._chosen[PYTHON]
        gateway = gateway_of(self._jvm) if self._jvm is not None else None
        log.debug("Start: the JVM listens")
        SparkContext._ensure_initialized(gateway=gateway, conf=_conf(without_secrets(self._chosen)))
        # With the JVM's own defaults: spark-submit may have read them from files.
        context = SparkContext.getOrCreate(SparkConf().setAll(list(self._chosen.items())))
        log.debug("Start: Spark's context is there")
        threading.Thread(target=start_python, args=(context,), name="first-job", daemon=True).start()
        session: SparkSession = SparkSession.builder.config(conf=_conf(self._chosen)).getOrCreate()
        session.sparkContext.setLogLevel(self._chosen["spark.log.level"])
        quieten(session)
        return session


def open_session(user: Mapping[str, str]) -> SparkSession:
    """Starts the JVM and the session, which takes some seconds."""
    return Opening(user).session()


def _conf(chosen: Mapping[str, str]) -> SparkConf:
    from pyspark import SparkConf  # noqa: PLC0415

    return SparkConf(loadDefaults=False).setAll(list(chosen.items()))
