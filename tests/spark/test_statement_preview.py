"""What Spark's driver shows of a statement: the very bytes that a task would write, and no trace of what it was given.

Each statement is applied a second time as a task applies it: by a job with generated code.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from mirror_connect.connectors.mirror.lookups import Lookup
from mirror_connect.connectors.mirror.transform_sql import TransformSql
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.records.asked_records import AskedRecord, TransformedRecord
from mirror_connect.kafka_io.records.record_parts import RecordParts, parts_of, rest_of
from mirror_connect.spark_jobs.compute import statement_preview
from mirror_connect.spark_jobs.compute.lookup_joins import LookupJoin, table_type
from mirror_connect.spark_jobs.compute.statement import statement_session
from mirror_connect.spark_jobs.compute.statement_preview import preview_answer
from mirror_connect.spark_jobs.internal_http import InternalHttp
from mirror_connect.spark_jobs.query import map_in_arrow
from mirror_connect.spark_jobs.questions import Questions
from tests.spark.sessions import running_session

pytestmark = [pytest.mark.spark, pytest.mark.long]

SECRET: Final = "pepper-of-some-thirty-two-bytes!"
CARD: Final = "4111111111111111"
ORDERS: Final = TopicPartition("orders", 3)
SCHEMA: Final = "id BIGINT, country STRING, email STRING, card STRING"
MASKED: Final = """
SELECT named_struct(
         'id', value.id,
         'email', sha2(concat(secrets.pepper, value.email), 256),
         'card', concat(repeat('*', length(value.card) - 4), right(value.card, 4))
       ) AS value
