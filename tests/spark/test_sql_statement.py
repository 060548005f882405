"""A connector's SQL as Spark reads and applies it: one row for each record, in order, whatever the statement says.

One session for all tests. Rows go through Python's processes in the test of the flush alone.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import json
import os
import random
import tempfile
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pytest
from py4j.protocol import Py4JJavaError

from mirror_connect.connectors.mirror.lookups import Lookup
from mirror_connect.connectors.mirror.transform_sql import TransformSql
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.records.asked_records import AskedRecord, TransformedRecord
from mirror_connect.kafka_io.records.record_parts import RecordParts, parts_of, rest_of
from mirror_connect.spark_jobs.compute.expressions import kind, nodes
from mirror_connect.spark_jobs.compute.lookup_joins import LookupJoin, table_type
from mirror_connect.spark_jobs.compute.records_table import ERROR, KEEP, PAD, ROW, VALUE, frame_type, rows_type
from mirror_connect.spark_jobs.compute.statement import SESSION, Statement, applied, read_statement, statement_session
from mirror_connect.spark_jobs.compute.statement_error import StatementError
from mirror_connect.spark_jobs.compute.statement_preview import preview_answer
from mirror_connect.spark_jobs.computing_query import SETTINGS
from mirror_connect.spark_jobs.executor_errors import statement_line
from mirror_connect.spark_jobs.query import map_in_arrow
from mirror_connect.spark_jobs.session import open_session

pytestmark = pytest.mark.spark

SCHEMA: Final = "id BIGINT, country STRING, email STRING, card STRING"
WHEN: Final = datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.UTC)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path_factory.mktemp("scratch")))
        opened = open_session(
            {
                "spark.master": "local[1]",
                "spark.sql.codegen.wholeStage": "true",
                "spark.sql.codegen.factoryMode": "FALLBACK",
            }
        )
        gateway = opened.sparkContext._gateway
        try:
            yield statement_session(opened)
        finally:
            opened.stop()
            with contextlib.suppress(OSError):
                gateway.proc.stdin.close()
            gateway.proc.wait(30)


@pytest.fixture(scope="module")
def interpreted(session: Any) -> Any:
    """The same without generated code, as it takes longer to compile than such a test."""
    new = statement_session(session)
    new.conf.set("spark.sql.codegen.wholeStage", "false")
    new.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    return new


def statement(session: Any, text: str, value_schema: str | None = None, secrets: Sequence[str] = ()) -> Statement:
    return read_statement(session, TransformSql(text, value_schema, None, tuple(secrets)))


def rows(session: Any, found: Statement, records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What becomes of records; a record has only what matters."""
    kinds = frame_type(found.columns, found.sql)
    values = [tuple({ROW: number, **each}.get(name) for name in kinds.names) for number, each in enumerate(records)]
    frame = session.createDataFrame(values, kinds)
    after = applied(found, frame)
    assert after.columns == [ROW, PAD, KEEP, ERROR, *found.changes]
    return [each.asDict() for each in after.collect()]


def changed(session: Any, text: str, value: bytes | None, **others: Any) -> Any:
    """The value of one record after the statement."""
    schema = others.pop("schema", None)
    [row] = rows(session, statement(session, text, schema), [{"value": value, **others}])
    assert (row[KEEP], row[ERROR]) == (True, None)
    return None if row[VALUE] is None else bytes(row[VALUE])


def test_a_statement_says_what_it_needs_and_what_it_changes(session: Any) -> None:
    found = statement(session, "select r.*, upper(R.topic) AS KEY from Records r where `offset` > 5")
    assert (found.columns, found.changes, found.filters) == (("topic", "offset"), ("key",), True)
    found = statement(session, "SELECT * FROM records")
    assert (found.columns, found.changes, found.filters) == ((), (), False)
    found = statement(
        session, "SELECT sha2(concat(secrets.salt, value.email), 256) AS key FROM records", SCHEMA, ["salt"]
    )
    assert (found.columns, found.changes, found.filters) == (("value", "secrets"), ("key",), False)


def test_what_is_not_changed_is_the_records_own(session: Any) -> None:
    found = statement(session, "SELECT key AS key, topic, value FROM records WHERE partition = 1")
    assert found.changes == ()
    after = rows(session, found, [{"partition": 1}, {"partition": 2}, {"partition": None}])
    assert [each[KEEP] for each in after] == [True, False, False]


def test_a_column_is_computed_only_for_rows_that_are_kept(session: Any) -> None:
    found = statement(session, "SELECT CAST(100 / partition AS STRING) AS key FROM records WHERE partition <> 0")
    after = rows(session, found, [{"partition": 0}, {"partition": 8}])
    assert [(each[KEEP], each[ERROR], each["key"]) for each in after] == [(False, None, None), (True, None, b"12.5")]


