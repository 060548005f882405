"""What Spark says of a statement, as one line with the position in the text that the user wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from mirror_connect.query.errors import QueryError

_MOST: Final = 600


@contextmanager
def explained(position: Callable[[int], str], failure: Callable[[], str | None]) -> Iterator[None]:
    """Makes a QueryError of whatever Spark raises. `failure`: what its Python processes know, which it hides in a trace."""
    from py4j.protocol import Py4JError, Py4JJavaError  # noqa: PLC0415 — they are imported with the session
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.errors.exceptions.captured import convert_exception  # noqa: PLC0415

    try:
        yield
    except PySparkException as error:
        raise _known(failure) or sql_error(error, position) from None
    except Py4JJavaError as error:
        raise _known(failure) or sql_error(convert_exception(error.java_exception), position) from None
    except (Py4JError, OSError) as error:
        raise QueryError(
            f"Spark's JVM does not answer any more ({type(error).__name__}): "
            "if its memory was too small, give it more with --memory"
        ) from None


def _known(failure: Callable[[], str | None]) -> QueryError | None:
    line = failure()
    return None if line is None else QueryError(line)


def sql_error(error: Any, position: Callable[[int], str]) -> QueryError:
    """The line for an exception of PySpark's. `position`: of an index in Spark's text."""
    # An error of a task is the cause of the job's.
    found = next((each for each in _chain(error) if each.getCondition() is not None), error)
    message = found.getMessage() or str(found._desc)
    line = " ".join(message.split("\n\nJVM stacktrace", maxsplit=1)[0].split())
    if len(line) > _MOST:
        line = f"{line[:_MOST]} …"
    places = [position(each) for each in _indexes(found)] or _parsers_place(found)
    return QueryError(f"{line} ({places[0]})" if places else line)


def _chain(error: Any) -> Iterator[Any]:
    while error is not None:
        yield error
        error = error._cause


def _indexes(error: Any) -> Iterator[int]:
    for each in error.getQueryContext():
        if each.contextType().name == "SQL" and each.startIndex() >= 0:
            yield each.startIndex()


def _parsers_place(error: Any) -> list[str]:
    """Where the parser has stopped, which has read the user's own text."""
    from pyspark.errors import ParseException  # noqa: PLC0415 — it is imported with the session

    if not isinstance(error, ParseException) or error._origin is None:
        return []
    line, column = error._origin.line(), error._origin.startPosition()
    return [f"line {line.get()}, column {column.get() + 1}"] if line.isDefined() and column.isDefined() else []
