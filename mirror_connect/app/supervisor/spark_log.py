"""The Spark application's log on its way into the worker's: events at their own levels, stack traces for debugging.

A line keeps neither its time nor its level in its text: the worker's own log format has both.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Final

from mirror_connect.connectors.ended_process import read_ended_line, signal_named
from mirror_connect.connectors.secrets import is_secret

log = logging.getLogger("mirror_connect.spark")

# log4j writes a time in front of the level, our driver's Python and the JVM itself do not.
_HEAD: Final = re.compile(
    r"(?:\d\d/\d\d/\d\d \d\d:\d\d:\d\d )?(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)[: ]\s*"
)
_LEVELS: Final = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.ERROR,
    # Why the driver ends itself; spark_keeper.py logs it at the end.
    "CRITICAL": logging.DEBUG,
}
_FRAME: Final = re.compile(r"\s|Caused by: |\^|Traceback |$")
# Lines of every start that nobody can change.
_IDLE: Final = re.compile(
    r"Using incubator modules|NativeCodeLoader: |A (terminally deprecated|restricted) method|sun\.misc\.Unsafe::"
    r"|Please consider reporting this|Use --(enable|illegal)-native-access|Restricted methods will be blocked"
    r"|A (restricted )?method in (java|sun)\.|java\.lang\.System::load"
)
# Spark logs this for every task that is ended early, also on request: the sink of our queries writes nothing, so nothing is
# aborted. If a task fails, a later line of Executor says so, with the reason.
_ENDED_TASK: Final = re.compile(
    r"ERROR (Utils: Aborting task|DataWritingSparkTask: Abort(ing|ed) commit for partition )"
)
_EXCEPTION: Final = re.compile(r"[\w.$]+(Exception|Error)\b")
_OUR_DRIVER: Final = "mirror_connect.spark_jobs "
# Its lines show under the name of Spark, unless that logs less.
_driver_log: Final = logging.getLogger(_OUR_DRIVER.strip())
_NAMED: Final = re.compile(r"(mirror_connect\.(?:connectors|kafka_io|spark_jobs)(?:\.\w{1,40}){0,4}) (.*)")
_MOST_NAMES: Final = 200
# Lines about a JVM that does not start, without the reason: from the JVM after its reason, and from its waiting parent.
_NO_REASON: Final = re.compile(
    r"Error: (Could not create the Java Virtual Machine|A fatal exception has occurred)|Usage: spark-submit|Options:$"
    r"|Using Spark's default log4j|Setting (default|Spark) log level|To adjust logging level|\[\d+\.\d+s\]\["
    r"|#(?! There is insufficient| Native memory| A fatal error|  SIG|  Internal Error)"
)
_NOT_STARTED: Final = "[JAVA_GATEWAY_EXITED]"
# Stands above an exception of the JVM, which begins with a colon.
_IN_THE_JVM: Final = "py4j.protocol.Py4JJavaError: An error occurred while calling "
_ERROR: Final = re.compile(r"Error\b|Exception\b|insufficient memory|fatal error")
_ERRORS: Final = ("ERROR", "FATAL", "CRITICAL")
_LONGEST: Final = 600
_MOST_SIGNALS: Final = 100
_HEAP: Final = re.compile(r"-Xmx|heap|System memory|insufficient memory")
_MEMORY: Final = "spark.driver.memory"
# That setting, by its name in the worker's file, for the Spark that applies statements.
_OF_STATEMENTS: Final = "spark.transform.driver.memory"
_TELLING: Final = 4  # characters of a value that is found in a text by no accident


class SparkLog:
    """Takes the lines one by one.

    `last_words`: the newest line that is no stack frame and says something, as the reason of a sudden end. A critical line
    of the driver is its own reason for ending, and stays.
    `signals`: of the newest task processes that a signal ended, by their ids.
    """

    def __init__(self) -> None:
        self.last_words = ""
        self._reason_given = False
        self._goes_on = False
        # The line before is ignored, so the exception in the next line is, too.
        self._exception_aside = False
        self.signals: dict[int, int] = {}
        self._named: set[str] = set()

    def take(self, line: str) -> None:
        """Logs a line: the first of an event at its own level, the lines below it at DEBUG."""
        if not line:
            return  # it only ends a line that another thread had begun
        if (ended := read_ended_line(line)) is not None:
            self._take_signal(*ended)
            return
        head = _HEAD.match(line)
        if head is not None and self._take_named(_LEVELS[head[1]], line[head.end() :]):
            return
        text = line[head.end() :].removeprefix(_OUR_DRIVER) if head else line
        ended_task = _ENDED_TASK.search(line) is not None
        level = _LEVELS[head[1]] if head and not ended_task and not _IDLE.search(line) else logging.DEBUG
        own = head is not None and line.startswith(_OUR_DRIVER, head.end()) and not log.isEnabledFor(level)
        (_driver_log if own else log).log(level, "%s", text)
        aside = ended_task or (self._exception_aside and _EXCEPTION.match(line) is not None)
        self._exception_aside = ended_task
        if self._reason_given:
            return
        if head is not None:
            self._goes_on = False
        if aside or _FRAME.match(line) or _NO_REASON.match(line) or (head is not None and head[1] not in _ERRORS):
            self._goes_on = False
        elif _NOT_STARTED not in line or not self.last_words:
            self._add(text)
        self._reason_given = head is not None and head[1] == "CRITICAL"

    def _take_named(self, level: int, text: str) -> bool:
        """Logs a line of one of our loggers in a task's process under its own name. Not the driver's: see _OUR_DRIVER."""
        named = _NAMED.match(text)
        if named is None or text.startswith(_OUR_DRIVER):
            return False
        # A user's class may write anything to standard error, and each name is a logger for ever.
        if named[1] not in self._named and len(self._named) >= _MOST_NAMES:
            return False
        self._named.add(named[1])
        logging.getLogger(named[1]).log(level, "%s", named[2])
        return True

    def _take_signal(self, pid: int, number: int) -> None:
        # Spark and the worker kill processes as well: whoever misses one says so.
        log.debug("Process %d was ended by %s", pid, signal_named(number))
        self.signals.pop(pid, None)
        self.signals[pid] = number
        if len(self.signals) > _MOST_SIGNALS:
            del self.signals[next(iter(self.signals))]

    def _add(self, text: str) -> None:
        """Adds a line to the last words. An error may have several: `Error occurred during initialization of VM` and why."""
        goes_on = self._goes_on and _ERROR.search(self.last_words) and not self.last_words.startswith(_IN_THE_JVM)
        before = f"{self.last_words} " if goes_on else ""
        self.last_words = (before + text.removeprefix(": ").removeprefix("# ").strip())[:_LONGEST]
        self._goes_on = True


def with_settings(words: str, spark: Mapping[str, str]) -> str:
    """Last words, and in brackets the `spark.*` settings that they are about but don't name."""
    about = [
        name
        for name, value in spark.items()
        if (len(value) >= _TELLING and value in words)
        or (name == _MEMORY and _HEAP.search(words) and _OF_STATEMENTS not in words)
    ]
    unnamed = [f"{name}={spark[name]}" for name in about if name not in words and not is_secret(name)]
    return f"{words} ({', '.join(unnamed)})" if unnamed else words
