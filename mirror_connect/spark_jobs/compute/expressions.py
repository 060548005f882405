"""Columns of Spark's expressions, and the session whose settings its parser and its analyser read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


def null_if_it_fails(column: Column) -> Column:
    """Null where the column raises an error. An error in the JVM would end the epoch, and name no record."""
    jvm = _jvm()
    expression = jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)
    return column_of(jvm.org.apache.spark.sql.catalyst.expressions.TryEval(expression))


def column_of(expression: Any) -> Column:
    """A column of an expression of Spark's parser."""
    from pyspark.sql import Column  # noqa: PLC0415 — with a session only

    return Column(_jvm().org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def _jvm() -> Any:
    from pyspark import SparkContext  # noqa: PLC0415

    return SparkContext._jvm


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Makes a session the one whose settings Spark's parser and analyser read, in this thread."""
    sessions = session._jvm.org.apache.spark.sql.classic.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
