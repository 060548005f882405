"""The line of a record that does not fit its schema names the field and both types, and nothing of the record."""

from __future__ import annotations

import pytest

from mirror_connect.spark_jobs.compute.json_faults import fault_line

SCHEMA = "id BIGINT, small TINYINT, price DECIMAL(10,2), rate DOUBLE, at TIMESTAMP, paid BOOLEAN, tags ARRAY<INT>, "
SCHEMA += "address STRUCT<zip: INT, city: STRING>, more MAP<STRING, BIGINT>, name STRING"
BARE = "value is no JSON object of spark.transform.value.schema"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b'{"id": "geheim"}', "its field id is a text, where the schema has BIGINT"),
        (b'{"id": 1.5}', "its field id is a number with a fraction, where the schema has BIGINT"),
        (b'{"id": true}', "its field id is true or false, where the schema has BIGINT"),
        (b'{"id": [1]}', "its field id is a list, where the schema has BIGINT"),
        (b'{"small": 200}', "its field small is a number that is too large, where the schema has TINYINT"),
        (b'{"price": "geheim"}', "its field price is a text, where the schema has DECIMAL(10,2)"),
        (b'{"rate": "geheim"}', "its field rate is a text, where the schema has DOUBLE"),
        (b'{"paid": 1}', "its field paid is a whole number, where the schema has BOOLEAN"),
        (b'{"tags": 1}', "its field tags is a whole number, where the schema has ARRAY"),
        (b'{"tags": [1, "geheim"]}', "its field tags[] is a text, where the schema has INT"),
        (b'{"address": {"city": "x", "zip": "geheim"}}', "its field address.zip is a text, where the schema has INT"),
        (b'{"address": "geheim"}', "its field address is a text, where the schema has STRUCT"),
        (b'{"more": {"geheim": "x"}}', "its field more[] is a text, where the schema has BIGINT"),
        (b'{"at": "geheim"}', "its field at is a text that Spark does not read as TIMESTAMP"),
        (b'{"at": "2026-01-01", "id": "x"}', "its field id is a text, where the schema has BIGINT"),
        (b'{"rate": "NaN"}', "its field rate is a text, where the schema has DOUBLE"),
        (b'{"rate": 1e400}', "its field rate is a number that is too large, where the schema has DOUBLE"),
        (
            b'{"rate": ' + b"9" * 5_000 + b"}",
            "its field rate is a number that is too large, where the schema has DOUBLE",
        ),
        (b'{"id": -' + b"9" * 5_000 + b"}", "its field id is a number that is too large, where the schema has BIGINT"),
        (b'{"rate": NaN}', "it is no JSON"),
        (b'{"at": 1764201600000}', "its field at is a number that is too large, where the schema has TIMESTAMP"),
        (b'{"name": {"x": "geheim"}}', "its field name is an object, where the schema has STRING"),
        (b'{"address": {"city": ["geheim"]}}', "its field address.city is a list, where the schema has STRING"),
        (b'["geheim"]', "it is a list"),
        (b'"geheim"', "it is a text"),
        (b"null", "it is null"),
        (b"", "it is empty"),
        (b"geheim", "it is no JSON"),
        (b"4111 geheim", "it is no JSON"),
        (b"[" * 100_000, "it is no JSON"),
        (b'{"id": 1} {"id": 2}', "something follows the object"),
        (b'{"name": "\xff"}', "it is not UTF-8"),
    ],
)
def test_the_field_and_both_types_are_named_and_nothing_of_the_record(value: bytes, reason: str) -> None:
    assert fault_line("value", value, SCHEMA) == f"{BARE}: {reason}"


@pytest.mark.parametrize(
    "value",
    [b'{"id": 1, "name": 1, "rate": 1e308, "at": 1, "tags": [null], "address": null}', b'{"at": "x", "price": "1"}'],
)
def test_what_is_not_surely_wrong_is_not_blamed(value: bytes) -> None:
    assert fault_line("value", value, SCHEMA) == BARE


def test_the_schema_is_named_by_its_setting() -> None:
    assert (
        fault_line("key", b"1", "id INT") == "key is no JSON object of spark.transform.key.schema: it is a whole number"
    )