FROM records WHERE value IS NULL OR value.country = 'EU'
"""


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def jvm_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "jvm.log"


@contextlib.contextmanager
def errors_to(path: Path) -> Iterator[None]:
    """What a process that starts now writes to its standard error goes to this file."""
    ours = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory, events: Path, jvm_log: Path) -> Iterator[Any]:
    settings = {
        "spark.master": "local[1]",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{events}",
        "spark.eventLog.compress": "false",
    }
    with contextlib.ExitStack() as stack:
        with errors_to(jvm_log):
            session = stack.enter_context(running_session(settings, tmp_path_factory.mktemp("scratch")))
        yield session


@pytest.fixture(scope="module")
def session(opened: Any) -> Any:
    return statement_session(opened)


@pytest.fixture(scope="module")
def as_a_task(opened: Any) -> Any:
    """A session whose rows go through a job, with code that Spark generates."""
    new = statement_session(opened)
    new.conf.set("spark.sql.codegen.wholeStage", "true")
    new.conf.set("spark.sql.codegen.factoryMode", "CODEGEN_ONLY")
    new.conf.set("spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation")
    return new


def customer(number: int, **other: object) -> bytes:
    return json.dumps({"id": number, "country": "EU", "email": f"{number}@example.org", "card": CARD, **other}).encode()


RECORDS: Final = (
    RecordParts(b"1", customer(1), ((b"from", b"web"), (b"none", None))),
    RecordParts(b"2", customer(2, country="US")),
    RecordParts(b"3", None),
    RecordParts(None, b"4111111111111111 is no JSON"),
    RecordParts(b"\xff", customer(5, email=None)),
    RecordParts(b"", b""),
)


def body(text: str, records: Sequence[RecordParts], schema: str | None = None, **secrets: str) -> dict[str, Any]:
    asked = [AskedRecord(ORDERS, 100 + at, 1000 + at, rest_of(parts)) for at, parts in enumerate(records)]
    sql = TransformSql(text, schema, None, tuple(sorted(secrets)))
    made = {"sql": sql.to_json(), "secrets": secrets, "records": [each.to_json() for each in asked]}
    return dict(json.loads(json.dumps(made)))


def shown(session: Any, asked: dict[str, Any]) -> list[TransformedRecord]:
    answer = json.loads(json.dumps(preview_answer(session, asked)))
    return [TransformedRecord.from_json(each) for each in answer["records"]]


@contextlib.contextmanager
def counted(session: Any) -> Iterator[list[int]]:
    """The jobs of this thread."""
    found: list[int] = []
    context = session.sparkContext
    context.setLocalProperty("spark.jobGroup.id", "counted")
    before = len(context.statusTracker().getJobIdsForGroup("counted"))
    yield found
    found.append(len(context.statusTracker().getJobIdsForGroup("counted")) - before)


def test_records_become_what_the_target_gets_and_the_others_say_why(session: Any) -> None:
    with counted(session) as jobs:
        found = shown(session, body(MASKED, RECORDS, SCHEMA, pepper=SECRET))
    bad = "value is no JSON object of spark.transform.value.schema"
    assert [(each.kept, each.error) for each in found] == [
        *[
            (True, None),
            (False, None),
            (True, None),
            (False, f"{bad}: it is no JSON"),
            (True, None),
            (False, f"{bad}: it is empty"),
        ]
    ]
    first = parts_of(found[0].rest or b"")
    assert (first.key, first.headers) == (RECORDS[0].key, RECORDS[0].headers)
    assert json.loads(first.value or b"") == {
        "id": 1,
        "email": hashlib.sha256(f"{SECRET}1@example.org".encode()).hexdigest(),
        "card": "*" * 12 + "1111",
    }
    assert found[2].rest == rest_of(RECORDS[2])
    # No slot is needed, however many tasks there are.
    assert jobs == [0]


STATEMENTS: Final = {
    "nothing": ("SELECT * FROM records", None),
    "masked": (MASKED, SCHEMA),
    "key": ("SELECT upper(concat(topic, partition, '-', offset)) AS key FROM records", None),
    "headers": ("SELECT array_append(headers, named_struct('key', 'by', 'value', key)) AS headers FROM records", None),
    "no_headers": ("SELECT NULL AS headers, NULL AS key FROM records WHERE size(headers) > 0", None),
    "time": ("SELECT timestamp + INTERVAL 9000 YEARS AS timestamp FROM records WHERE key <> '3'", None),
    "before_1970": ("SELECT timestamp - INTERVAL 9000 YEARS AS timestamp FROM records", None),
    "json": ("SELECT get_json_object(CAST(value AS STRING), '$.email') AS value FROM records", None),
    "cast": ("SELECT CAST(CAST(CAST(key AS STRING) AS INT) AS STRING) AS key FROM records", None),
    "division": ("SELECT '' AS key FROM records WHERE 3 / (offset - 101) > -9", None),
    "map": ("SELECT map('k', value.id, 'n', NULL) AS value FROM records WHERE value.id > 0", SCHEMA),
    "secret": ("SELECT secrets.pepper AS key FROM records", None),
}  # fmt: skip


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_job_with_generated_code_makes_the_same_of_them(session: Any, as_a_task: Any, name: str) -> None:
    text, schema = STATEMENTS[name]
    asked = body(text, RECORDS, schema, pepper=SECRET)
    with counted(session) as jobs:
        generated = shown(as_a_task, asked)
    assert shown(session, asked) == generated
    assert jobs == [1]


REGIONS: Final = Lookup("regions", "country STRING, region STRING")
REGION: Final = "only-in-the-lookup"
JOINED: Final = """
SELECT concat(r.region, '-', value.id) AS key FROM records LEFT JOIN regions r ON r.country = value.country
WHERE value IS NULL OR r.country IS NOT NULL OR value.id / (value.id - 2) > 9
"""


def joined(session: Any, seconds: float = 0.0) -> Any:
    """A preview with a lookup whose rows come as a task's, from a process of Spark's."""

    def lookup(join: LookupJoin, sql: TransformSql) -> Any:
        region, pause = REGION, seconds

        def rows(ticks: Iterator[Any]) -> Iterator[Any]:
            import time as clock  # noqa: PLC0415 — it is pickled

            import pyarrow  # noqa: PLC0415

            for _ in ticks:
                clock.sleep(pause)
                yield pyarrow.RecordBatch.from_pylist([{"country": "EU", "region": region}])

        assert (join.name, join.keys) == ("regions", ("country",))
        return map_in_arrow(session.range(0, 1, 1, 1), rows, table_type(sql, join))

    asked = body(JOINED, RECORDS, SCHEMA)
    asked["sql"]["lookups"] = [REGIONS.to_json()]
    return preview_answer(session, asked, lookup)


def test_records_are_joined_as_a_task_joins_them(session: Any) -> None:
    found = [TransformedRecord.from_json(each) for each in joined(session)["records"]]
    bad = "value is no JSON object of spark.transform.value.schema"
    assert [(each.kept, each.error) for each in found] == [
        *[
            (True, None),
            (False, "WHERE raised an error"),
            (True, None),
            (False, f"{bad}: it is no JSON"),
            (True, None),
            (False, f"{bad}: it is empty"),
        ]
    ]
    keys = [parts_of(each.rest or b"").key for each in found if each.kept]
    assert keys == [f"{REGION}-1".encode(), None, f"{REGION}-5".encode()]


def test_a_join_that_gets_no_rows_in_time_is_given_up(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_preview, "PATIENCE_S", 1.0)
    began = time.monotonic()
    assert "within 1 s" in joined(session, seconds=120.0)["away"]
    assert time.monotonic() - began < 60.0
    monkeypatch.undo()
    # Its slot, the only one, is free again.
    assert "records" in joined(session)


def test_a_statement_that_cannot_be_applied_is_a_setting_and_a_line(session: Any) -> None:
    answer = preview_answer(session, body("SELECT * FROM records LIMIT 1", RECORDS))
    assert (answer["setting"], "LIMIT" in answer["problem"]) == ("spark.transform.sql", True)


def test_what_is_too_much_for_an_answer_is_kept_and_not_shown(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statement_preview, "MOST_BYTES", 100)
    text = "SELECT repeat('x', CASE WHEN offset = 101 THEN 200 ELSE 20 END) AS value FROM records"
    found = shown(session, body(text, RECORDS[:3]))
    assert [(each.kept, each.rest is not None, each.error is not None) for each in found] == [
        *[(True, True, False), (True, False, True), (True, True, False)]
    ]


def test_nothing_of_records_and_secrets_is_in_plans_events_or_the_log(
    session: Any, events: Path, jvm_log: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log4j = session._jvm.org.apache.logging.log4j
    set_levels = log4j.core.config.Configurator.setAllLevels
    with caplog.at_level(logging.DEBUG):
        set_levels("org.apache.spark.sql", log4j.Level.ALL)
        try:
            shown(session, body(MASKED, RECORDS, SCHEMA, pepper=SECRET))
            assert "records" in joined(session)
        finally:
            set_levels("org.apache.spark.sql", log4j.Level.ERROR)
    written = "".join(path.read_text("utf-8") for path in events.rglob("*") if path.is_file())
    texts = {"events": written, "log": caplog.text, "log of the JVM": jvm_log.read_text("utf-8")}
    # Both show the plan, with the columns of its rows.
    assert "LocalTableScan [__row" in written
    assert "LocalRelation [__row" in texts["log of the JVM"]
    # Py4J's calls have bytes as base64, where a text begins at one of three places.
    encoded = [base64.b64encode(b"." * at + SECRET.encode()).decode()[4:24] for at in range(3)]
    hidden = (SECRET, CARD, "1@example.org", "pepper-of", REGION, *encoded)
    assert {(name, each) for name, text in texts.items() for each in hidden if each in text} == set()


@pytest.mark.parametrize("size", ["2000000000", "length(topic) + 2000000000"], ids=["a_constant", "of_a_record"])
def test_more_than_the_memory_is_told_as_such_and_the_next_preview_is_computed(opened: Any, size: str) -> None:
    questions = Questions(InternalHttp("http://127.0.0.1:1", "token"), opened)
    asked = body(f"SELECT repeat('x', CAST({size} AS INT)) AS value FROM records", RECORDS[:1])
    answer = questions._answer({"kind": "preview", "number": 1, "body": asked})
    assert "it needs more of its memory than there is" in answer["problem"]
    asked = body("SELECT repeat('x', 2) AS value FROM records", RECORDS[:1])
    (record,) = questions._answer({"kind": "preview", "number": 2, "body": asked})["records"]
    assert parts_of(TransformedRecord.from_json(record).rest or b"").value == b"xx"


def test_of_what_is_too_much_for_an_answer_only_the_size_leaves_the_jvm(session: Any) -> None:
    text = "SELECT repeat('x', 5000000) AS value, CAST('k' AS BINARY) AS key FROM records"
    (found,) = shown(session, body(text, RECORDS[:1]))
    assert (found.kept, found.rest, found.error) == (True, None, statement_preview.TOO_MANY.format(5_000_000))
