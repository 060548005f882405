"""Checks of single settings: valid values, and Kafka's text for the others."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_connect.connectors.config.table import Validator
from mirror_connect.connectors.config.validators import (
    aliases,
    between,
    distinct,
    not_empty,
    one_of,
    one_of_in_any_case,
    plain_name,
    stands_for,
    unset_or,
)
from mirror_connect.connectors.user_code.known_classes import DEFAULT_TOPIC_FILTER, IDENTITY_POLICY

INVALID = "Invalid value {} for configuration x: "


def checked(validator: Validator, value: Any) -> str | None:
    return validator("x", value, str)


@pytest.mark.parametrize(
    ("validator", "value"),
    [
        pytest.param(between(1), 1, id="lower_end"),
        pytest.param(between(0.5, 1), 1, id="upper_end"),
        pytest.param(unset_or(between(1)), None, id="unset"),
        pytest.param(one_of("a", "b"), "b", id="one_of"),
        pytest.param(one_of_in_any_case("PLAINTEXT", "SSL"), "sSl", id="any_case"),
        pytest.param(distinct(), [], id="an_empty_list"),
        pytest.param(distinct("a", "b"), ["b", "a"], id="allowed_entries"),
        pytest.param(aliases, ["a", ""], id="aliases"),
        pytest.param(not_empty, None, id="a_null_is_not_empty"),
        pytest.param(plain_name, "Zoë 1", id="a_name"),
        pytest.param(plain_name, None, id="a_null_name"),
        pytest.param(stands_for("ReplicationPolicy"), IDENTITY_POLICY, id="a_known_class"),
        pytest.param(stands_for("ReplicationPolicy"), "python:my.module:Policy", id="a_class_of_the_users"),
        pytest.param(stands_for("ReplicationPolicy"), None, id="no_class"),
    ],
)
def test_a_good_value_passes(validator: Validator, value: Any) -> None:
    assert checked(validator, value) is None


@pytest.mark.parametrize(
    ("validator", "value", "problem"),
    [
        pytest.param(between(1), 0, INVALID.format(0) + "Value must be at least 1", id="too_low"),
        pytest.param(between(0.5, 1), 1.5, INVALID.format(1.5) + "Value must be no more than 1", id="too_high"),
        pytest.param(between(1), None, INVALID.format(None) + "Value must be non-null", id="null"),
        pytest.param(unset_or(between(1)), 0, INVALID.format(0) + "Value must be at least 1", id="set_and_too_low"),
        pytest.param(one_of("a", "b"), "A", INVALID.format("A") + "String must be one of: a, b", id="another_case"),
        pytest.param(one_of("a"), None, INVALID.format(None) + "String must be one of: a", id="null_of_values"),
        pytest.param(
            one_of_in_any_case("A", "B"),
            None,
            INVALID.format(None) + "String must be one of (case insensitive): A, B",
            id="null_in_any_case",
        ),
        pytest.param(distinct(), None, "Configuration 'x' values must not be null.", id="a_null_list"),
        pytest.param(
            distinct(empty=False),
            [],
            "Configuration 'x' must not be empty. Valid values include: any non-empty value",
            id="empty",
        ),
        pytest.param(
            distinct("a", "b", empty=False),
            [],
            "Configuration 'x' must not be empty. Valid values include: [a, b]",
            id="empty_with_choices",
        ),
        pytest.param(distinct(), ["a", "a"], "Configuration 'x' values must not be duplicated.", id="duplicated"),
        pytest.param(distinct(), ["a", ""], "Configuration 'x' values must not be empty.", id="an_empty_entry"),
        pytest.param(
            distinct("a", "b"), ["a", "c"], INVALID.format("c") + "String must be one of: a, b", id="not_allowed"
        ),
        pytest.param(aliases, None, INVALID.format(None) + "entry must be non null", id="null_aliases"),
        pytest.param(aliases, ["a", "a"], INVALID.format(["a", "a"]) + "Duplicate alias provided.", id="aliases"),
        pytest.param(not_empty, "", INVALID.format("") + "String must be non-empty", id="an_empty_text"),
        pytest.param(plain_name, "", INVALID.format("") + "String may not be empty", id="an_empty_name"),
        pytest.param(
            plain_name,
            "a\tb\x7f",
            INVALID.format("a\tb\x7f")
            + "String may not contain control sequences but had the following ASCII chars: 9, 127",
            id="control_characters",
        ),
        pytest.param(
            stands_for("ReplicationPolicy"),
            DEFAULT_TOPIC_FILTER,
            f"Class class {DEFAULT_TOPIC_FILTER} does not implement the ReplicationPolicy interface",
            id="a_class_of_another_kind",
        ),
    ],
)
def test_a_bad_value_is_refused_in_kafkas_words(validator: Validator, value: Any, problem: str) -> None:
    assert checked(validator, value) == problem


def test_a_refusal_shows_the_value_as_the_quote_allows() -> None:
    assert between(1)("x", 0, lambda _: "[hidden]") == INVALID.format("[hidden]") + "Value must be at least 1"
