"""Settings of predicates and transformations by alias; expectations recorded from Kafka Connect 4.3.1."""

from __future__ import annotations

import pytest

from mirror_connect.connectors import CONNECTORS
from mirror_connect.connectors.config.alias_settings import MOST_ALIASES, check_aliases
from mirror_connect.connectors.config.table import ValidatedKey

HEARTBEAT = CONNECTORS["MirrorHeartbeat"]
PACKAGE = "org.apache.kafka.connect.transforms.predicates."
PREDICATES = [PACKAGE + name for name in ("HasHeaderKey", "RecordIsTombstone", "TopicNameMatches")]
NULL = "Null value can not be supplied as the configuration value."
NO_PATTERN = 'Invalid regex: Cannot invoke "String.isEmpty()" because "this.pattern" is null'


def checked(config: dict[str, str | None], as_written: dict[str, str | None] | None = None) -> dict[str, ValidatedKey]:
    return check_aliases(HEARTBEAT.validate(config), config, config if as_written is None else as_written)


def errors(config: dict[str, str | None]) -> dict[str, list[str]]:
    return {name: result.errors for name, result in checked(config).items() if result.errors}


def test_a_config_without_aliases_has_no_settings_of_theirs() -> None:
    assert checked({"predicates": "", "predicates.a.type": "nope"}) == {}


def test_a_predicate_has_a_type_a_version_and_what_its_class_has() -> None:
    found = checked({"predicates": "a", "predicates.a.type": "TopicNameMatches", "predicates.a.pattern": "x.*"})
    assert {name: (result.value, result.errors) for name, result in found.items()} == {
        "predicates.a.type": (PACKAGE + "TopicNameMatches", []),
        "predicates.a.plugin.version": ("4.3.1", []),
        "predicates.a.pattern": ("x.*", []),
    }


def test_definitions_stand_in_a_group_of_the_alias() -> None:
    keys = [result.key for result in checked({"predicates": "a", "predicates.a.type": "HasHeaderKey"}).values()]
    assert [(key.name, key.group, key.order, key.definition()["display_name"]) for key in keys if key] == [
        ("predicates.a.type", "Predicates: a", 0, "Predicate type for a"),
        ("predicates.a.plugin.version", "Predicates: a", 1, "Predicate version for a"),
        ("predicates.a.name", "Predicates: a", 2, "name"),
    ]


def test_the_classes_there_are_are_recommended() -> None:
    (kind, version) = checked({"predicates": "a"}).values()
    assert [list(each.key.recommended) for each in (kind, version) if each.key] == [PREDICATES, []]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {"type": ['Missing required configuration "predicates.a.type" which has no default value.']}),
        ({"type": None}, {"type": [NULL]}),
        (
            {"type": "nope"},
            {"type": ["Invalid value nope for configuration predicates.a.type: Class nope could not be found."]},
        ),
        (
            {"type": "ByteArrayConverter"},
            {
                "type": [
                    "Class class org.apache.kafka.connect.converters.ByteArrayConverter does not implement the Predicate "
                    "interface"
                ]
            },
        ),
        (
            {"type": "TopicNameMatches"},
            {
                "pattern": [
                    'Missing required configuration "predicates.a.pattern" which has no default value.',
                    f"Invalid value null for configuration pattern: {NO_PATTERN}",
                ]
            },
        ),
        (
            {"type": "TopicNameMatches", "pattern": None},
            {"pattern": [f"Invalid value null for configuration pattern: {NO_PATTERN}", NULL]},
        ),
        (
            {"type": "TopicNameMatches", "pattern": ""},
            {"pattern": ["Invalid value  for configuration pattern: String must be non-empty"]},
        ),
        (
            {"type": "HasHeaderKey", "name": ""},
            {"name": ["Invalid value  for configuration name: String must be non-empty"]},
        ),
        (
            {"type": "RecordIsTombstone", "plugin.version": "[x"},
            {"type": ["Unbounded range: [x"], "plugin.version": ["Unbounded range: [x"]},
        ),
        ({"type": "RecordIsTombstone", "plugin.version": None}, {"plugin.version": [NULL]}),
        ({"type": "RecordIsTombstone", "plugin.version": "latest"}, {}),
    ],
)
def test_what_is_wrong_with_a_predicate_is_said_as_by_connect(
    settings: dict[str, str | None], expected: dict[str, list[str]]
) -> None:
    config = {"predicates": "a", **{f"predicates.a.{name}": value for name, value in settings.items()}}
    assert errors(config) == {f"predicates.a.{name}": texts for name, texts in expected.items()}


def test_another_version_than_there_is_is_refused_twice() -> None:
    config: dict[str, str | None] = {
        "predicates": "a",
        "predicates.a.type": "HasHeaderKey",
        "predicates.a.plugin.version": "9",
    }
    text = f"Plugin {PACKAGE}HasHeaderKey not found that matches the version range [9,9], available versions: [4.3.1]"
    assert errors(config) == {"predicates.a.type": [text], "predicates.a.plugin.version": [text]}


def test_a_transformation_has_what_all_of_them_have() -> None:
    config: dict[str, str | None] = {"transforms": "t", "transforms.t.type": "ValueToKey", "transforms.t.negate": "x"}
    assert {name: result.errors for name, result in checked(config).items()} == {
        "transforms.t.type": [
            "Config 'transforms.t.negate' was provided but there is no config 'transforms.t.predicate' defining a predicate "
            "to be negated."
        ],
        "transforms.t.plugin.version": [],
        "transforms.t.fields": [
            f'{MISSING} "transforms.t.fields" {NO_DEFAULT}',
            "Configuration 'fields' values must not be null.",
        ],
        "transforms.t.replace.null.with.default": [],
        "transforms.t.negate": [
            "Invalid value x for configuration transforms.t.negate: Expected value to be either true or false"
        ],
        "transforms.t.predicate": [],
    }


