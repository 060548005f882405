"""The class names that settings may hold: their interfaces and short names."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.user_code.known_classes import (
    BYTE_ARRAY_CONVERTER,
    CLASS_ALIASES,
    CONVERTER_ALIASES,
    KNOWN_CLASSES,
)

JSON = "org.apache.kafka.connect.json.JsonConverter"
SIMPLE_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
TRANSFORMS = "org.apache.kafka.connect.transforms."


@pytest.mark.parametrize(
    ("name", "interfaces"),
    [
        (BYTE_ARRAY_CONVERTER, {"Converter", "HeaderConverter"}),
        (SIMPLE_HEADERS, {"HeaderConverter"}),
        (TRANSFORMS + "Cast$Value", {"Transformation"}),
        (TRANSFORMS + "RegexRouter", {"Transformation"}),
        (TRANSFORMS + "predicates.TopicNameMatches", {"Predicate"}),
        ("org.apache.kafka.connect.mirror.MirrorSourceConnector", {"SourceConnector"}),
        ("org.apache.kafka.connect.mirror.DefaultGroupFilter", {"GroupFilter"}),
    ],
)
def test_a_class_stands_for_its_interfaces_alone(name: str, interfaces: set[str]) -> None:
    assert KNOWN_CLASSES[name] == interfaces


@pytest.mark.parametrize("name", [TRANSFORMS + "Cast", TRANSFORMS + "RegexRouter$Key"])
def test_a_transformation_of_two_kinds_is_known_by_its_kinds_alone(name: str) -> None:
    assert name not in KNOWN_CLASSES


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("JsonConverter", JSON),
        ("Json", JSON),
        ("SimpleHeaderConverter", SIMPLE_HEADERS),
        ("RegexRouter", TRANSFORMS + "RegexRouter"),
        ("RecordIsTombstone", TRANSFORMS + "predicates.RecordIsTombstone"),
    ],
)
def test_a_short_name_leads_to_its_class(alias: str, name: str) -> None:
    assert CLASS_ALIASES[alias] == name


@pytest.mark.parametrize("alias", ["SimpleHeader", "Cast", "DefaultReplicationPolicy"])
def test_what_connect_does_not_shorten_has_no_short_name(alias: str) -> None:
    assert alias not in CLASS_ALIASES


def test_every_short_name_leads_to_a_known_class() -> None:
    assert set(CLASS_ALIASES.values()) <= KNOWN_CLASSES.keys()
    assert CONVERTER_ALIASES.items() <= CLASS_ALIASES.items()
