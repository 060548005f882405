"""The error of a statement that can't be applied, with its place in the text; and what Spark and its JVM say as one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.connectors.mirror.sql_text import place_of
from mirror_connect.connectors.mirror.transform_sql import SQL
from mirror_connect.spark_jobs.spark_messages import message_line, parser_place, sql_index

if TYPE_CHECKING:
    from pyspark.errors import PySparkException

_TOO_DEEP: Final = "the statement is too deeply nested ({}): write it with fewer levels"
SUBQUERY: Final = (
    "a subquery is not taken: write the values themselves, as IN ('EU', 'UK'), "
    "or put them into a lookup and LEFT JOIN it"
)
_FROM: Final = re.compile(r"\bFROM\b", re.IGNORECASE)
# What a statement raises that needs too much, and what to do. Errors of the JVM have Java's names.
_TOO_MUCH: Final = {
    "java.lang.OutOfMemoryError": "it needs more of its memory than there is ({}): "
    "limit what functions make, as repeat does",
    "java.lang.StackOverflowError": "it needs more of its stack than there is ({}): write it with fewer levels, "
    "or with a simpler pattern for rlike, regexp_replace and their like",
    "com.fasterxml.jackson.core.exc.StreamConstraintsException": _TOO_DEEP,
    "RecursionError": _TOO_DEEP,
}


class StatementError(Exception):
    """One line for the user. `index`: of a character in the statement. `setting`: the one that is wrong, if another."""

    def __init__(self, problem: str, index: int | None = None, *, setting: str | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.index = index
        self.setting = setting

    def line(self, text: str) -> str:
        """The problem and its place in the statement."""
        return self.problem if self.index is None else f"{self.problem} ({place_of(text, self.index)})"


def problem_answer(error: StatementError, text: str) -> dict[str, Any]:
    """The answer to the worker for a statement that can't be applied."""
    return {"problem": error.line(text) if error.setting is None else error.problem, "setting": error.setting or SQL}


def needs_too_much(error: BaseException) -> str | None:
    """What a statement needs too much of, and what to do, by the class of an error; None if it is another one."""
    name = class_name(error)
    line = _TOO_MUCH.get(name)
    return None if line is None else line.format(name)


def class_name(error: BaseException) -> str:
    """The class of an error: of one in the JVM, Java's own."""
    java = getattr(error, "java_exception", None)
    return type(error).__name__ if java is None else str(java.getClass().getName())


@contextmanager
def spark_errors(text: str, *, setting: str | None = None) -> Iterator[None]:
    """Makes a StatementError of what Spark says of a text: a statement, or the schema in `setting`."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 — it is imported with the session
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.errors.exceptions.captured import convert_exception  # noqa: PLC0415

    try:
        yield
    except PySparkException as error:
        raise _error_of(error, text, setting) from None
    except Py4JJavaError as error:
        if (too_much := needs_too_much(error)) is not None:
            raise StatementError(too_much, setting=setting) from None
        raise _error_of(convert_exception(error.java_exception), text, setting) from None


def _error_of(error: PySparkException, text: str, setting: str | None) -> StatementError:
    if setting is not None:
        return StatementError(message_line(error), setting=setting)
    return StatementError(_plainer(error, text) or message_line(error), _index(error, text))


def _plainer(error: PySparkException, text: str) -> str | None:
    """What is wrong with a statement, where Spark's parser says something else."""
    if error.getCondition() == "PARSE_SYNTAX_ERROR" and _FROM.search(text) is None:
        return "FROM records is missing: a statement is SELECT … FROM records"
    # `IN (SELECT 'EU')`: Spark takes SELECT for a type, as DATE is one in DATE '2026-01-01'.
    if error.getCondition() == "UNSUPPORTED_TYPED_LITERAL":
        parameters = error.getMessageParameters() or {}
        if parameters.get("unsupportedType", "").strip('"').upper() == "SELECT":
            return SUBQUERY
    return None


def _index(error: PySparkException, text: str) -> int | None:
    if (index := sql_index(error)) is not None or (place := parser_place(error)) is None:
        return index
    line, column = place
    return sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column
