"""Finds what is wrong with a connector's statement or function, and what Spark makes of single records by a statement.

Spark reads a statement. A function is imported by a process of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from mirror_connect.app.supervisor.spark_questions import SparkAway, SparkQuestions
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.record_transform import RecordTransform, setting_of_transform
from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.mirror.transform_sql import PYTHON, SQL
from mirror_connect.connectors.user_code.user_function import allowed_entries, function_problem, refusal
from mirror_connect.kafka_io.records.asked_records import AskedRecord, TransformedRecord

STATEMENT: Final = "statement"
PREVIEW: Final = "preview"
FUNCTION: Final = "function"


class StatementReader:
    """See the module. For `error` Spark parses and analyses the statement, and executes nothing.

    `local`: tasks run on this machine. On a cluster a function may be at the executors alone.
    """

    def __init__(self, questions: SparkQuestions, *, local: bool) -> None:
        self._questions = questions
        self._local = local

    async def error(self, transform: RecordTransform) -> tuple[str, str] | None:
        """The setting that is wrong, and one line; None if the statement or function can be applied."""
        if isinstance(transform, TransformFunction):
            problem = refusal(transform.name, allowed_entries())
            if problem is None and self._local:
                problem = await asyncio.to_thread(function_problem, transform.name)
            return None if problem is None else (PYTHON, problem)
        try:
            answer = await self._questions.ask(STATEMENT, transform.to_json())
        except SparkAway as error:
            return SQL, f"it can't be checked now: {error}"
        return None if "problem" not in answer else (answer["setting"] or SQL, answer["problem"])

    async def transformed(self, transform: RecordTransform, records: Sequence[AskedRecord]) -> list[TransformedRecord]:
        """What becomes of each of these records. SparkAway; ConfigError if the statement or function can't be applied.

        The secrets go with them, in a request that only the driver of this start can get.
        """
        kind = FUNCTION if isinstance(transform, TransformFunction) else PREVIEW
        body = {
            "sql": transform.to_json(),
            "secrets": dict(transform.secrets),
            "records": [each.to_json() for each in records],
        }
        answer = await self._questions.ask(kind, body)
        if "problem" in answer:
            raise ConfigError(answer["setting"] or setting_of_transform(transform), None, answer["problem"])
        return [TransformedRecord.from_json(each) for each in answer["records"]]
