"""Finds what is wrong with a connector's statement or function, and what Spark makes of single records by a statement.

Spark reads a statement. A function is imported by a process of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from mirror_connect.app.supervisor.lookup_reads import line_of
from mirror_connect.app.supervisor.preview_lookups import PreviewLookups
from mirror_connect.app.supervisor.spark_questions import SparkAway, SparkQuestions, SparkSlow
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError
from mirror_connect.connectors.mirror.record_transform import RecordTransform, setting_of_transform
from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.mirror.transform_sql import PYTHON, SQL, TransformSql
from mirror_connect.connectors.user_code.user_function import allowed_entries, function_problem, refusal
from mirror_connect.kafka_io.records.asked_records import AskedRecord, TransformedRecord

STATEMENT: Final = "statement"
PREVIEW: Final = "preview"
FUNCTION: Final = "function"


class StatementReader:
    """See the module. For `error` Spark parses and analyses the statement, and executes nothing.

    `local`: tasks run on this machine. On a cluster a function may be at the executors alone.
    """

    def __init__(self, questions: SparkQuestions, lookups: PreviewLookups, *, local: bool) -> None:
        self._questions = questions
        self._lookups = lookups
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
        except SparkSlow as error:
            return SQL, f"it can't be checked now: {error}, or write the results of its constants"
        except SparkAway as error:
            return SQL, f"it can't be checked now: {error}"
        return None if "problem" not in answer else (answer["setting"] or SQL, answer["problem"])

    async def transformed(
        self, transform: RecordTransform, records: Sequence[AskedRecord], resolved: Mapping[str, str]
    ) -> list[TransformedRecord]:
        """What becomes of each of these records. `resolved`: the config, whose logins read lookups.

        SparkAway; ConfigError if the statement or function can't be applied; LookupRefused, ClusterUnreachable,
        NotAuthorized if a lookup can't be read. The secrets go with the records, in a request that only the driver of this
        start can get.
        """
        body = {
            "sql": transform.to_json(),
            "secrets": dict(transform.secrets),
            "records": [each.to_json() for each in records],
        }
        if isinstance(transform, TransformFunction):
            answer = await self._questions.ask(FUNCTION, body)
        elif not transform.lookups:
            answer = await self._questions.ask(PREVIEW, body)
        else:
            answer = await self._with_lookups(transform, body, resolved)
        if "away" in answer:
            raise SparkAway(answer["away"])
        if "problem" in answer:
            raise ConfigError(answer["setting"] or setting_of_transform(transform), None, answer["problem"])
        return [TransformedRecord.from_json(each) for each in answer["records"]]

    async def _with_lookups(self, sql: TransformSql, body: dict[str, Any], resolved: Mapping[str, str]) -> Any:
        """The driver's answer; as soon as a lookup can't be read, the error of that."""
        with self._lookups.opened(sql.lookups, resolved) as run:
            handle = {"run_id": run.run_id, "token": run.token}
            asking = asyncio.create_task(self._questions.ask(PREVIEW, {**body, "run": handle}))
            try:
                await asyncio.wait({asking, run.failed}, return_when=asyncio.FIRST_COMPLETED)
                if run.failed.done():
                    run.failed.result()
                return await asking
            except SparkAway as error:
                if not run.reading:
                    raise
                raise ClusterUnreachable(line_of(run.reading[0], "it is being read, which takes too long")) from error
            finally:
                asking.cancel()
                await asyncio.gather(asking, return_exceptions=True)
