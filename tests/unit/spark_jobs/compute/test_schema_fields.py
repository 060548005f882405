"""The first field of a schema whose type is none has its name in the line, also deep inside."""

from __future__ import annotations

import pytest

from mirror_connect.spark_jobs.compute.schema_fields import fields_of, wrong_field

_KNOWN = {"INT", "BIGINT", "STRING", "DECIMAL(10, 2)", "STRUCT<>"}


@pytest.mark.parametrize(
    ("ddl", "line"),
    [
        ("id BIGINTEGER", "field id has type BIGINTEGER, which Spark does not have: did you mean INTEGER?"),
        ("id INT, a DECIMAL(10, 2) NOT NULL, name STRNG COMMENT 'a, b'", "field name has type STRNG,"),
        ("id INT, name", "field name has no type: write a name and a type, as name STRING"),
        (
            "id INT, a STRUCT<b: STRUCT<c: STRING, `d e`: NUMBRE>>, z ZZZ",
            "field a.d e has type NUMBRE".replace("a.", "a.b."),
        ),
        ("tags ARRAY<STRIN>, more MAP<STRING, ARRAY<INTT>>", "field tags has type STRIN,"),
        ("more MAP<STRING, ARRAY<INTT>>", "field more has type INTT,"),
        ("at XYZ", "field at has type XYZ, which Spark does not have: types are STRING, BOOLEAN,"),
    ],
)
def test_the_first_wrong_field_is_named(ddl: str, line: str) -> None:
    found = wrong_field(ddl, lambda text: text in _KNOWN)
    assert found is not None
    assert found.startswith(line)


@pytest.mark.parametrize(
    "ddl", ["id INT, name STRING", "id INT name STRING", "", "a STRUCT<b INT, c: STRING>, d STRUCT<>", "a INT,"]
)
def test_where_each_type_is_one_no_field_is_blamed(ddl: str) -> None:
    assert wrong_field(ddl, lambda text: text in _KNOWN) is None


def test_fields_keep_their_case_and_their_types_as_written() -> None:
    found = dict(fields_of("`my ``id` bigint, Tags Array<Struct<k: string>> NOT NULL"))
    assert [(name, each.text, each.kind) for name, each in found.items()] == [
        ("my `id", "bigint", "BIGINT"),
        ("Tags", "Array<Struct<k: string>>", "ARRAY"),
    ]
