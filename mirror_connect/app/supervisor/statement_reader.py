"""Asks Spark whether it can apply a connector's statement."""

from __future__ import annotations

from mirror_connect.app.supervisor.spark_questions import SparkAway, SparkQuestions
from mirror_connect.connectors.mirror.transform_sql import SQL, TransformSql

STATEMENT = "statement"


class StatementReader:
    """See the module. Spark parses and analyses the statement, and executes nothing."""

    def __init__(self, questions: SparkQuestions) -> None:
        self._questions = questions

    async def error(self, sql: TransformSql) -> tuple[str, str] | None:
        """The setting that is wrong, and one line; None if the statement can be applied."""
        try:
            answer = await self._questions.ask(STATEMENT, sql.to_json())
        except SparkAway as error:
            return SQL, f"it can't be checked now: {error}"
        return None if "problem" not in answer else (answer["setting"] or SQL, answer["problem"])
