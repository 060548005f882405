"""Settings of converters: which ones a config has and what is wrong with them, as recorded from Kafka Connect 4.3.1."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror_connect.connectors import CONNECTORS
from mirror_connect.connectors.config.converter_settings import check_converters
from mirror_connect.connectors.config.table import ValidatedKey
from mirror_connect.connectors.mirror.settings import mirror_warnings

JSON = "org.apache.kafka.connect.json.JsonConverter"
HEARTBEAT = CONNECTORS["MirrorHeartbeat"]


def checked(config: Mapping[str, str | None]) -> dict[str, ValidatedKey]:
    return check_converters(HEARTBEAT.validate(config), config, config)


def test_a_config_without_converters_has_no_settings_of_theirs() -> None:
    assert checked({"key.converter.schemas.enable": "banana"}) == {}


@pytest.mark.parametrize("name", ["org.apache.kafka.connect.converters.LongConverter", "LongConverter", "Long"])
def test_a_converter_by_any_of_its_names_has_its_type(name: str) -> None:
    assert {each: result.value for each, result in checked({"key.converter": name}).items()} == {
        "key.converter.converter.type": "key"
    }


def test_header_converters_come_first_and_the_simple_one_has_no_settings() -> None:
    simple = checked({"key.converter": "String", "header.converter": "SimpleHeaderConverter"})
    both = checked({"key.converter": "Long", "header.converter": "Long"})
    assert (list(simple), list(both)) == (
        ["key.converter.converter.type", "key.converter.converter.encoding"],
        ["header.converter.converter.type", "key.converter.converter.type"],
    )


def test_errors_leave_the_prefix_out() -> None:
    config = {
        "key.converter": JSON,
        "key.converter.schemas.enable": "banana",
        "key.converter.decimal.format": "x",
        "key.converter.converter.type": "Key",
        "key.converter.schemas.cache.size": "-1",
    }
    assert {name: result.errors for name, result in checked(config).items() if result.errors} == {
        "key.converter.schemas.enable": [
            "Invalid value banana for configuration schemas.enable: Expected value to be either true or false"
        ],
        "key.converter.decimal.format": [
            "Invalid value x for configuration decimal.format: String must be one of (case insensitive): NUMERIC, BASE64"
        ],
        "key.converter.converter.type": [
            "Invalid value Key for configuration converter.type: String must be one of: key, value, header"
        ],
    }


def test_a_definition_has_the_full_name_and_the_short_one_to_show() -> None:
    key = checked({"value.converter": "Json"})["value.converter.converter.type"].key
    assert key is not None
    assert (key.name, key.definition()["display_name"]) == ("value.converter.converter.type", "converter.type")


def test_a_reference_is_quoted_and_not_what_a_provider_gave() -> None:
    written: dict[str, str | None] = {"key.converter": JSON, "key.converter.schemas.enable": "${file:/a:b}"}
    config = {**written, "key.converter.schemas.enable": "s3cret"}
    result = check_converters(HEARTBEAT.validate(config, written), config, written)["key.converter.schemas.enable"]
    assert result.errors == [
        "Invalid value ${file:/a:b} for configuration schemas.enable: Expected value to be either true or false"
    ]


@pytest.mark.parametrize(
    ("version", "there"), [("4.3.1", True), ("[4,5)", True), ("9", False), ("", False), (None, False)]
)
def test_of_another_version_no_setting_is_looked_at(version: str | None, there: bool) -> None:
    config = {"key.converter": "Long", "key.converter.plugin.version": version}
    assert ("key.converter.converter.type" in checked(config)) == there


def test_a_version_that_is_none_is_said() -> None:
    config: dict[str, str | None] = {"key.converter": "Long", "key.converter.plugin.version": "[x"}
    judged = HEARTBEAT.validate(config)
    check_converters(judged, config, config)
    assert judged["key.converter.plugin.version"].errors == ["Unbounded range: [x"]


def test_settings_come_in_the_order_of_a_hash_map() -> None:
    assert list(checked({"key.converter": "Json"})) == [
        f"key.converter.{name}"
        for name in (
            *("decimal.format", "converter.type", "schemas.cache.size", "replace.null.with.default"),
            *("schemas.enable", "schema.content"),
        )
    ]


def test_a_null_is_one_error_and_no_setting() -> None:
    assert "key.converter.schemas.enable" not in checked({"key.converter": JSON, "key.converter.schemas.enable": None})


def test_a_short_name_of_the_converter_that_is_ours_draws_no_line() -> None:
    assert mirror_warnings({"key.converter": "ByteArrayConverter", "value.converter": "ByteArray"}) == []
