"""What a connector's config says of the tables that its statement may join."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.config.table import LOW, STRING, ConfigTable, Key, ValidatedKey
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.lookups import (
    LOOKUP,
    MOST_LOOKUPS,
    REFRESH,
    Column,
    Format,
    Lookup,
    Type,
    WrongLookupError,
    columns_of,
    format_of,
    lookups_of,
    problems_of,
)
from mirror_connect.connectors.mirror.transform_sql import SQL, TransformSql, check_sql, transform_sql_of

REGIONS = {f"{LOOKUP}regions": "/etc/regions.csv", f"{LOOKUP}regions.schema": "id STRING, n INT"}
CUSTOMERS = {f"{LOOKUP}customers": "source.customers.v1", f"{LOOKUP}customers.schema": "name STRING"}
TEXT = "SELECT * FROM records"


def test_a_config_has_its_lookups_by_their_names() -> None:
    config = {SQL: TEXT, REFRESH: "5", **REGIONS, **CUSTOMERS}
    regions = Lookup("regions", "id STRING, n INT", "/etc/regions.csv")
    customers = Lookup("customers", "name STRING", "source.customers.v1")
    assert problems_of(config) == {}
    assert lookups_of(config) == (customers, regions)
    found = transform_sql_of(config)
    assert found is not None
    assert [each.location for each in found.lookups] == ["source.customers.v1", "/etc/regions.csv"]


def test_the_driver_knows_columns_alone_and_a_topic_has_its_keys() -> None:
    found = transform_sql_of({SQL: TEXT, **REGIONS, **CUSTOMERS})
    assert found is not None
    told = found.to_json()
    assert told["lookups"] == [
        {"name": "customers", "columns": "name STRING, key STRING"},
        {"name": "regions", "columns": "id STRING, n INT"},
    ]
    again = TransformSql.from_json(told)
    assert again.to_json() == told
    assert [each.location for each in again.lookups] == ["", ""]
    assert again.lookups[0].columns == (Column("name", Type.STRING), Column("key", Type.STRING))


def test_a_fields_own_key_takes_the_place_of_the_records_key() -> None:
    assert columns_of("KEY INT, n INT", key=True) == (Column("KEY", Type.INT), Column("n", Type.INT))


def test_columns_have_types_of_spark() -> None:
    found = columns_of(" a  bigint,b Integer, c DECIMAL( 10 , 2 ),d date, e timestamp, f boolean, g double,h long")
    assert [each.ddl for each in found] == [
        *("BIGINT", "INT", "DECIMAL(10,2)", "DATE", "TIMESTAMP", "BOOLEAN", "DOUBLE", "BIGINT")
    ]


@pytest.mark.parametrize(
    "schema",
    [
        "id",
        "id STRING,",
        "id STRUCT<a: INT>",
        "id ARRAY<INT>",
        "id BINARY",
        "id INT, ID INT",
        "id DECIMAL",
        "id DECIMAL(39,2)",
        "id DECIMAL(2,3)",
        "id INT(2,3)",
        "1d INT",
        "`id` INT",
        "id INT NOT NULL",
        "id DECIMAL(" + "1" * 5_000 + ",2)",
        "id DECIMAL(١,0)",
        # An hour each, with the square of the length.
        "id INT" + " " * 1_000_000 + "!",
        "," * 1_000_000,
        ",".join(f"c{number} INT" for number in range(200_000)) + ", c0 INT",
    ],
    ids=lambda schema: schema[:20],
)
@pytest.mark.timeout(120)
def test_a_schema_that_is_none_is_refused(schema: str) -> None:
    with pytest.raises(WrongLookupError):
        columns_of(schema)


@pytest.mark.timeout(120)
def test_a_request_full_of_lookups_is_refused_in_one_pass() -> None:
    config: dict[str, str | None] = {SQL: TEXT}
    for number in range(100_000):
        config |= {f"{LOOKUP}l{number}": "/a.csv", f"{LOOKUP}l{number}.schema": "id INT"}
    assert f"{LOOKUP}l99999" in problems_of(config)


@pytest.mark.parametrize(
    ("location", "kind"),
    [
        ("/a/b.csv", Format.CSV),
        ("/a/b.jsonl", Format.JSON_LINES),
        ("/a/b.parquet", Format.PARQUET),
        ("source.a.b", Format.TOPIC),
        ("target.x", Format.TOPIC),
        ("/a/b.txt", None),
        ("b.csv", None),
        ("source.", None),
        ("source.a b", None),
        ("target.a/../c\0", None),
        ("source." + "a" * 250, None),
        ("s3://a/b.csv", None),
        ("", None),
    ],
)
def test_a_location_is_a_path_or_a_topic(location: str, kind: Format | None) -> None:
    if kind is not None:
        assert format_of(location) is kind
        return
    with pytest.raises(WrongLookupError):
        format_of(location)


def checked(config: dict[str, str | None], written: dict[str, str | None] | None = None) -> dict[str, ValidatedKey]:
    table = ConfigTable(Key(SQL, STRING, None, LOW, ""))
    results = {name: each for name, each in table.validate_all(config, written).items() if name in config}
    check_sql(results, config, written or config, {})
    return results


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        ({**REGIONS}, [f"{LOOKUP}regions", f"{LOOKUP}regions.schema"]),
        ({SQL: TEXT, f"{LOOKUP}regions": "/a.csv"}, [f"{LOOKUP}regions"]),
        ({SQL: TEXT, f"{LOOKUP}regions.schema": "id INT"}, [f"{LOOKUP}regions.schema"]),
        ({SQL: TEXT, **REGIONS, f"{LOOKUP}regions": "regions"}, [f"{LOOKUP}regions"]),
        ({SQL: TEXT, **REGIONS, f"{LOOKUP}regions.schema": "id MAP"}, [f"{LOOKUP}regions.schema"]),
        ({SQL: TEXT, f"{LOOKUP}a-b": "/a.csv", f"{LOOKUP}a-b.schema": "id INT"}, [f"{LOOKUP}a-b"]),
        (
            {SQL: TEXT, **REGIONS, f"{LOOKUP}Regions": "/a.csv", f"{LOOKUP}Regions.schema": "id INT"},
            [f"{LOOKUP}Regions", f"{LOOKUP}regions"],
        ),
        ({SQL: TEXT, **CUSTOMERS, f"{LOOKUP}customers": "target.c"}, [f"{LOOKUP}customers"]),
        (
            {SQL: TEXT, **{f"{LOOKUP}l{n}{end}": value for n in range(MOST_LOOKUPS + 1)
                           for end, value in (("", "/a.csv"), (".schema", "id INT"))}},
            [f"{LOOKUP}l9"],
        ),
    ],
    ids=["no_statement", "no_schema", "no_location", "relative", "type", "name", "twice", "no_target", "many"],
)  # fmt: skip
def test_what_is_wrong_is_refused_by_its_setting(config: dict[str, str | None], wrong: list[str]) -> None:
    found = {name for name, each in checked(config).items() if each.errors}
    assert found == set(wrong)
    if SQL in config:
        with pytest.raises(ConfigError):
            transform_sql_of(config)


def test_each_setting_is_shown_and_a_schema_comes_from_no_config_provider() -> None:
    written: dict[str, str | None] = {
        SQL: TEXT,
        f"{LOOKUP}regions": "${file:/a:path}",
        f"{LOOKUP}regions.schema": "${file:/a:schema}",
    }
    found = checked({SQL: TEXT, **REGIONS}, written)
    assert found[f"{LOOKUP}regions"].value == "${file:/a:path}"
    assert found[f"{LOOKUP}regions"].errors == []
    assert len(found[f"{LOOKUP}regions.schema"].errors) == 1
    for name in REGIONS:
        key = found[name].key
        assert key is not None
        assert key.type == STRING