def test_an_error_is_the_records_and_names_nothing_of_it(session: Any) -> None:
    text = "SELECT CAST(CAST(key AS STRING) AS INT) = 1 AND raise_error('x') AS nothing FROM records"
    with pytest.raises(StatementError):
        statement(session, text)
    found = statement(
        session, "SELECT CAST(CAST(CAST(key AS STRING) AS INT) AS STRING) AS key FROM records WHERE 4 / partition > 0"
    )
    after = rows(
        session,
        found,
        [
            {"key": b"12", "partition": 1},
            {"key": b"geheim", "partition": 1},
            {"key": b"12", "partition": 0},
            {PAD: b"pad"},
        ],
    )
    assert [(each[KEEP], each[ERROR], each["key"]) for each in after] == [
        (True, None, b"12"),
        (False, "the statement's key raised an error", None),
        (False, "WHERE raised an error", None),
        (False, None, None),
    ]


MASKED: Final = """
SELECT named_struct(
         'id', value.id,
         'country', value.country,
         'email', sha2(concat(secrets.pepper, value.email), 256),
         'card', mask(left(value.card, length(value.card) - 4), '*', '*', '*', NULL) || right(value.card, 4)
       ) AS value
FROM records
WHERE value IS NULL OR value.country = 'EU'
"""


def test_customers_are_masked_and_filtered_and_tombstones_stay(session: Any) -> None:
    found = statement(session, MASKED, SCHEMA, ["pepper"])
    customer = {"id": 7, "country": "EU", "email": "a@example.org", "card": "4111111111111111", "other": "secret"}

    def record(value: object) -> dict[str, Any]:
        return {"value": value if value is None else json.dumps(value).encode(), "secrets": ("pepper",)}

    after = rows(
        session,
        found,
        [record(customer), record({**customer, "country": "US"}), record(None), record([customer]), record("EU")],
    )
    assert [(each[KEEP], each[ERROR]) for each in after] == [
        (True, None),
        (False, None),
        (True, None),
        *[(False, "value is no JSON object of spark.transform.value.schema")] * 2,
    ]
    assert json.loads(after[0]["value"]) == {
        "id": 7,
        "country": "EU",
        "email": hashlib.sha256(b"peppera@example.org").hexdigest(),
        "card": "************1111",
    }
    assert [each["value"] for each in after[1:]] == [None] * 4


def test_a_preview_shows_the_same_without_a_job(session: Any) -> None:
    customer = {"id": 7, "country": "EU", "email": "a@example.org", "card": "4111111111111111"}
    values = (json.dumps(customer).encode(), None, b"4111111111111111")
    sql = TransformSql(MASKED, SCHEMA, None, ("pepper",))
    asked = [
        AskedRecord(TopicPartition("t", 0), at, 0, rest_of(RecordParts(b"k", value))).to_json()
        for at, value in enumerate(values)
    ]
    answer = preview_answer(session, {"sql": sql.to_json(), "secrets": {"pepper": "pepper"}, "records": asked})
    masked, tombstone, bad = (TransformedRecord.from_json(each) for each in answer["records"])
    assert masked.rest is not None
    key, value, _ = parts_of(masked.rest)
    assert (key, json.loads(value or b"")["card"]) == (b"k", "************1111")
    assert tombstone.rest == rest_of(RecordParts(b"k", None))
    assert (bad.kept, bad.rest, "4111" in str(bad.error)) == (False, None, False)


VALUES: Final = {
    b'{"id": 1}': True,
    b' {"id": null, "more": [1]}\n': True,
    None: True,
    b'{"id": "x"}': False,
    b'{"id": 1': False,
    b'{"id": 1} x': False,
    b"": False,
    b"null": False,
    b'[{"id": 1}]': False,
    b'{"email": "\xff"}': False,
}


def test_a_value_that_is_no_json_of_its_schema_is_an_error(session: Any) -> None:
    found = statement(session, "SELECT * FROM records WHERE value IS NULL OR true", SCHEMA)
    after = rows(session, found, [{"value": each} for each in VALUES])
    assert {value: row[KEEP] for value, row in zip(VALUES, after, strict=True)} == VALUES
    assert [row[ERROR] is None for row in after] == list(VALUES.values())


