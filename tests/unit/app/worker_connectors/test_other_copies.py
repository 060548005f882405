"""Which other connectors copy into the same remote topics: by their stored configs and task configs."""

from __future__ import annotations

import pytest

from mirror_connect.app.storage.config_records import (
    PAUSED,
    Entry,
    RawConfig,
    connector_entry,
    deletion_entries,
    target_state_entry,
)
from mirror_connect.app.storage.config_view import ConfigView
from mirror_connect.app.worker_connectors.other_copies import OtherCopies
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY
from mirror_connect.connectors.user_code.user_class import UserClass
from tests.fakes.config_topic import tasks_of, viewed

SOURCE, TARGET = "source.cluster.bootstrap.servers", "target.cluster.bootstrap.servers"
OWN: RawConfig = {"name": "a", "source.cluster.alias": "A", SOURCE: "s:9092"}
LINKS = {"orders": "A.orders", "users": "A.users", "heartbeats": "A.heartbeats"}
WORKERS = "w:9092"
TWICE, MIXED = "so each record is copied more than once", "get the records of both connectors"


def stored(name: str, *assigned: str, **more: str | None) -> list[Entry]:
    """A source connector of cluster A with one task for each of `assigned`."""
    config = {
        "name": name,
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": "A",
        SOURCE: "s:9092",
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return tasks_of(name, config, *assigned)


async def lines(*entries: Entry, links: dict[str, str] = LINKS, config: RawConfig = OWN) -> list[str]:
    return await OtherCopies(viewed(*entries).snapshot, WORKERS).lines("a", config, links)


async def test_a_connector_with_the_same_topics_copies_each_record_again() -> None:
    assert await lines(*stored("a", "orders-0"), *stored("b", "orders-0,orders-1", "other-0")) == [
        "connector b copies topic orders into the same remote topic, too, so each record is copied more than once: stop one "
        "of the two connectors, or add the topic to topics.exclude of one of them"
    ]


async def test_each_connector_has_a_line_and_of_many_topics_some_are_named() -> None:
    topics = ",".join(f"t{number}-0" for number in range(5))
    links = {f"t{number}": f"A.t{number}" for number in range(5)}
    all_of_them, one = await lines(*stored("c", "t3-0"), *stored("b", topics), links=links)
    assert all_of_them.startswith(
        "connector b copies topics t0, t1, t2 and 2 more into the same remote topics, too, so"
    )
    assert all_of_them.endswith("or add the topics to topics.exclude of one of them")
    assert one.startswith("connector c copies topic t3 into")


async def test_of_many_connectors_some_are_named() -> None:
    several = [entry for number in range(5) for entry in stored(f"c{number}", "orders-0")]
    found = await lines(*several)
    assert [line.partition(" cop")[0] for line in found[:3]] == ["connector c0", "connector c1", "connector c2"]
    assert found[3:] == ["2 more connectors copy into the same remote topics, too"]
    found = await lines(*several, target_state_entry("c0", PAUSED))
    assert found[3:] == ["1 more connector copies into the same remote topics, too"]


async def test_topics_of_two_sources_under_one_name_are_a_mixture() -> None:
    identity = {"source__cluster__alias": "B", "replication__policy__class": IDENTITY_POLICY}
    links = {"orders": "orders"}
    # Two addresses may lead to one cluster.
    assert await lines(*stored("b", "orders-0", **identity, **{SOURCE: "t:9092"}), links=links) == [
        "connector b copies into remote topic orders, too: consumers there get the records of both connectors; if their "
        "sources are one cluster, each record is copied more than once"
    ]
    # Whatever the aliases are, addresses say that these are one cluster.
    (found,) = await lines(*stored("b", "orders-0", **identity), links=links)
    assert TWICE in found
    (found,) = await lines(*stored("b", "orders-0", **identity), links={"sales": "orders"})
    assert found.endswith(MIXED)


async def test_each_kind_has_a_line_of_its_own() -> None:
    links = {"orders": "A.orders", "people": "A.users"}
    twice, mixed = await lines(*stored("b", "orders-0", "users-0"), links=links)
    assert twice.startswith("connector b copies topic orders into")
    assert TWICE in twice
    assert mixed.startswith("connector b copies into remote topic A.users, too")
    assert mixed.endswith(MIXED)


async def test_what_counts_is_the_config_that_the_tasks_have() -> None:
    entries = stored("b", "orders-0")
    config = {"name": "b", "connector.class": "MirrorSourceConnector", SOURCE: "t:9092", "source.cluster.alias": "B"}
    (found,) = await lines(*entries, connector_entry("b", config))
    assert TWICE in found
    assert await lines(*tasks_of("b", config, "orders-0"), *stored("b")[:1]) == []


ROUTE = {
    "transforms": "r",
    "transforms__r__type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms__r__regex": r"A\.(.*)",
    "transforms__r__replacement": "$1",
}


async def test_routes_of_another_connector_count() -> None:
    (found,) = await lines(*stored("b", "orders-0", **ROUTE), links={"orders": "orders"})
    assert TWICE in found
    assert await lines(*stored("b", "orders-0", **ROUTE)) == []
    # A named group is no reference to a config provider.
    named = {**ROUTE, "transforms__r__regex": r"A\.(?<t>.*)", "transforms__r__replacement": "${t}"}
    (found,) = await lines(*stored("b", "orders-0", **named), links={"orders": "orders"})
    assert TWICE in found


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(stored("a", "orders-0"), id="itself"),
        pytest.param(stored("b", "other-0"), id="other_topics"),
        pytest.param(stored("b", "orders-0", source__cluster__alias="B"), id="another_source"),
        pytest.param(stored("b", "orders-0", **{TARGET: "c:9092,d:9092"}), id="another_target"),
        pytest.param(stored("b", "orders-0", **{TARGET: "not an address"}), id="unknown_target"),
        pytest.param(stored("b", "heartbeats-0"), id="heartbeats"),
        pytest.param([*stored("b", "orders-0"), target_state_entry("b", PAUSED)], id="paused"),
        pytest.param([*stored("b", "orders-0"), *deletion_entries("b")], id="deleted"),
        pytest.param(stored("b"), id="no_tasks"),
        pytest.param(stored("b", "orders-0", connector__class="MirrorCheckpointConnector"), id="another_class"),
        pytest.param(stored("b", "orders-0", connector__class="com.acme.Unknown"), id="unknown_class"),
        pytest.param(stored("b", "orders-0", connector__class=None), id="no_class"),
        pytest.param(stored("b", "orders-0", replication__policy__class="com.acme.No"), id="unknown_policy"),
        pytest.param(stored("b", "orders-0", transforms="x", transforms__x__type="No"), id="unknown_transformation"),
    ],
)
async def test_all_others_are_none_of_its_business(entries: list[Entry]) -> None:
    assert await lines(*entries) == []


