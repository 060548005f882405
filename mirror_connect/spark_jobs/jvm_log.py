"""The loggers of Spark's JVM."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OFF: Final = "OFF"
# Python's numbers, from the one that logs most, as log4j's levels.
_LEVELS: Final = (
    (1, "ALL"),
    (5, "TRACE"),
    (logging.DEBUG, "DEBUG"),
    (logging.INFO, "INFO"),
    (logging.WARNING, "WARN"),
    (logging.ERROR, "ERROR"),
    (logging.CRITICAL, "FATAL"),
)
# Spark logs an error line when a query is stopped whose task has returned, and it is no error.
_NOISY: Final = "org.apache.spark.sql.execution.datasources.v2.WriteToDataSourceV2Exec"


def set_jvm_level(session: SparkSession, logger: str, level: int) -> None:
    """Sets the level of a logger and of all below it, but for a noisy one. `level`: a number of Python's."""
    name = next((each for highest, each in _LEVELS if level <= highest), OFF)
    log4j = session.sparkContext._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setAllLevels(logger, log4j.Level.toLevel(name))
    quieten(session)


def quieten(session: SparkSession) -> None:
    """Hides the noisy logger's line."""
    log4j = session.sparkContext._jvm.org.apache.logging.log4j
    log4j.core.config.Configurator.setLevel(_NOISY, log4j.Level.OFF)
