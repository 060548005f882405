"""What Spark says of a statement, as one line with the position in the text that the user wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from mirror_connect.query.errors import QueryError
from mirror_connect.spark_jobs.spark_messages import message_line, parser_place, sql_index


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
    line = message_line(found)
    place = _place(found, position)
    return QueryError(line if place is None else f"{line} ({place})")


def _chain(error: Any) -> Iterator[Any]:
    while error is not None:
        yield error
        error = error._cause


def _place(error: Any, position: Callable[[int], str]) -> str | None:
    if (index := sql_index(error)) is not None:
        return position(index)
    # The parser has read the user's own text.
    place = parser_place(error)
    return None if place is None else f"line {place[0]}, column {place[1] + 1}"
