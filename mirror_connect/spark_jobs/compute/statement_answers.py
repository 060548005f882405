"""What Spark says of a connector's statement, for the worker that asks: its columns, or one line about what is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirror_connect.connectors.mirror.transform_sql import TransformSql
from mirror_connect.spark_jobs.compute.statement import planned, read_statement
from mirror_connect.spark_jobs.compute.statement_error import StatementError, problem_answer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def statement_answer(session: SparkSession, body: Any) -> dict[str, Any]:
    """The answer about a statement. `session`: of `statement_session`."""
    sql = TransformSql.from_json(body)
    try:
        found = read_statement(session, sql)
    except StatementError as error:
        return problem_answer(error, sql.text)
    # As a task's query does, where nobody waits for it. Here the worker does, and takes no statement that needs for ever.
    planned(session, found)
    return {"columns": list(found.columns), "changes": list(found.changes), "filters": found.filters}
