"""Asks Spark whether it can apply a connector's statement, and what it makes of single records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mirror_connect.app.supervisor.spark_questions import SparkAway, SparkQuestions
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.transform_sql import SQL, TransformSql
from mirror_connect.kafka_io.records.asked_records import AskedRecord, TransformedRecord

STATEMENT: Final = "statement"
PREVIEW: Final = "preview"


class StatementReader:
    """See the module. For `error` Spark parses and analyses the statement, and executes nothing."""

    def __init__(self, questions: SparkQuestions) -> None:
        self._questions = questions

    async def error(self, sql: TransformSql) -> tuple[str, str] | None:
        """The setting that is wrong, and one line; None if the statement can be applied."""
        try:
            answer = await self._questions.ask(STATEMENT, sql.to_json())
        except SparkAway as error:
            return SQL, f"it can't be checked now: {error}"
        return None if "problem" not in answer else (answer["setting"] or SQL, answer["problem"])

    async def transformed(self, sql: TransformSql, records: Sequence[AskedRecord]) -> list[TransformedRecord]:
        """What becomes of each of these records. SparkAway; ConfigError if the statement can't be applied.

        The secrets go with them, in a request that only the driver of this start can get.
        """
        body = {"sql": sql.to_json(), "secrets": dict(sql.secrets), "records": [each.to_json() for each in records]}
        answer = await self._questions.ask(PREVIEW, body)
        if "problem" in answer:
            raise ConfigError(answer["setting"] or SQL, None, answer["problem"])
        return [TransformedRecord.from_json(each) for each in answer["records"]]
