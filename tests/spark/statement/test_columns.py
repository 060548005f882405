"""A connector's SQL as Spark applies it: what changes, what is masked or left out, and what is an error of its record."""

from __future__ import annotations

import datetime
import hashlib
import json
from typing import Any, Final

import pytest

from mirror_connect.connectors.mirror.transform_sql import TransformSql
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.records.asked_records import AskedRecord, TransformedRecord
from mirror_connect.kafka_io.records.record_parts import RecordParts, parts_of, rest_of
from mirror_connect.spark_jobs.compute.records_table import ERROR, KEEP, NO_OBJECT, PAD
from mirror_connect.spark_jobs.compute.statement_answers import statement_answer
from mirror_connect.spark_jobs.compute.statement_error import StatementError
from mirror_connect.spark_jobs.compute.statement_preview import preview_answer
from tests.spark.statement.statements import SCHEMA, changed, rows, statement

pytestmark = pytest.mark.spark

# As deep as a schema may be.
DEEP: Final = 48
WHEN: Final = datetime.datetime(2026, 11, 26, 12, tzinfo=datetime.UTC)


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
        *[(False, NO_OBJECT["value"])] * 2,
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
    line = "value is no JSON object of spark.transform.value.schema: it is a whole number"
    assert (bad.kept, bad.rest, bad.error) == (False, None, line)


# What Spark refuses of a single field, with the type that the schema has.
WRONG: Final = {
    b'{"id": "geheim"}': "id BIGINT",
    b'{"id": 1.5}': "id INT",
    b'{"id": 1.0}': "id BIGINT",
    b'{"id": 300}': "id TINYINT",
    b'{"id": true}': "id DOUBLE",
    b'{"id": "geheim"}\n': "id DECIMAL(10, 2)",
    b'{"id": 1}': "id BOOLEAN",
    b'{"id": "geheim "}': "id DATE",
    b'{"id": "geheim", "a": 1}': "id TIMESTAMP, a INT",
    b'{"id": {"a": "geheim"}}': "id STRUCT<a: INT>",
    b'{"id": ["geheim"]}': "id ARRAY<BIGINT>",
    b'{"id": {"geheim": "x"}}': "id MAP<STRING, BIGINT>",
    b'{"id": []}': "id STRUCT<a: INT>",
}


@pytest.mark.parametrize("value", WRONG)
def test_a_record_that_does_not_fit_names_its_field_and_both_types(session: Any, value: bytes) -> None:
    sql = TransformSql("SELECT to_json(value) AS key FROM records", WRONG[value], None)
    asked = AskedRecord(TopicPartition("t", 0), 1, 0, rest_of(RecordParts(b"k", value))).to_json()
    [answer] = preview_answer(session, {"sql": sql.to_json(), "secrets": {}, "records": [asked]})["records"]
    error = str(TransformedRecord.from_json(answer).error)
    assert error.startswith("value is no JSON object of spark.transform.value.schema: its field id")
    assert "geheim" not in error


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        ("id BIGINTEGER", "field id has type BIGINTEGER, which Spark does not have: did you mean INTEGER?"),
        (
            "id INT, a STRUCT<b: ARRAY<STRNG>>",
            "field a.b has type STRNG, which Spark does not have: did you mean STRING?",
        ),
        ("id INT, name", "field name has no type: write a name and a type, as name STRING"),
        (
            "a DECIMAL(50, 2), id INT",
            "field a has type DECIMAL(50, 2), which Spark does not have: did you mean DECIMAL(10,2)?",
        ),
    ],
)
def test_a_wrong_schema_names_its_field(session: Any, schema: str, line: str) -> None:
    with pytest.raises(StatementError) as refused:
        statement(session, "SELECT value FROM records", schema)
    assert (refused.value.setting, refused.value.problem) == ("spark.transform.value.schema", line)