async def test_a_users_policy_of_another_connector_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(UserClass, "ask", lambda *call: started.append(call))
    assert await lines(*stored("b", "orders-0", replication__policy__class="python:acme.names:P")) == []
    assert started == []


@pytest.mark.parametrize(
    "name", ["source.cluster.alias", "replication.policy.separator", "transforms.r.regex", "transforms"]
)
async def test_names_that_a_config_provider_has_are_not_known(name: str) -> None:
    config = {key.replace("__", "."): value for key, value in ROUTE.items()} if name.startswith("transforms") else {}
    entries = stored("b", "orders-0", **{**config, name: "${env:X}"})
    every = ["A.orders", "${env:X}.orders", "A${env:X}orders", "${env:X}", "orders"]
    assert [await lines(*entries, links={"orders": remote}) for remote in every] == [[]] * len(every)


async def test_clusters_are_one_by_any_address_in_common_and_the_workers_own_by_default() -> None:
    async def told(theirs: str | None, mine: str | None, what: str = TARGET) -> list[str]:
        return await lines(*stored("b", "orders-0", **{what: theirs}), config={**OWN, what: mine})

    assert await told("x:1, w:9092", None)
    assert await told("SASL_SSL://W:9092,", None)
    assert await told("c:9092", "d:9092,c:9092")
    assert await told("${env:TARGET}", "${env:TARGET}")
    assert not await told(None, "c:9092")
    assert not await told("x:1,", "y:1,")
    (same,) = await told("t:9092,s:9092", "S:9092", SOURCE)
    (other,) = await told("t:9092", "s:9092", SOURCE)
    assert TWICE in same
    assert MIXED in other


async def test_an_alias_counts_without_the_spaces_around_it() -> None:
    assert await lines(*stored("b", "orders-0", source__cluster__alias=" A "))


async def test_what_changes_is_seen() -> None:
    view = ConfigView()
    others = OtherCopies(view.snapshot, WORKERS)

    async def told(*entries: Entry) -> bool:
        for key, value in entries:
            view.apply(key, value)
        return await others.lines("a", OWN, LINKS) != []

    assert not await told()
    assert await told(*stored("b", "orders-0"))
    assert await told(*stored("c", "other-0"))
    assert not await told(*stored("b", "other-0"))
    assert await told(*stored("b", "users-0"))
    assert not await told(target_state_entry("b", PAUSED))
    assert await told(target_state_entry("b", "STARTED"))
    assert not await told(*deletion_entries("b"))
