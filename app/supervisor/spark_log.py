"""The Spark application's log on its way into the worker's: what happened as warnings, Java's stack traces for debugging."""

from __future__ import annotations

import logging
import re
from typing import Final

log = logging.getLogger("mirror_connect.spark")

# log4j writes a time in front of the level, our driver's Python does not.
_HEAD: Final = re.compile(
    r"(?:\d\d/\d\d/\d\d \d\d:\d\d:\d\d )?(TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL|CRITICAL)[: ]"
)
_LEVELS: Final = {"TRACE": logging.DEBUG, "DEBUG": logging.DEBUG, "INFO": logging.INFO}
_FRAME: Final = re.compile(r"\s|Caused by: |\^|Traceback |$")


class SparkLog:
    """Takes the lines one by one. `last_words`: the newest line that is no stack frame, as the reason of a sudden end."""

    def __init__(self) -> None:
        self.last_words = ""

    def take(self, line: str) -> None:
        """Logs a line: the first of an event at its own level, WARNING at most, the lines below it at DEBUG."""
        head = _HEAD.match(line)
        log.log(_LEVELS.get(head[1], logging.WARNING) if head else logging.DEBUG, "%s", line)
        if not _FRAME.match(line):
            self.last_words = line
