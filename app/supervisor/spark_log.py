"""The Spark application's log on its way into the worker's: events at their own levels, stack traces for debugging.

A line keeps neither its time nor its level in its text: the worker's own log format has both.
"""

from __future__ import annotations

import logging
import re
from typing import Final

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
    # Why the driver ends itself; whoever sees it end (spark_keeper.py) says that.
    "CRITICAL": logging.DEBUG,
}
_FRAME: Final = re.compile(r"\s|Caused by: |\^|Traceback |$")
# What every start says and nobody can or needs to change.
_IDLE: Final = re.compile(
    r"Using incubator modules|NativeCodeLoader: |A (terminally deprecated|restricted) method|sun\.misc\.Unsafe::"
    r"|Please consider reporting this|Use --(enable|illegal)-native-access|Restricted methods will be blocked"
    r"|A (restricted )?method in (java|sun)\.|java\.lang\.System::load"
)
_OUR_DRIVER: Final = "mirror_connect.spark_jobs "


class SparkLog:
    """Takes the lines one by one.

    `last_words`: the newest line that is no stack frame, as the reason of a sudden end; what the driver itself calls
    critical is its reason for ending and stays.
    """

    def __init__(self) -> None:
        self.last_words = ""
        self._reason_given = False

    def take(self, line: str) -> None:
        """Logs a line: the first of an event at its own level, the lines below it at DEBUG."""
        head = _HEAD.match(line)
        text = line[head.end() :].removeprefix(_OUR_DRIVER) if head else line
        level = _LEVELS[head[1]] if head and not _IDLE.search(line) else logging.DEBUG
        log.log(level, "%s", text)
        if not self._reason_given and not _FRAME.match(line):
            self.last_words = text
            self._reason_given = head is not None and head[1] == "CRITICAL"