MISSING = "Missing required configuration"
NO_DEFAULT = "which has no default value."


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        pytest.param(
            {"type": "DropHeaders"},
            {
                "headers": [
                    f'{MISSING} "transforms.t.headers" {NO_DEFAULT}',
                    "Configuration 'headers' values must not be null.",
                ]
            },
            id="drop_nothing",
        ),
        pytest.param(
            {"type": "DropHeaders", "headers": ""},
            {"headers": ["Configuration 'headers' must not be empty. Valid values include: any non-empty value"]},
            id="drop_empty",
        ),
        pytest.param(
            {"type": "DropHeaders", "headers": "a,a"},
            {"headers": ["Configuration 'headers' values must not be duplicated."]},
            id="drop_twice",
        ),
        pytest.param(
            {"type": "DropHeaders", "headers": "a,,b"},
            {"headers": ["Configuration 'headers' values must not be empty."]},
            id="drop_a_hole",
        ),
        pytest.param({"type": "DropHeaders", "headers": "a, b"}, {}, id="drop_two"),
        pytest.param(
            {"type": "InsertHeader"},
            {
                name: [
                    f'{MISSING} "transforms.t.{name}" {NO_DEFAULT}',
                    f"Invalid value null for configuration {name}: entry must be non null",
                ]
                for name in ("header", "value.literal")
            },
            id="insert_nothing",
        ),
        pytest.param({"type": "InsertHeader", "header": "", "value.literal": ""}, {}, id="insert_empty"),
        pytest.param(
            {"type": "RegexRouter"},
            {
                "regex": [
                    f'{MISSING} "transforms.t.regex" {NO_DEFAULT}',
                    f"Invalid value null for configuration regex: {NO_PATTERN}",
                ],
                "replacement": [f'{MISSING} "transforms.t.replacement" {NO_DEFAULT}'],
            },
            id="route_by_nothing",
        ),
        pytest.param({"type": "RegexRouter", "regex": "", "replacement": ""}, {}, id="route_by_empty"),
        pytest.param(
            {"type": "RegexRouter", "regex": "(a", "replacement": "x"},
            {"regex": ["Invalid value (a for configuration regex: Invalid regex: Unclosed group near index 2"]},
            id="route_by_half_an_expression",
        ),
        pytest.param({"type": "Filter"}, {}, id="filter"),
        pytest.param({"type": "Filter", "predicate": ""}, {}, id="filter_by_nothing"),
    ],
)
def test_a_transformation_has_what_its_class_has(settings: dict[str, str], expected: dict[str, list[str]]) -> None:
    config: dict[str, str | None] = {f"transforms.t.{name}": value for name, value in settings.items()}
    assert errors({"transforms": "t", **config}) == {f"transforms.t.{name}": found for name, found in expected.items()}


def test_its_own_settings_stand_before_those_of_all() -> None:
    keys = [result.key for result in checked({"transforms": "t", "transforms.t.type": "InsertHeader"}).values()]
    assert [(key.name.removeprefix("transforms.t."), key.order) for key in keys if key] == [
        *(("type", 0), ("plugin.version", 1), ("header", 2), ("value.literal", 3), ("negate", 4), ("predicate", 5)),
    ]


def test_of_too_many_aliases_the_first_are_looked_at() -> None:
    aliases = [f"a{number}" for number in range(MOST_ALIASES + 1)]
    assert len(checked({"predicates": ",".join(aliases)})) == 2 * MOST_ALIASES


def test_an_alias_given_twice_is_looked_at_once() -> None:
    assert list(checked({"predicates": "a,a"})) == ["predicates.a.type", "predicates.a.plugin.version"]


@pytest.mark.parametrize("kind", ["transforms", "predicates"])
def test_an_alias_that_a_provider_gave_is_named_only_where_the_config_names_it(kind: str) -> None:
    written: dict[str, str | None] = {kind: "${file:/a:b}", f"{kind}.a.b.plugin.version": "latest"}
    judged = HEARTBEAT.validate({**written, kind: "a.b,s3cret"}, written)
    found = check_aliases(judged, {**written, kind: "a.b,s3cret"}, written)
    assert list(found) == [f"{kind}.a.b.type", f"{kind}.a.b.plugin.version", *list(found)[2:]]
    texts = [error for result in (*judged.values(), *found.values()) for error in result.errors]
    assert (
        f"Invalid value ${{file:/a:b}} for configuration {kind}: the config has no settings for one of these" in texts
    )
    assert "s3cret" not in f"{texts}{list(found)}"


def test_a_reference_is_quoted_and_not_what_a_provider_gave() -> None:
    written: dict[str, str | None] = {"predicates": "a", "predicates.a.type": "TopicNameMatches"}
    written["predicates.a.pattern"] = "${file:/a:b}"
    found = checked({**written, "predicates.a.pattern": "s3cret["}, written)["predicates.a.pattern"]
    assert (found.value, "s3cret" in str(found.errors)) == ("${file:/a:b}", False)


def test_a_version_that_a_provider_gave_is_not_quoted() -> None:
    written: dict[str, str | None] = {"predicates": "a", "predicates.a.type": "HasHeaderKey"}
    written["predicates.a.plugin.version"] = "${file:/a:b}"
    found = checked({**written, "predicates.a.plugin.version": "s3cret"}, written)["predicates.a.type"]
    assert found.errors == [
        f"Plugin {PACKAGE}HasHeaderKey not found that matches the version range [${{file:/a:b}},${{file:/a:b}}], "
        "available versions: [4.3.1]"
    ]
