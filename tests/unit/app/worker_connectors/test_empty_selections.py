"""A connector that selects nothing logs which setting is the reason; one that selects something logs nothing."""

from __future__ import annotations

import pytest

from mirror_connect.app.worker_connectors.empty_selections import nothing_copied, nothing_translated
from mirror_connect.app.worker_connectors.source_groups import SeenGroups
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.mirror.mirror_checkpoint import MirrorCheckpoint, checkpoint_selection
from mirror_connect.connectors.mirror.mirror_source import topic_selection

CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


def told(topics: str | None, *found: str, **more: str) -> str | None:
    config = {"name": "c", "connector.class": CLASS, "source.cluster.alias": "A", "target.cluster.alias": "B"}
    config |= {name.replace("__", "."): value for name, value in more.items()}
    if topics is not None:
        config["topics"] = topics
    settings = connector_definition(CLASS).settings(config)
    selection = topic_selection(settings)
    selection.judge(found)
    return nothing_copied(settings, selection, found)


@pytest.mark.parametrize(
    ("topics", "found"),
    [
        pytest.param("orders", ["orders", "other"], id="a_topic_matches"),
        pytest.param(None, ["orders"], id="all_match"),
        pytest.param("", ["heartbeats"], id="heartbeats_alone_are_wanted"),
        pytest.param("heartbeats", ["heartbeats"], id="heartbeats_are_named"),
    ],
)
def test_nothing_is_told_of_a_connector_that_copies_what_was_asked_for(topics: str | None, found: list[str]) -> None:
    assert told(topics, *found) is None


@pytest.mark.parametrize(
    ("topics", "found", "line"),
    [
        pytest.param("", ["orders"], "topics is empty, so nothing is copied: give it names or expressions", id="empty"),
        pytest.param(
            "order,o\\.*",
            ["orders", "other", "x"],
            "topics=order,o\\.* matches none of the 3 topics of source cluster A, so nothing is copied; names and "
            "expressions stand for whole topic names",
            id="no_match",
        ),
        pytest.param(
            "order",
            ["orders", "heartbeats"],
            "topics=order matches none of the 2 topics of source cluster A, so only heartbeats are copied; names and "
            "expressions stand for whole topic names",
            id="heartbeats_alone",
        ),
        pytest.param(
            ".*", [], "source cluster A has no topic that this login may see, so nothing is copied", id="no_topics"
        ),
        pytest.param(
            ".*",
            ["B.orders", "__consumer_offsets"],
            "topics=.* matches 2 of the 2 topics of source cluster A, but all of them are left out (1 by topics.exclude, "
            "1 by being internal, 1 by having come from B), so nothing is copied",
            id="all_left_out",
        ),
    ],
)
def test_a_connector_that_copies_nothing_says_why(topics: str, found: list[str], line: str) -> None:
    assert told(topics, *found) == line


def test_a_long_list_is_shortened() -> None:
    assert len(told(",".join(f"topic-{number}" for number in range(999)), "orders") or "") < 400


def told_of_groups(seen: SeenGroups, **more: str) -> str | None:
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
    assert told_of_groups(seen) is None


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
            "1 by being no consumer group, 1 by having no offset in a topic that is copied), so nothing is translated",
            id="left_out",
        ),
    ],
)
def test_a_connector_without_groups_says_why(groups: str, seen: SeenGroups, line: str) -> None:
    assert told_of_groups(seen, groups=groups) == line
