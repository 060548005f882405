"""The parts that every connector definition has: names, the order of settings, checks across settings."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror_connect.connectors.config.framework_settings import CONNECTOR_KEYS, SOURCE_KEYS
from mirror_connect.connectors.config.table import (
    INT,
    LOW,
    NULL_REFUSED,
    ConfigTable,
    Key,
    ValidatedKey,
)
from mirror_connect.connectors.definition import ConnectorDefinition
from mirror_connect.connectors.errors import ConfigError


class Copier(ConnectorDefinition):
    class_name = "com.example.CopierConnector"
    task_class = "com.example.CopierTask"
    keys = ConfigTable(Key("speed", INT, 1, LOW, "How fast."))
    own_keys = ConfigTable(Key("extra", INT, 1, LOW, "Of our own."))

    def check(
        self,
        results: dict[str, ValidatedKey],
        config: Mapping[str, str | None],
        as_written: Mapping[str, str | None],
        unresolved: Mapping[str, str],
    ) -> None:
        if config.get("speed") == "13":
            results["speed"].errors.append(f"{as_written['speed']} brings bad luck")


COPIER = Copier()
VALID = {"name": "c", "connector.class": "Copier"}


def errors(config: Mapping[str, str | None]) -> dict[str, list[str]]:
    return {name: result.errors for name, result in COPIER.validate(config).items() if result.errors}


def test_a_connector_has_three_names() -> None:
    assert COPIER.names == ("com.example.CopierConnector", "CopierConnector", "Copier")


def test_settings_of_sources_come_last_in_a_definition_and_earlier_in_a_validation() -> None:
    framework, sources = list(CONNECTOR_KEYS.keys), list(SOURCE_KEYS.keys)
    assert [each["name"] for each in COPIER.describe()] == [*framework, "speed", *sources]
    assert list(COPIER.validate(VALID)) == [*framework, *sources, "speed"]


def test_a_setting_of_our_own_is_validated_where_it_is_given_alone() -> None:
    assert "extra" not in COPIER.validate(VALID)
    assert COPIER.validate({**VALID, "extra": "5"})["extra"].parsed == 5
    assert list(errors({**VALID, "extra": "five"})) == ["extra"]


def test_a_null_is_refused_for_a_setting_of_sources() -> None:
    found = errors({**VALID, "exactly.once.support": None})
    assert NULL_REFUSED in found["exactly.once.support"]


def test_a_rule_across_settings_quotes_what_was_written() -> None:
    results = COPIER.validate({**VALID, "speed": "13"}, {**VALID, "speed": "${file:speed}"})
    assert results["speed"].errors == ["${file:speed} brings bad luck"]


def test_settings_of_a_valid_config_are_parsed_and_keep_what_was_given() -> None:
    settings = COPIER.settings({**VALID, "speed": "7", "unknown": "x"})
    assert settings.integer("speed") == 7
    assert settings.originals["unknown"] == "x"


def test_settings_of_a_bad_config_raise_its_first_error() -> None:
    with pytest.raises(ConfigError, match="13 brings bad luck"):
        COPIER.settings({**VALID, "speed": "13"})


def test_a_required_setting_of_the_framework_is_missed() -> None:
    assert "name" in errors({"connector.class": "Copier"})