def test_an_envelope_of_kafkas_json_converter_keeps_its_schema(session: Any) -> None:
    found = statement(
        session,
        """SELECT named_struct('schema', value.schema, 'payload', named_struct(
               'id', value.payload.id, 'email', sha2(value.payload.email, 256))) AS value FROM records""",
        "schema VARIANT, payload STRUCT<id: BIGINT, email: STRING>",
    )
    fields = [
        {"type": "int64", "optional": False, "field": "id"},
        {"type": "string", "optional": True, "field": "email"},
    ]
    schema = {"type": "struct", "fields": fields, "optional": False, "name": "customer"}
    before = {"schema": schema, "payload": {"id": 7, "email": "a@example.org"}}
    [row] = rows(session, found, [{"value": json.dumps(before).encode()}])
    masked = hashlib.sha256(b"a@example.org").hexdigest()
    assert json.loads(row["value"]) == {"schema": schema, "payload": {"id": 7, "email": masked}}


def test_columns_are_written_as_a_record_has_them(interpreted: Any) -> None:
    session = interpreted
    assert changed(session, "SELECT 'ü' AS value FROM records", b"x") == "ü".encode()
    assert changed(session, "SELECT 'x' AS value FROM records", None) is None
    assert changed(session, "SELECT NULL AS value FROM records", b"x") is None
    assert changed(session, "SELECT map('a', array(1)) AS value FROM records", b"x") == b'{"a":[1]}'
    found = statement(
        session,
        """SELECT array_append(headers, named_struct('key', 'from', 'value', CAST('eu' AS BINARY))) AS headers,
                  timestamp + INTERVAL 1 HOUR AS timestamp FROM records""",
    )
    [row] = rows(session, found, [{"headers": [("a", None)], "timestamp": WHEN}])
    assert [tuple(each) for each in row["headers"]] == [("a", None), ("from", b"eu")]
    assert row["timestamp"].astimezone(datetime.UTC) == WHEN + datetime.timedelta(hours=1)
    [row] = rows(session, statement(session, "SELECT NULL AS headers FROM records"), [{}])
    assert (row[ERROR], row["headers"]) == (None, [])
    for text in (
        "SELECT array(named_struct('key', CAST(NULL AS STRING), 'value', key)) AS headers FROM records",
        "SELECT TIMESTAMP '1969-01-01' AS timestamp FROM records",
        "SELECT CAST(NULL AS TIMESTAMP) AS timestamp FROM records",
    ):
        [row] = rows(session, statement(session, text), [{}])
        assert (row[KEEP], row[ERROR] is None) == (False, False)


REFUSED: Final = {
    "INSERT INTO x SELECT * FROM records": None,
    "SELECT key FROM records; SELECT 1": None,
    "SELECT key,\n FROM records": None,
    "SELECT 1 AS key": None,
    "SELECT * FROM others": 14,
    "SELECT * FROM a.records": 14,
    "WITH x AS (SELECT * FROM records) SELECT * FROM x": None,
    "SELECT * FROM (SELECT * FROM records)": None,
    "SELECT * FROM records ORDER BY offset": None,
    "SELECT * FROM records LIMIT 5": None,
    "SELECT DISTINCT * FROM records": None,
    "SELECT * FROM records UNION ALL SELECT * FROM records": None,
    "SELECT * FROM records a JOIN records b ON a.key = b.key": None,
    "SELECT * FROM records LEFT JOIN regions r ON r.id = key": 32,
    "SELECT * FROM records TABLESAMPLE (10 PERCENT)": None,
    "SELECT * FROM records LATERAL VIEW explode(headers) h AS x": None,
    "SELECT topic FROM records GROUP BY topic": None,
    "SELECT count(*) AS key FROM records": None,
    "SELECT max(key) AS key FROM records": 7,
    "SELECT explode(headers) AS headers FROM records": 7,
    "SELECT row_number() OVER (ORDER BY key) AS key FROM records": 7,
    "SELECT * FROM records WHERE key IN (SELECT 1)": None,
    "SELECT (SELECT 1) AS key FROM records": None,
    "SELECT upper(topic) FROM records": 7,
    "SELECT upper(topic) AS topic FROM records": 7,
    "SELECT 1 AS offset FROM records": 7,
    "SELECT 'a' AS colour FROM records": 7,
    "SELECT 'a' AS key, 'b' AS key FROM records": 19,
    "SELECT key, 'b' AS key FROM records": 12,
    "SELECT * EXCEPT (key) FROM records": 7,
    "SELECT struct(*) AS value FROM records": 14,
    "SELECT 1 AS key FROM records": 7,
    "SELECT value AS timestamp FROM records": 7,
    "SELECT array(1) AS headers FROM records": 7,
    "SELECT * FROM records WHERE offset": 28,
    "SELECT colour AS key FROM records": 7,
    "SELECT __row AS key FROM records": 7,
    "SELECT secrets.salt AS key FROM records": 7,
    "SELECT hmac(key, 'a') AS key FROM records": 7,
    "SELECT rand() AS key FROM records": 7,
    "SELECT concat(key,\n  uuid()) AS key FROM records": 21,
    "SELECT now() AS timestamp FROM records": 7,
    "SELECT CAST(unix_timestamp() AS STRING) AS key FROM records": 12,
    "SELECT CAST(current_date AS STRING) AS key FROM records": 12,
    "SELECT java_method('java.lang.System', 'exit', 1) AS key FROM records": 7,
    "SELECT reflect('java.util.UUID', 'randomUUID') AS key FROM records": 7,
    "SELECT monotonically_increasing_id() AS key FROM records": 7,
    "SELECT input_file_name() AS key FROM records": 7,
    "SELECT aes_encrypt(key, key) AS key FROM records": 7,
    "SELECT from_xml(CAST(value AS STRING), 'a STRING') AS value FROM records": 7,
    "SELECT xpath_string(CAST(value AS STRING), '/r') AS key FROM records": 7,
    "SELECT * FROM records WHERE system.builtin.XPath_Boolean(CAST(value AS STRING), 'a/b')": 28,
    "SELECT from_avro(value, '{}') AS value FROM records": 7,
    "SELECT from_protobuf(value, 'M', '/etc/passwd') AS value FROM records": 7,
    "SELECT from_json(topic, schema_of_json(concat('{\"a\":\"', repeat('x', 20), '\"}'))) AS value FROM records": 39,
    "SELECT from_csv(topic, repeat('a', 9)) AS value FROM records": 23,
    "SELECT to_json(headers, map('a', repeat('x', 9))) AS value FROM records": 33,
    "SELECT current_user() AS key FROM records": 7,
    "SELECT current_user AS key FROM records": 7,
    "SELECT upper(current_catalog()) AS key FROM records": 13,
    "SELECT version() AS key FROM records": 7,
    "SELECT current_path() AS key FROM records": 7,
    "SELECT IDENTIFIER('key') AS key FROM records": 7,
    "SELECT :x AS key FROM records": 7,
}


