"""The log as JSON: one object for each line, for programs that read it (`log.format=json`).

Members: `time` (UTC), `level`, `logger`, `message`. If there is one: `flow`, `connector`, `task`, `problem` (the code of
connectors/problems.py) and `trace`. Everything is ASCII, so no name in a request or record can end a line.
"""

from __future__ import annotations

import json
import logging
import time
from typing import Any, Final

from mirror_connect.connectors.log_format import PROBLEM, ConnectorName, present_flow
from mirror_connect.connectors.task_protocol import TaskId

# Of records that SubjectFilter has seen.
_CONNECTOR: Final = "connector"
_TASK: Final = "task"


class SubjectFilter(logging.Filter):
    """Notes what a record is about, by the types of its arguments. RedactingFilter, which may replace these, comes later."""

    def filter(self, record: logging.LogRecord) -> bool:
        """It never drops a record."""
        arguments = record.args if isinstance(record.args, tuple) else ()
        for argument in arguments:
            if isinstance(argument, TaskId):
                record.__dict__.setdefault(_CONNECTOR, argument.connector)
                record.__dict__.setdefault(_TASK, argument.task)
            elif isinstance(argument, ConnectorName):
                record.__dict__.setdefault(_CONNECTOR, str(argument))
        return True


class JsonFormatter(logging.Formatter):
    """See the module. RedactingFilter must come first: it knows secrets unescaped."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line."""
        trace = record.exc_text or (self.formatException(record.exc_info) if record.exc_info else "")
        flow = present_flow()
        members: dict[str, Any] = {
            "time": _time(record.created),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **({"flow": flow} if flow else {}),
            **{name: record.__dict__[name] for name in (_CONNECTOR, _TASK, PROBLEM) if name in record.__dict__},
        }
        if trace or record.stack_info:
            members["trace"] = "\n".join(filter(None, (trace, record.stack_info)))
        return json.dumps(members)


def json_line(level: int, logger: str, message: str) -> str:
    """A line that goes through no logger."""
    return JsonFormatter().format(logging.LogRecord(logger, level, "", 0, message, None, None))


def _time(seconds: float) -> str:
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{int(seconds % 1 * 1000):03d}Z"