@pytest.mark.parametrize(
    ("schema", "begin"),
    [
        ("id INT, a CHAR(3)", "field a has type CHAR(3), which Spark reads from no JSON: "),
        ("a STRUCT<b: ARRAY<TIME>>", "field a.b has type TIME, which Spark reads from no JSON: "),
        ("a MAP<INT, STRING>", "[DATATYPE_MISMATCH.INVALID_JSON_MAP_KEY_TYPE] "),
    ],
)
def test_a_schema_by_which_spark_reads_no_json_is_refused(session: Any, schema: str, begin: str) -> None:
    with pytest.raises(StatementError) as refused:
        statement(session, "SELECT value FROM records", schema)
    assert refused.value.setting == "spark.transform.value.schema"
    assert refused.value.problem.startswith(begin)


@pytest.mark.timeout(200)
@pytest.mark.parametrize("outer", ["ARRAY<", "MAP<STRING, "])
def test_each_type_in_a_deep_schema_is_looked_at_once(session: Any, outer: str) -> None:
    # Years, if each level looks twice at all below it.
    deep = f"a {outer * DEEP}STRING{'>' * DEEP}"
    answer = statement_answer(session, TransformSql("SELECT to_json(value) AS value FROM records", deep).to_json())
    assert answer.get("changes") == ["value"]


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


def kept(session: Any, schema: str, values: dict[bytes, bool]) -> None:
    found = statement(session, "SELECT * FROM records WHERE value IS NULL OR true", schema)
    after = rows(session, found, [{"value": each} for each in values])
    assert {value: row[KEEP] for value, row in zip(values, after, strict=True)} == values
    assert {row[ERROR] for row in after} <= {None, NO_OBJECT["value"]}


def test_no_field_leaves_within_a_string(session: Any) -> None:
    schema = "s STRING, o STRUCT<s: STRING, n: INT>, a ARRAY<STRING>, m MAP<STRING, STRUCT<s: STRING>>, v VARIANT"
    bad = (b'{"x": 1, "card": "4111"}', b'["4111"]', b"{}", b"[]", b'{"a": 1, "a": 2}')
    good = (b'"{\\"x\\": 1}"', b'"[1]"', b'"{"', b'" {"', b'""', b"null", b"1", b"true")
    places = (b'{"s": %s}', b'{"o": {"n": 1, "s": %s}}', b'{"a": ["x", %s, "{"]}', b'{"m": {"x": {"s": %s}}, "s": "{"}')
    values = {place % each: each in good for place in places for each in (*bad, *good)}
    kept(
        session, schema, {**values, b'{"v": {"x": [1]}, "other": {}, "s": "["}': True, b"{}": True, b'{"o": 1}': False}
    )


def test_a_name_is_taken_once_in_a_struct_however_deep(session: Any) -> None:
    for schema in ("x INT, X INT", "o ARRAY<STRUCT<x: INT, X: INT>>", "m MAP<STRING, STRUCT<x: INT, X: INT>>"):
        with pytest.raises(StatementError, match="two fields have the name x"):
            statement(session, "SELECT * FROM records", schema)


def test_numbers_and_times_that_would_become_others_are_errors(session: Any) -> None:
    numbers = {b'{"d": %s}' % each: False for each in (b"NaN", b'"NaN"', b"Infinity", b"-INF", b'"Infinity"', b"1e400")}
    numbers |= {b'{"f": 1e39}': False, b'{"f": 1e38, "d": 1e308, "a": [1, null]}': True, b'{"a": [1, -1e400]}': False}
    kept(session, "d DOUBLE, f FLOAT, a ARRAY<DOUBLE>", numbers)
    times = {
        b'{"t": 1764201600}': True,
        b'{"t": 1764201600000}': False,
        b'{"t": 10000000000000}': False,
        b'{"t": "9999-12-31T23:59:59.999999Z", "d": "9999-12-31"}': True,
        b'{"t": "0001-01-01T00:00:00Z", "d": "0001-01-01"}': True,
        b'{"d": "12345"}': False,
        b'{"d": "20261126"}': False,
        b'{"n": "+10000-01-01T00:00:00"}': False,
    }
    kept(session, "t TIMESTAMP, d DATE, n TIMESTAMP_NTZ", times)


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