# What would be wrong with another name, column or table, too; and the word of the reason.
OF_MANY_RECORDS: Final = {
    "SELECT count(*) FROM records": "count is",
    "SELECT topic, COUNT(DISTINCT key) FROM records": "COUNT is",
    "SELECT sum(value.amount) AS total FROM records": "sum is",
    "SELECT max(nothing) AS value FROM others": "max is",
    "SELECT upper(CAST(collect_list(key) AS STRING)) FROM records": "collect_list is",
    "SELECT system.builtin.min(offset) FROM records": "min is",
    "SELECT * FROM records WHERE offset = max(offset)": "max is",
    "SELECT * FROM records r LEFT JOIN others o ON o.id = max(r.key)": "max is",
    "SELECT explode(headers) FROM records": "explode is",
    "SELECT inline(headers) AS (a, b) FROM records": "inline is",
    "SELECT row_number() OVER (ORDER BY offset) FROM records": "a window",
    "SELECT lag(key) AS before FROM records": "lag is",
    "SELECT sum(offset) OVER (PARTITION BY key) AS total FROM others": "a window",
    "SELECT (SELECT max(key) FROM records) FROM records": "a subquery",
    "SELECT key IN (SELECT 1) AS known FROM others": "a subquery",
    "SELECT rand() FROM records": "rand",
    "SELECT now() AS seen FROM records": "processed_at",
    "SELECT reflect('java.util.UUID', 'randomUUID') FROM records": "outside",
    "SELECT upper(nothing) FROM records": "nothing",
    "SELECT nothing FROM records": "nothing",
    "SELECT topic, count(*) FROM records GROUP BY topic": "GROUP BY",
    "SELECT count(*) FROM records HAVING count(*) > 1": "HAVING",
}


@pytest.mark.parametrize("text", OF_MANY_RECORDS)
def test_a_name_is_asked_for_only_where_it_helps(session: Any, text: str) -> None:
    with pytest.raises(StatementError) as refused:
        statement(session, text)
    line = refused.value.line(text)
    assert OF_MANY_RECORDS[text] in line
    assert "has no name" not in line
    assert "no column seen" not in line


