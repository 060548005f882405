"""Versions and ranges of plugins, written as in Maven, compared with the only available version."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.config.plugin_version import KAFKA_VERSION, NoVersion, unavailable


@pytest.mark.parametrize(
    "version",
    [
        None,
        "latest",
        KAFKA_VERSION,
        f"  {KAFKA_VERSION} ",
        "4.3.1.0",
        "4.3.1-final",
        "[4.3.1]",
        "[4.3,)",
        "(4.3,5)",
        "(,4.3.1]",
        "(,)",
        "[1,2],[4,5]",
        "[4.3.1-rc,4.3.1]",
        "(4.3.1-SNAPSHOT,)",
    ],
)
def test_the_one_version_is_meant(version: str | None) -> None:
    assert unavailable("X", version) is None


@pytest.mark.parametrize(
    ("version", "shown"),
    [
        ("4.3.2", "[4.3.2,4.3.2]"),
        ("4.3", "[4.3,4.3]"),
        ("(4.3.1,)", "(4.3.1,)"),
        ("[4,4.3.1)", "[4,4.3.1)"),
        ("[1, 2],[3,4)", "[1,2],[3,4)"),
        ("4.3.1-sp", "[4.3.1-sp,4.3.1-sp]"),
        ("4.3.1-rc", "[4.3.1-rc,4.3.1-rc]"),
        ("", "[,]"),
        ("[]", "[,]"),
    ],
)
def test_another_version_is_not_there(version: str, shown: str) -> None:
    assert unavailable("X", version) == (
        f"Plugin X not found that matches the version range {shown}, available versions: [{KAFKA_VERSION}]"
    )


def test_the_version_is_listed_once_for_each_kind_of_plugin() -> None:
    told = unavailable("X", "1", kinds=2)
    assert told is not None
    assert told.endswith(f"available versions: [{KAFKA_VERSION}, {KAFKA_VERSION}]")


@pytest.mark.parametrize(
    ("version", "problem"),
    [
        pytest.param("[1,2", r"Unbounded range: \[1,2", id="an_open_range"),
        pytest.param("(1)", r"Single version must be surrounded by \[\]: \(1\)", id="round_brackets_around_one"),
        pytest.param("[2,1]", "Range defies version ordering", id="ends_in_the_wrong_order"),
        pytest.param("[1,1)", "Range defies version ordering", id="an_empty_range"),
        pytest.param("[1,3],[2,4]", "Ranges overlap", id="overlap"),
        pytest.param("[1,3],(,4]", "Ranges overlap", id="a_second_range_without_a_beginning"),
        pytest.param("[1,2],3", "Only fully-qualified sets allowed", id="a_version_behind_a_range"),
        pytest.param("1" * 5001, "5000 characters at most", id="too_long"),
    ],
)
def test_a_text_that_is_neither_version_nor_range_is_refused(version: str, problem: str) -> None:
    with pytest.raises(NoVersion, match=problem):
        unavailable("X", version)
