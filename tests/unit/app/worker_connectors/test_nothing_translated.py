"""A checkpoint connector that translates nothing says which setting is to blame, and nothing is said of one that does."""

from __future__ import annotations

import pytest

from mirror_connect.app.worker_connectors.nothing_translated import nothing_translated
from mirror_connect.app.worker_connectors.source_groups import SeenGroups
from mirror_connect.connectors.mirror.mirror_checkpoint import MirrorCheckpoint, checkpoint_selection


def told(seen: SeenGroups, **more: str) -> str | None:
    config = {"name": "c", "connector.class": "MirrorCheckpoint", "source.cluster.alias": "A"}
    settings = MirrorCheckpoint().settings(config | {name.replace("__", "."): value for name, value in more.items()})
    selection = checkpoint_selection(settings)
    selection.judge_groups(seen.listed)
    return nothing_translated(settings, selection, seen)


@pytest.mark.parametrize(
    "seen",
    [
        pytest.param(SeenGroups(("g",), frozenset({"g", "h"})), id="a_group_is_wanted"),
        pytest.param(SeenGroups((), frozenset({"g"}), {"g": "denied"}), id="one_can_not_be_read"),
    ],
)
def test_nothing_is_told_of_a_connector_that_has_groups(seen: SeenGroups) -> None:
    assert told(seen) is None


@pytest.mark.parametrize(
    ("groups", "seen", "line"),
    [
        pytest.param(
            ".*",
            SeenGroups((), frozenset()),
            "source cluster A has no group that this login may see, so nothing is translated",
            id="no_groups",
        ),
        pytest.param(
            "",
            SeenGroups((), frozenset({"g"})),
            "groups is empty, so nothing is translated: give it names or expressions",
            id="empty",
        ),
        pytest.param(
            "shp-.*",
            SeenGroups((), frozenset({"shop", "other"})),
            "groups=shp-.* matches none of the 2 groups of source cluster A, so nothing is translated; names and "
            "expressions stand for whole group names",
            id="no_match",
        ),
        pytest.param(
            ".*",
            SeenGroups((), frozenset({"shop", "console-consumer-1", "s"}), {}, {"s": "share"}),
            "groups=.* matches 3 of the 3 groups of source cluster A, but all of them are left out (1 by groups.exclude, "
            "1 by being no consumer group, 1 by having no position in a topic that is copied), so nothing is translated",
            id="left_out",
        ),
    ],
)
def test_a_connector_without_groups_says_why(groups: str, seen: SeenGroups, line: str) -> None:
    assert told(seen, groups=groups) == line