def test_xml_reads_no_file_and_asks_no_host_while_a_statement_is_checked(session: Any, tmp_path: Path) -> None:
    """Spark computes constants when it analyses them. The file is a pipe: whoever opened it would wait for ever."""
    pipe = tmp_path / "schema.xsd"
    os.mkfifo(pipe)
    options = f"map('mode', 'FAILFAST', 'rowValidationXSDPath', '{pipe}')"
    with pytest.raises(StatementError) as refused:
        statement(
            session,
            f"SELECT from_xml('<r><a>1</a></r>', schema_of_xml('<r><a>1</a></r>', {options})) AS value FROM records",
        )
    assert "from_xml is not taken: it can read files and ask other hosts" in refused.value.problem
    # Were such a function forgotten, the JVM would refuse what a record names.
    dtd = tmp_path / "records.dtd"
    dtd.write_text("<!ENTITY g 'of the file'>", "utf-8")
    text = f"<!DOCTYPE r SYSTEM '{dtd.as_uri()}'><r>&g;</r>"
    path = session._jvm.org.apache.spark.sql.catalyst.expressions.xml.UDFXPathUtil()
    with pytest.raises(Py4JJavaError, match="access is not allowed"):
        path.evalString(text, "/r")


def test_a_record_that_overflows_the_stack_ends_its_query_and_not_the_jvm(session: Any) -> None:
    found = statement(session, "SELECT * FROM records WHERE CAST(value AS STRING) rlike '^(a|b)*$'")
    numbers = session.range(0, 1, 1, 1)
    # No constant: Spark would compute it in the driver.
    frame = numbers.selectExpr(
        "id AS __row",
        "CAST(NULL AS BINARY) AS __pad",
        "CAST(repeat('ab', CAST(id + 2000000 AS INT)) AS BINARY) AS value",
    )
    with pytest.raises(Py4JJavaError) as failed:
        # As a task's rows: all of it, and no row of it comes to the driver.
        applied(found, frame)._jdf.write().format("noop").mode("overwrite").save()
    line = statement_line(str(failed.value))
    assert line is not None
    assert line.startswith("Spark has not enough stack to apply the statement to a record (StackOverflowError)")
    [row] = rows(session, found, [{"value": b"abab"}])
    assert row[KEEP]


def test_options_and_schemas_of_functions_are_literals(session: Any) -> None:
    for text in (
        "SELECT from_json(CAST(value AS STRING), 'a INT', map('mode', 'FAILFAST')) AS value FROM records",
        "SELECT from_json(CAST(value AS STRING), schema_of_json('{\"a\": 1}')) AS value FROM records",
        "SELECT to_json(headers, map('ignoreNullFields', 'false')) AS value FROM records",
        "SELECT to_csv(named_struct('a', topic)) AS value FROM records",
    ):
        assert statement(session, text).changes == (VALUE,)


# The text, and what the line says.
ADVICE: Final = {
    "SELECT * FROM records WHERE": "WHERE has no condition",
    "SELECT * FROM records GROUP": "GROUP BY is not taken",
    "SELECT value FORM records": "FROM records is missing",
    "SELECT value.id, value.country FROM records": "named_struct",
    "SELECT value.id AS value, value.country AS value FROM records": "named_struct",
    "SELECT sha2(secrets.sugar, 256) AS key FROM records": "set spark.transform.secret.sugar",
    "SELECT upper(r.secrets.sugar) AS key FROM records r": "set spark.transform.secret.sugar",
    "SELECT * FROM records WHERE key.id = 1": "set spark.transform.key.schema",
    "SELECT * FROM records WHERE records.key.id = 1": "set spark.transform.key.schema",
    "SELECT * FROM records WHERE country = 'EU'": "did you mean value.country?",
    "SELECT * FROM records r WHERE upper(r.Country) = 'EU'": "did you mean value.Country?",
}


@pytest.mark.parametrize("secrets", [(), ("salt",)], ids=["no_secret", "another_secret"])
@pytest.mark.parametrize("text", ADVICE)
def test_a_line_says_what_to_write_or_to_set(session: Any, text: str, secrets: tuple[str, ...]) -> None:
    with pytest.raises(StatementError) as refused:
        statement(session, text, SCHEMA, secrets)
    assert ADVICE[text] in refused.value.line(text)


def test_names_with_and_without_the_tables_name_are_taken(session: Any) -> None:
    found = statement(
        session,
        """SELECT sha2(concat(secrets.Salt, r.secrets.salt, r.value.email), 256) AS key,
                  filter(r.headers, country -> country.key <> 'id') AS headers
           FROM records r WHERE r.value.country = 'EU' AND `value`.`id` > 1""",
        SCHEMA,
        ["salt"],
    )
    assert found.columns == ("value", "headers", "secrets")


@pytest.mark.parametrize("text", REFUSED, ids=[each.replace("\n", " ") for each in REFUSED])
def test_what_is_no_step_of_one_record_is_refused_with_its_place(session: Any, text: str) -> None:
    with pytest.raises(StatementError) as refused:
        statement(session, text)
    line = refused.value.line(text)
    assert "\n" not in line
    assert "JVM" not in line
    if REFUSED[text] is not None:
        assert refused.value.index == REFUSED[text], line


