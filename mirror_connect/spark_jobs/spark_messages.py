"""What an error of Spark's says, as one line of a bounded length, and the place in the SQL text that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_MOST: Final = 600
# Behind the message: a trace, and the whole SQL text.
_BEHIND: Final = ("\n\nJVM stacktrace", "\n== SQL")


def message_line(error: PySparkException) -> str:
    """Its message, without a stack trace and the SQL text: one line of 600 characters at most, and … if there are more."""
    message = error.getMessage() or str(error)
    for behind in _BEHIND:
        message = message.split(behind, maxsplit=1)[0]
    line = " ".join(message.split())
    return line if len(line) <= _MOST else f"{line[:_MOST]} …"


def sql_index(error: PySparkException) -> int | None:
    """The index of the character in the SQL text of which it tells; None if it names none."""
    for context in error.getQueryContext():
        if context.contextType().name == "SQL" and context.startIndex() >= 0:
            return int(context.startIndex())
    return None


def parser_place(error: Any) -> tuple[int, int] | None:
    """Where the parser has stopped: the line, from 1, and the column, from 0. None for errors of other classes.

    The parser finds some of those as well, and they have no place.
    """
    from pyspark.errors import ParseException  # noqa: PLC0415 — it is imported with the session

    origin = getattr(error, "_origin", None) if isinstance(error, ParseException) else None
    if origin is None or not (origin.line().isDefined() and origin.startPosition().isDefined()):
        return None
    return int(origin.line().get()), int(origin.startPosition().get())
