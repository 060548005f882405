"""What a connector's config says of its statement, before Spark is asked."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.config.table import LOW, STRING, ConfigTable, Key, ValidatedKey
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.mirror_source import MirrorSource
from mirror_connect.connectors.mirror.sql_limits import MOST_CHARACTERS
from mirror_connect.connectors.mirror.transform_sql import (
    KEY_SCHEMA,
    MOST_SECRETS,
    SECRET,
    SQL,
    VALUE_SCHEMA,
    TransformSql,
    check_sql,
    transform_sql_of,
)
from mirror_connect.connectors.secrets import HIDDEN, is_secret

TEXT = "SELECT * FROM records"
TABLE = ConfigTable(*(Key(name, STRING, None, LOW, "") for name in (SQL, VALUE_SCHEMA, KEY_SCHEMA)))


def checked(config: dict[str, str | None], written: dict[str, str | None] | None = None) -> dict[str, ValidatedKey]:
    results = {name: each for name, each in TABLE.validate_all(config, written).items() if name in config}
    check_sql(results, config, written or config, {})
    return results


def errors(config: dict[str, str | None], written: dict[str, str | None] | None = None) -> dict[str, list[str]]:
    return {name: each.errors for name, each in checked(config, written).items() if each.errors}


def test_a_config_without_a_statement_has_none() -> None:
    assert transform_sql_of({"topics": "a"}) is None
    assert errors({"topics": "a"}) == {}


def test_a_statement_has_its_schemas_and_secrets() -> None:
    config = {SQL: TEXT, VALUE_SCHEMA: "id INT", KEY_SCHEMA: "k INT", f"{SECRET}b": "two", f"{SECRET}A": "one"}
    assert errors(dict(config)) == {}
    found = transform_sql_of(config)
    assert found == TransformSql(TEXT, "id INT", "k INT", ("A", "b"), {"A": "one", "b": "two"})


def test_nothing_shows_a_secret_and_sparks_driver_never_has_it() -> None:
    found = transform_sql_of({SQL: TEXT, f"{SECRET}salt": "geheim"})
    assert found is not None
    assert "geheim" not in repr(found)
    assert "geheim" not in str(found.to_json())
    assert TransformSql.from_json(found.to_json()) == TransformSql(TEXT, secret_names=("salt",))
    assert is_secret(f"{SECRET}salt")
    assert is_secret(f"A->B.{SECRET}SALT")
    shown = checked({SQL: TEXT, f"{SECRET}salt": "geheim"})[f"{SECRET}salt"]
    assert (shown.value, shown.key is not None and shown.key.type) == (HIDDEN, "PASSWORD")


@pytest.mark.parametrize(
    ("config", "wrong"),
    [
        pytest.param({SQL: " "}, [SQL], id="empty_statement"),
        pytest.param({SQL: "x" * (MOST_CHARACTERS + 1)}, [SQL], id="endless_statement"),
        pytest.param({SQL: f"SELECT {'(' * 51}key{')' * 51} AS key FROM records"}, [SQL], id="deep_statement"),
        pytest.param({SQL: TEXT, VALUE_SCHEMA: "a STRUCT<b: " * 51}, [VALUE_SCHEMA], id="deep_schema"),
        pytest.param({SQL: TEXT, VALUE_SCHEMA: ""}, [VALUE_SCHEMA], id="empty_schema"),
        pytest.param({VALUE_SCHEMA: "id INT"}, [VALUE_SCHEMA], id="schema_without_a_statement"),
        pytest.param({f"{SECRET}salt": "x"}, [f"{SECRET}salt"], id="secret_without_a_statement"),
        pytest.param({SQL: TEXT, f"{SECRET}salt": ""}, [f"{SECRET}salt"], id="empty_secret"),
        pytest.param({SQL: TEXT, f"{SECRET}salt": "${env:SALT}"}, [f"{SECRET}salt"], id="reference_without_a_value"),
        pytest.param({SQL: TEXT, f"{SECRET}salt": "a${x"}, [f"{SECRET}salt"], id="half_of_a_reference"),
        pytest.param({SQL: TEXT, f"{SECRET}my-salt": "x"}, [f"{SECRET}my-salt"], id="no_name_of_sql"),
        pytest.param({SQL: TEXT, SECRET: "x"}, [SECRET], id="secret_without_a_name"),
        pytest.param(
            {SQL: TEXT, f"{SECRET}salt": "x", f"{SECRET}SALT": "y"}, [f"{SECRET}SALT", f"{SECRET}salt"], id="same_names"
        ),
        pytest.param(
            {SQL: TEXT, **{f"{SECRET}s{n:03}": "x" for n in range(MOST_SECRETS + 1)}},
            [f"{SECRET}s{MOST_SECRETS:03}"],
            id="too_many_secrets",
        ),
    ],
)
def test_what_can_be_known_without_spark_is_refused(config: dict[str, str | None], wrong: list[str]) -> None:
    found = errors(config)
    assert sorted(found) == sorted(wrong)
    assert all(len(each) == 1 for each in found.values())


@pytest.mark.timeout(120)
def test_a_request_full_of_secrets_is_refused_in_one_pass() -> None:
    found = errors({SQL: TEXT, **{f"{SECRET}s{number:06}": "x" for number in range(100_000)}})
    assert list(found) == [f"{SECRET}s099999"]


def test_a_statement_never_comes_from_a_config_provider() -> None:
    written: dict[str, str | None] = {SQL: "SELECT sha2(concat('${file:/s:pepper}', key), 256) AS key FROM records"}
    found = errors({SQL: "SELECT sha2(concat('geheim', key), 256) AS key FROM records"}, written)
    assert list(found) == [SQL]
    assert "${file:/s:pepper}" in found[SQL][0]
    assert "geheim" not in str(found)


def test_a_secret_that_a_provider_gives_is_taken_and_one_with_a_reference_left_is_not_shown() -> None:
    written: dict[str, str | None] = {SQL: TEXT, f"{SECRET}salt": "${env:SALT}"}
    assert errors({SQL: TEXT, f"{SECRET}salt": "geheim$"}, written) == {}
    found = errors({SQL: TEXT, f"{SECRET}salt": "geheim${env:MORE}"}, written)
    assert list(found) == [f"{SECRET}salt"]
    assert not any(text in str(found) for text in ("geheim", "MORE"))


def test_a_reference_that_is_left_is_told_with_its_reason() -> None:
    setting, why = f"{SECRET}salt", "there is no config provider fil (there are: file)"
    config = {SQL: TEXT, setting: "${fil:/s:pepper}"}
    results = {name: each for name, each in TABLE.validate_all(config).items() if name in config}
    check_sql(results, config, config, {setting: why})
    assert results[setting].errors == [
        f"Invalid {setting}: its reference has no value, as {why}: correct the reference, or the config provider"
    ]


@pytest.mark.parametrize("config", [{SQL: ""}, {SQL: TEXT, f"{SECRET}1": "x"}, {SQL: "(" * 51}])
def test_a_config_that_was_never_validated_is_refused_too(config: dict[str, str | None]) -> None:
    with pytest.raises(ConfigError):
        transform_sql_of(config)


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        pytest.param({}, ["errors.log.enable, errors.retry.timeout, errors.tolerance: no effect, because"], id="bytes"),
        pytest.param({SQL: "SELECT * FROM records"}, ["errors.retry.timeout: no effect, because"], id="statement"),
        pytest.param(
            {
                "value.converter": "org.apache.kafka.connect.json.JsonConverter",
                "value.converter.schemas.enable": "false",
                "transforms": "mask",
                "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
                "transforms.mask.fields": "card",
            },
            ["errors.retry.timeout: no effect, because"],
            id="json",
        ),
    ],
)
def test_settings_of_errors_have_no_effect_only_where_no_record_can_fail(
    config: dict[str, str], wanted: list[str]
) -> None:
    errors = {"errors.tolerance": "all", "errors.log.enable": "true", "errors.retry.timeout": "1"}
    said = MirrorSource().warnings({**config, **errors})
    assert [line[: len(start)] for line, start in zip(said, wanted, strict=True)] == wanted
