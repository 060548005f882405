"""Formats each log record as one line. So the names in requests and records can't forge a log line.

Stack traces keep their lines. Each line is indented, so none looks like the beginning of a record.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Final

from mirror_connect.connectors.errors import ConfigError

LOG_LEVEL: Final = "MIRROR_CONNECT_LOG_LEVEL"
LOG_FORMAT: Final = "MIRROR_CONNECT_LOG_FORMAT"
TEXT: Final = "text"
JSON: Final = "json"
FORMATS: Final = (TEXT, JSON)
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
# Control characters of ASCII and Latin-1, line and paragraph separators, and marks that change the text direction.
_CONTROL: Final = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

# The flow that the running code works for, in a process with several: two flows have connectors of the same names.
_flow: ContextVar[str] = ContextVar("flow", default="")


def asked_level(environment: Mapping[str, str], default: str) -> str:
    """The level that MIRROR_CONNECT_LOG_LEVEL asks for. ConfigError: there is no such level."""
    level = environment.get(LOG_LEVEL, default).upper()
    if level not in LEVELS:
        raise ConfigError(LOG_LEVEL, level, f"it has to be one of {', '.join(LEVELS)}")
    return level


def asked_format(environment: Mapping[str, str], default: str = TEXT) -> str:
    """The format that MIRROR_CONNECT_LOG_FORMAT asks for. ConfigError: there is no such format."""
    asked = environment.get(LOG_FORMAT, default).lower()
    if asked not in FORMATS:
        raise ConfigError(LOG_FORMAT, asked, f"it has to be one of {', '.join(FORMATS)}")
    return asked


# Of a log call's `extra`: the code of the problem that the line is about.
PROBLEM: Final = "problem"


class ConnectorName(str):
    """A connector's name as an argument of a log call: a log in JSON has it as a member, too."""

    __slots__ = ()


def present_flow() -> str:
    """The flow that the running code works for; empty in a process with one worker."""
    return _flow.get()


@contextlib.contextmanager
def log_flow(name: str) -> Iterator[None]:
    """Log lines from inside, and from tasks and threads that copy this context, begin with the flow's name."""
    before = _flow.set(name)
    try:
        yield
    finally:
        _flow.reset(before)


def one_line(text: str) -> str:
    """The text with control characters escaped as in a Python literal: `\\n`, `\\x1b`, `\\u2028`."""
    return _CONTROL.sub(_escaped, text)


def indented(text: str) -> str:
    """The lines of a text, indented, and with other control characters escaped."""
    # Not splitlines, which knows more line ends than a terminal. Those are escaped.
    return "\n".join(f"    {one_line(line.rstrip(chr(13)).expandtabs())}" for line in text.split("\n"))


class LineFormatter(logging.Formatter):
    """A formatter with one line for each record. RedactingFilter must come first: it knows secrets unescaped."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 — logging's name
        """The line without its stack trace."""
        return one_line(super().formatMessage(record))

    def format(self, record: logging.LogRecord) -> str:
        """The record with its stack trace, which may have been formatted and redacted before."""
        flow = _flow.get()
        record.message = f"[{flow}] {record.getMessage()}" if flow else record.getMessage()
        if self.usesTime():
            record.asctime = self.formatTime(record, self.datefmt)
        line = self.formatMessage(record)
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        stack = record.stack_info or ""
        return "\n".join([line, *(indented(text) for text in (trace, stack) if text)])


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    return _SHORT.get(char) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")
