"""Questions for Spark's driver, and what becomes of those that nobody answers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mirror_connect.app.config.allowed_paths import LookupPaths
from mirror_connect.app.supervisor.lookup_reads import reader
from mirror_connect.app.supervisor.preview_lookups import LookupRefused, PreviewLookups
from mirror_connect.app.supervisor.spark_questions import MOST_WAITING, SparkAway, SparkQuestions
from mirror_connect.app.supervisor.statement_reader import StatementReader
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError
from mirror_connect.connectors.mirror.lookups import Lookup
from mirror_connect.connectors.mirror.transform_sql import SQL, VALUE_SCHEMA, TransformSql
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.records.asked_records import AskedRecord, TransformedRecord

LONG_S = 60.0


async def answered(questions: SparkQuestions, *answers: Any) -> None:
    """The driver."""
    for each in answers:
        question = await questions.next(LONG_S)
        assert question is not None
        questions.answer(question["number"], each)


async def test_a_question_gets_its_own_answer() -> None:
    questions = SparkQuestions(lambda: None)
    first, second = (asyncio.create_task(questions.ask("add", each)) for each in (1, 2))
    asked = [await questions.next(LONG_S), await questions.next(LONG_S)]
    assert [each and (each["kind"], each["body"]) for each in asked] == [("add", 1), ("add", 2)]
    for each in reversed(asked):
        assert each is not None
        questions.answer(each["number"], each["body"] + 10)
    assert (await first, await second) == (11, 12)


async def test_a_question_waits_for_spark_and_then_says_why_there_is_none() -> None:
    questions = SparkQuestions(lambda: "Waiting for Spark.")
    with pytest.raises(SparkAway, match=r"\(Waiting for Spark\): try again"):
        await questions.ask("add", 1, patience_s=0.01)
    # Whoever asked is gone: the driver that comes later has nothing to do for it.
    assert await questions.next(0.01) is None


async def test_a_late_answer_is_for_nobody() -> None:
    questions = SparkQuestions(lambda: None)
    asking = asyncio.create_task(questions.ask("add", 1, patience_s=0.05))
    question = await questions.next(LONG_S)
    assert question is not None
    with pytest.raises(SparkAway):
        await asking
    questions.answer(question["number"], 2)
    questions.answer(99, 2)


async def test_questions_that_wait_are_limited() -> None:
    questions = SparkQuestions(lambda: None)
    waiting = [asyncio.create_task(questions.ask("add", each)) for each in range(MOST_WAITING)]
    await asyncio.sleep(0)
    with pytest.raises(SparkAway, match="other questions"):
        await questions.ask("add", 1)
    for each in waiting:
        each.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_held_request_ends_with_spark() -> None:
    questions = SparkQuestions(lambda: None)
    held = asyncio.create_task(questions.next(LONG_S))
    await asyncio.sleep(0)
    questions.end()
    assert await held is None


async def test_an_answer_about_a_statement_is_a_setting_and_a_line() -> None:
    questions = SparkQuestions(lambda: None)
    reader = StatementReader(questions, PreviewLookups(), local=True)
    sql = TransformSql("SELECT", secret_names=("salt",), secrets={"salt": "geheim"})
    answers = (
        {"columns": [], "changes": [], "filters": False},
        {"problem": "it is wrong", "setting": VALUE_SCHEMA},
        {"problem": "Spark could not read it", "setting": None},
    )
    driver = asyncio.create_task(answered(questions, *answers))
    assert [await reader.error(sql) for _ in answers] == [
        None,
        (VALUE_SCHEMA, "it is wrong"),
        (SQL, "Spark could not read it"),
    ]
    await driver


@pytest.mark.parametrize(
    ("fetched", "advice"), [(True, "try again, or write the results of its constants"), (False, "try again")]
)
async def test_a_statement_that_is_not_read_in_time_is_not_taken(
    fetched: bool, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = SparkQuestions(lambda: None)
    ask = questions.ask
    monkeypatch.setattr(questions, "ask", lambda kind, body: ask(kind, body, patience_s=0.05))
    checking = asyncio.create_task(
        StatementReader(questions, PreviewLookups(), local=True).error(TransformSql("SELECT"))
    )
    if fetched:
        assert await questions.next(LONG_S) is not None
    assert await checking == (SQL, f"it can't be checked now: Spark did not answer within 0.05 s: {advice}")


async def test_the_driver_never_gets_the_value_of_a_secret() -> None:
    questions = SparkQuestions(lambda: None)
    sql = TransformSql("SELECT", secret_names=("salt",), secrets={"salt": "geheim"})
    asking = asyncio.create_task(StatementReader(questions, PreviewLookups(), local=True).error(sql))
    question = await questions.next(LONG_S)
    assert "geheim" not in str(question)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_a_preview_sends_records_with_secrets_and_gets_what_they_become() -> None:
    questions = SparkQuestions(lambda: None)
    reader = StatementReader(questions, PreviewLookups(), local=True)
    sql = TransformSql("SELECT", secret_names=("salt",), secrets={"salt": "geheim"})
    record = AskedRecord(TopicPartition("t", 1), 5, 1000, b"\x01\xff")
    became = [TransformedRecord(True, 9, b"\x00"), TransformedRecord(False, 1000, None, "WHERE raised an error")]
    asking = asyncio.create_task(reader.transformed(sql, [record, record], {}))
    question = await questions.next(LONG_S)
    assert question is not None
    # Both ways through JSON, as over HTTP.
    body = json.loads(json.dumps(question["body"]))
    assert (question["kind"], body["sql"], body["secrets"]) == ("preview", sql.to_json(), {"salt": "geheim"})
    assert [AskedRecord.from_json(each) for each in body["records"]] == [record, record]
    questions.answer(question["number"], json.loads(json.dumps({"records": [each.to_json() for each in became]})))
    assert await asking == became
    assert "geheim" not in repr(questions._open)


async def test_a_statement_that_a_preview_cannot_apply_is_an_error_of_its_setting() -> None:
    questions = SparkQuestions(lambda: None)
    asking = asyncio.create_task(
        StatementReader(questions, PreviewLookups(), local=True).transformed(TransformSql("SELECT"), [], {})
    )
    await answered(questions, {"problem": "it is wrong", "setting": None})
    with pytest.raises(ConfigError, match=r"spark\.transform\.sql: it is wrong"):
        await asking


REGIONS = Lookup("regions", "id STRING", "/no/such/regions.csv")
JOINED = TransformSql("SELECT", lookups=(REGIONS,))


async def test_spark_gets_a_token_for_the_lookups_of_one_preview() -> None:
    questions, lookups = SparkQuestions(lambda: None), PreviewLookups()
    asking = asyncio.create_task(StatementReader(questions, lookups, local=True).transformed(JOINED, [], {"name": "c"}))
    question = await questions.next(LONG_S)
    assert question is not None
    told = question["body"]["run"]
    run = lookups.find(told["run_id"])
    assert run is not None
    assert run.token == told["token"]
    questions.answer(question["number"], {"records": []})
    assert await asking == []
    assert lookups.find(told["run_id"]) is None


async def test_a_lookup_that_can_not_be_read_is_told_at_once() -> None:
    questions, lookups = SparkQuestions(lambda: None), PreviewLookups(reader(LookupPaths(("/no",))))
    asking = asyncio.create_task(StatementReader(questions, lookups, local=True).transformed(JOINED, [], {"name": "c"}))
    question = await questions.next(LONG_S)
    assert question is not None
    run = lookups.find(question["body"]["run"]["run_id"])
    assert run is not None
    assert await lookups.rows(run, "regions", ["id"]) is None
    with pytest.raises(LookupRefused, match=r"regions\.csv\): it can't be read: No such file"):
        await asking
    # Nobody waits for Spark any more.
    assert not questions.waiting


async def test_a_preview_that_spark_can_not_run_in_time_is_no_error_of_its_config() -> None:
    questions, lookups = SparkQuestions(lambda: None), PreviewLookups()
    reader = StatementReader(questions, lookups, local=True)
    asking = asyncio.create_task(reader.transformed(JOINED, [], {"name": "c"}))
    await answered(questions, {"away": "it has no free slot"})
    with pytest.raises(SparkAway, match="no free slot"):
        await asking


async def test_a_lookup_that_is_read_for_too_long_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    questions, lookups = SparkQuestions(lambda: None), PreviewLookups()

    async def late(*_: object) -> None:
        [run] = lookups._runs.values()
        run.reading.append(REGIONS)
        raise SparkAway("Spark did not answer")

    monkeypatch.setattr(questions, "ask", late)
    with pytest.raises(ClusterUnreachable, match=r"^Lookup regions .* takes too long"):
        await StatementReader(questions, lookups, local=True).transformed(JOINED, [], {"name": "c"})