def test_a_schema_that_is_none_is_refused_by_its_setting(session: Any) -> None:
    for schema in ("id BIGINTEGER", "", "id", "id INT, ID STRING"):
        with pytest.raises(StatementError) as refused:
            statement(session, "SELECT value FROM records", schema)
        assert refused.value.setting == "spark.transform.value.schema"


def some_record(chance: random.Random) -> dict[str, Any]:
    number = chance.randrange(100)
    return {
        "partition": chance.choice((None, *range(-2, 3))),
        "key": chance.choice((None, b"", b"x", b"\xff", str(number).encode())),
        "value": chance.choice((None, b"", b"{", b'{"id": "a"}', b'{"id": %d}' % (number - 50))),
        PAD: chance.choice((None, None, None, b"", b"pad")),
    }


def test_each_row_is_there_once_and_in_order_and_what_is_not_kept_is_null(session: Any) -> None:
    chance = random.Random(18)
    records = [some_record(chance) for _ in range(3000)]
    for each in (
        statement(
            session,
            "SELECT CAST(CAST(CAST(key AS STRING) AS INT) AS STRING) AS key FROM records WHERE 6 % partition = 0",
        ),
        statement(
            session, "SELECT named_struct('n', value.id + 1) AS value FROM records WHERE value.id % 2 = 0", SCHEMA
        ),
    ):
        after = rows(session, each, records)
        assert [row[ROW] for row in after] == list(range(len(records)))
        assert [row[PAD] for row in after] == [record[PAD] for record in records]
        kept = [row for row in after if row[KEEP]]
        assert 0 < len(kept) < len(records)
        for row in after:
            if not row[KEEP]:
                assert [row[name] for name in each.changes] == [None]
            if row[PAD] is not None:
                assert (row[KEEP], row[ERROR]) == (False, None)
            assert not (row[KEEP] and row[ERROR])
        if each.changes == ("value",):
            assert all(json.loads(row[VALUE])["n"] % 2 for row in kept)
        else:
            assert [row["key"] for row in kept] == [records[row[ROW]]["key"] or None for row in kept]


