"""The shares of a group's members are exactly those of Java's assignors."""

from __future__ import annotations

import json

import pytest

from mirror_connect.app.mirror_maker.assignors import ASSIGNORS, configured_assignors
from mirror_connect.connectors.errors import ConfigError
from tests.paths import FIXTURES

JAVA = [json.loads(line) for line in (FIXTURES / "group-assignment-vectors.jsonl").read_text().splitlines()]
PACKAGE = "org.apache.kafka.clients.consumer."


@pytest.mark.parametrize("vector", JAVA, ids=[f"{number}-{each['assignor']}" for number, each in enumerate(JAVA)])
def test_every_member_gets_what_javas_assignor_gives_it(vector: dict[str, dict[str, list[str]]]) -> None:
    subscriptions = {member: frozenset(topics) for member, topics in vector["subscriptions"].items()}
    assigned = ASSIGNORS[str(vector["assignor"])](subscriptions, vector["partitions"])
    assert {member: sorted(map(str, given)) for member, given in assigned.items()} == vector["assigned"]


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        pytest.param(None, (["range"], []), id="mirrormakers_default"),
        pytest.param(f"{PACKAGE}RoundRobinAssignor", (["roundrobin"], []), id="a_class"),
        pytest.param("roundrobin, range", (["roundrobin", "range"], []), id="names_in_their_order"),
        pytest.param(
            f"{PACKAGE}RangeAssignor,{PACKAGE}CooperativeStickyAssignor",
            (["range"], [f"{PACKAGE}CooperativeStickyAssignor"]),
            id="javas_default",
        ),
    ],
)
def test_the_setting_chooses_the_assignors(setting: str | None, found: tuple[list[str], list[str]]) -> None:
    assert configured_assignors(setting) == found


def test_a_setting_without_any_known_assignor_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"partition\.assignment\.strategy.*RangeAssignor"):
        configured_assignors(f"{PACKAGE}StickyAssignor")
