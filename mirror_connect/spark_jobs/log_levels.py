"""The log of the driver and of task processes: lines for the worker, and the levels that /admin/loggers has set.

A line begins with level and logger. The worker logs it under the same name (app/supervisor/spark_log.py). Levels are of a
process, whatever tasks run in it. They come with the plan and with the answers to reports, and are never taken back.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.log_format import asked_level

if TYPE_CHECKING:
    # The driver imports this module before it starts the JVM, and that one takes a tenth of a second.
    from mirror_connect.connectors.task_protocol import LogLevels

ROOT: Final = "root"
OURS: Final = "mirror_connect"
# The JVM's own loggers, by log4j's name of all of Spark.
JVM: Final = "org.apache.spark"
FORMAT: Final = "%(levelname)s %(name)s %(message)s"

SetJvmLevel = Callable[[str, int], None]


class OwnLineFormatter(logging.Formatter):
    """Begins a critical line at the start of a line, as the worker shows it as the reason why the driver has ended.

    Another thread may have written a line without its end. PySpark's threads write such lines when the JVM is gone.
    """

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        line = super().format(record)
        return f"\n{line}" if record.levelno >= logging.CRITICAL else line


class _Process:
    """What this process has been told."""

    version = 0


def log_to_standard_error(ours: int) -> None:
    """Logs warnings of libraries, and from `ours` on what this product logs. It has no effect after the first call."""
    if not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(OwnLineFormatter(FORMAT))
        logging.basicConfig(level=logging.WARNING, handlers=[handler])
        logging.getLogger(OURS).setLevel(ours)


def log_of_a_task() -> None:
    """The same in a task process. It logs little by itself: a task's lines travel in its reports."""
    try:
        asked = asked_level(os.environ, "ERROR")
    except ConfigError:  # the worker would not have started with it
        asked = "ERROR"
    log_to_standard_error(logging.DEBUG if asked == "DEBUG" else logging.ERROR)


def known_version() -> int:
    """The newest version that this process has applied; 0 for none."""
    return _Process.version


def apply(told: LogLevels, set_jvm_level: SetJvmLevel | None = None) -> None:
    """Applies what is new. `set_jvm_level`: sets the level of a logger of the JVM, in the driver."""
    if told.version == _Process.version:
        return
    _Process.version = told.version
    for name, level in _levels(told.levels).items():
        if name == JVM:
            if set_jvm_level is not None:
                set_jvm_level(name, level)
        else:
            logging.getLogger(name).setLevel(level)


def _levels(told: Mapping[str, int]) -> Mapping[str, int]:
    """Those of the root are ours alone: libraries such as py4j would log each of their calls."""
    levels = {name: level for name, level in told.items() if name != ROOT}
    return {OURS: told[ROOT], **levels} if ROOT in told else levels