@pytest.mark.parametrize("joins", [False, True], ids=["alone", "with_a_lookup"])
def test_one_flush_brings_a_single_record_through_both_python_processes(
    joins: bool, session: Any, tmp_path: Path
) -> None:
    """The feeder sends a record and the two rows of a flush, and nothing more before the task has the record.

    Spark hands on no batch that is not full. If a release of it needs more than these two rows, the record never comes.
    """
    own = session.newSession()
    for name, value in (SESSION | SETTINGS).items():
        own.conf.set(name, value)
    plain = "SELECT upper(CAST(value AS STRING)) AS value FROM records WHERE value <> 'no'"
    joined = "SELECT r.region AS value FROM records LEFT JOIN regions r ON r.id = CAST(value AS STRING)"
    found = looked_up(own, joined) if joins else statement(own, plain)
    columns, place, rounds = found.columns, str(tmp_path), 3

    def feeder(clock: Iterator[Any]) -> Iterator[Any]:
        import itertools  # noqa: PLC0415 — this runs in a process of Spark
        import time  # noqa: PLC0415
        from pathlib import Path  # noqa: PLC0415

        import pyarrow as pa  # noqa: PLC0415

        from mirror_connect.spark_jobs.compute.arrow_rows import Rows  # noqa: PLC0415

        for _ in clock:
            made = Rows(columns)
            yield made.samples
            for number in range(rounds):
                row = {"__row": [number], "value": [b"yes"], "__pad": [None]}
                yield pa.RecordBatch.from_pydict(row, schema=made.schema)
                yield made.pads
                for waited in itertools.count():
                    if Path(place, str(number)).exists():
                        break
                    if waited > 6000:
                        raise TimeoutError(f"record {number} did not come")
                    time.sleep(0.01)

    def task(batches: Iterator[Any]) -> Iterator[Any]:
        from pathlib import Path  # noqa: PLC0415

        for batch in batches:
            for row in batch.to_pylist():
                if row["__row"] is not None:
                    Path(place, str(row["__row"])).write_text(f"{row['__keep']} {row['value']}")
        yield from ()

    def lookup(clock: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa  # noqa: PLC0415

        for _ in clock:
            number = pa.array([1], pa.int32())
            yield pa.RecordBatch.from_arrays([pa.array(["yes"]), pa.array(["YES"]), number], ["id", "region", "number"])

    def table(join: LookupJoin) -> Any:
        return map_in_arrow(own.range(0, 1, 1, 1), lookup, table_type(found.sql, join))

    fed = map_in_arrow(own.range(0, 1, 1, 1), feeder, rows_type(found.columns, found.sql))
    map_in_arrow(applied(found, fed, table), task).write.format("noop").mode("overwrite").save()
    assert [Path(place, str(number)).read_text() for number in range(rounds)] == ["True b'YES'"] * rounds


REGIONS: Final = Lookup("regions", "id STRING, region STRING, number INT")
JOINED: Final = "SELECT concat(CAST(key AS STRING), '-', r.region) AS key FROM records LEFT JOIN regions r ON r.id = "


def looked_up(session: Any, text: str, *lookups: Lookup, schema: str | None = None) -> Statement:
    return read_statement(session, TransformSql(text, schema, lookups=lookups or (REGIONS,)))


def plan_of(frame: Any) -> list[str]:
    """The kinds of the executed plan's steps, from above."""
    return [kind(node) for node in nodes(frame._jdf.queryExecution().executedPlan())]


def lookup_rows(session: Any, found: Statement, records: Sequence[dict[str, Any]], rows_of: Any) -> tuple[Any, Any]:
    """What becomes of records, and the frame. `rows_of`: of each lookup, by its name."""
    kinds = frame_type(found.columns, found.sql)
    values = [tuple({ROW: number, **each}.get(name) for name in kinds.names) for number, each in enumerate(records)]

    def frame(of_rows: Any, schema: Any) -> Any:
        # An RDD: rows that Spark knows, it would join while it plans.
        return session.createDataFrame(session.sparkContext.parallelize(of_rows, 1), schema)

    after = applied(found, frame(values, kinds), lambda join: frame(rows_of[join.name], table_type(found.sql, join)))
    return [each.asDict() for each in after.collect()], after


def test_a_lookup_gives_each_record_its_row_or_none(session: Any) -> None:
    found = looked_up(session, JOINED + "value.country", schema=SCHEMA)
    assert (found.columns, found.changes) == (("key", "value"), ("key",))
    assert found.lookups == (LookupJoin("regions", "r", ("id",), ("STRING",)),)
    values = [b'{"country": "DE"}', b'{"country": "FR"}', b'{"country": "??"}', b"{}", None, b"["]
    after, _ = lookup_rows(
        session,
        found,
        [*({"key": b"k", "value": each} for each in values), {PAD: b"pad"}],
        {"regions": [("DE", "EU", 1), ("FR", None, 2)]},
    )
    assert [(each[KEEP], each["key"]) for each in after] == [
        (True, b"k-EU"),
        *[(True, None)] * 4,
        *[(False, None)] * 2,
    ]
    assert after[5][ERROR] == "value is no JSON object of spark.transform.value.schema"


def test_a_record_that_finds_no_row_can_be_left_out(session: Any) -> None:
    found = looked_up(
        session, "SELECT * FROM records x LEFT JOIN regions ON regions.number = partition WHERE regions.id <> 'b'"
    )
    assert (found.columns, found.changes, found.filters) == (("partition",), (), True)
    after, _ = lookup_rows(
        session,
        found,
        [{"partition": each} for each in (1, 2, 3, None)],
        {"regions": [("a", None, 1), ("b", None, 2)]},
    )
    assert [(each[KEEP], each[ERROR]) for each in after] == [(True, None), *[(False, None)] * 3]


def test_two_lookups_are_joined_by_several_columns_in_one_stage_and_the_order_stays(session: Any) -> None:
    prices = Lookup("prices", "product BIGINT, day INT, price DECIMAL(10,2)")
    found = looked_up(
        session,
        """SELECT concat_ws('/', r.region, CAST(p.price AS STRING), s.region) AS key FROM records
           LEFT JOIN regions r ON r.id = CAST(key AS STRING) AND r.number = partition % 2
           LEFT JOIN prices AS p ON offset % 7 = p.product AND p.day = partition
           LEFT JOIN regions s ON s.number = CAST(CAST(value AS STRING) AS INT)""",
        REGIONS,
        prices,
    )
    assert found.lookups == (
        LookupJoin("regions", "r", ("id", "number"), ("STRING", "INT")),
        LookupJoin("prices", "p", ("product", "day"), ("BIGINT", "INT")),
        LookupJoin("regions", "s", ("number",), ("INT",)),
    )
    chance = random.Random(18)
    records = [
        {
            "key": chance.choice((None, b"a", b"b", b"\xff")),
            "partition": chance.choice((None, 0, 1)),
            "offset": chance.randrange(1000),
            "value": chance.choice((None, b"0", b"1", b"x")),
            PAD: chance.choice((None, None, None, b"pad")),
        }
        for _ in range(5000)
    ]
    regions = [("a", "A0", 0), ("b", "B1", 1)]
    cents = [(product, day, f"{product}.{day}0") for product in range(6) for day in range(2)]
    after, frame = lookup_rows(
        session, found, records, {"regions": regions, "prices": [(*each[:2], Decimal(each[2])) for each in cents]}
    )
    kinds = plan_of(frame)
    assert [each for each in kinds if "Join" in each] == ["BroadcastHashJoinExec"] * 3
    assert {each for each in kinds if "Exchange" in each or "Sort" in each} == {"BroadcastExchangeExec"}
    assert [row[ROW] for row in after] == list(range(len(records)))
    by_id = {(each[0].encode(), each[2]): each[1] for each in regions}
    by_number = {b"%d" % each[2]: each[1] for each in regions}
    by_product = {each[:2]: each[2] for each in cents}
    for record, row in zip(records, after, strict=True):
        if record[PAD] is not None or record["value"] == b"x":
            assert not row[KEEP]
            failed = None if record[PAD] is not None else "the condition of the join with s raised an error"
            assert row[ERROR] == failed
            continue
        wanted = (
            by_id.get((record["key"], record["partition"])),
            by_product.get((record["offset"] % 7, record["partition"])),
            by_number.get(record["value"]),
        )
        assert row["key"] == "/".join(each for each in wanted if each is not None).encode()


REFUSED_JOINS: Final = {
    "JOIN regions r ON r.id = topic": "an inner JOIN",
    "RIGHT JOIN regions r ON r.id = topic": "RIGHT OUTER JOIN",
    "FULL JOIN regions r ON r.id = topic": "FULL OUTER JOIN",
    "LEFT SEMI JOIN regions r ON r.id = topic": "LEFT SEMI JOIN",
    "LEFT ANTI JOIN regions r ON r.id = topic": "LEFT ANTI JOIN",
    "CROSS JOIN regions r": "a cross join",
    ", regions r": "an inner JOIN",
    "LEFT JOIN regions USING (id)": "USING",
    "NATURAL LEFT JOIN regions": "a natural join",
    "LEFT JOIN regions r": "ON is missing",
    "LEFT JOIN colours r ON r.id = topic": "there is no lookup colours",
    "LEFT JOIN records r ON r.key = topic": "there is no lookup records",
    "LEFT JOIN (SELECT 1 AS id) r ON r.id = topic": "can't be joined",
    "LEFT JOIN regions value ON value.id = topic": "the name value",
    "LEFT JOIN regions r ON r.id = topic LEFT JOIN regions r ON r.id = topic": "two lookups",
    "LEFT JOIN regions r ON r.id > topic": "ON has r.column",
    "LEFT JOIN regions r ON r.id = topic OR r.region = topic": "ON has r.column",
    "LEFT JOIN regions r ON upper(r.id) = topic": "one side of =",
    "LEFT JOIN regions r ON r.id = r.region": "one side of =",
    "LEFT JOIN regions r ON id = topic": "one side of =",
    "LEFT JOIN regions r ON key = topic": "one side of =",
    "LEFT JOIN regions r ON r.id = concat(topic, r.region)": "columns of records alone",
    "LEFT JOIN regions r ON r.id = topic LEFT JOIN regions s ON s.id = r.region": "columns of records alone",
    "LEFT JOIN regions r ON r.colour = topic": "r.colour is no column",
    "LEFT JOIN regions r ON r.id = partition": "CAST(… AS STRING)",
    "LEFT JOIN regions r ON r.number = CAST(partition AS DECIMAL(20,2))": "CAST(… AS INT)",
    "LEFT JOIN regions r ON r.id = topic AND r.id = key": "compared",
    "LEFT JOIN regions r ON r.id = uuid()": "uuid",
    "LEFT JOIN regions r ON r.id = colour": "colour",
    "LEFT JOIN regions r ON r.id = topic ORDER BY r.id": "ORDER BY",
}


@pytest.mark.parametrize("join", REFUSED_JOINS)
def test_a_join_that_is_none_with_one_row_of_a_lookup_is_refused(session: Any, join: str) -> None:
    text = f"SELECT * FROM records {join}"
    with pytest.raises(StatementError) as refused:
        looked_up(session, text)
    line = refused.value.line(text)
    assert REFUSED_JOINS[join] in line
    assert "\n" not in line
    for text in (
        "SELECT r.* FROM records LEFT JOIN regions r ON r.id = topic",
        "SELECT r.id FROM records LEFT JOIN regions r ON r.id = topic",
    ):
        with pytest.raises(StatementError):
            looked_up(session, text)
