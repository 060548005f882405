"""Which other connectors copy into the same remote topics: by their stored configs and task configs."""

from __future__ import annotations

import pytest

from mirror_connect.app.storage.config_records import (
    PAUSED,
    Entry,
    RawConfig,
    deletion_entries,
    target_state_entry,
)
from mirror_connect.app.storage.config_view import ConfigView
from mirror_connect.app.worker_connectors.other_copies import OtherCopies
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY
from tests.fakes.config_topic import viewed, with_tasks

TARGET = "target.cluster.bootstrap.servers"
OWN: RawConfig = {"name": "a", "source.cluster.alias": "A"}
LINKS = {"orders": "A.orders", "users": "A.users", "heartbeats": "A.heartbeats"}


def stored(name: str, *assigned: str, **more: str | None) -> list[Entry]:
    """A source connector of cluster A with one task for each of `assigned`."""
    config = {
        "name": name,
        "connector.class": "MirrorSourceConnector",
        "source.cluster.alias": "A",
        **{key.replace("__", "."): value for key, value in more.items()},
    }
    return with_tasks(name, config, *({"task.assigned.partitions": text} for text in assigned))


def line(*entries: Entry, links: dict[str, str] = LINKS, config: RawConfig = OWN) -> str | None:
    others = OtherCopies(viewed(*entries).snapshot, "w:9092")
    return others.line("a", config, links, others.connectors())


def test_a_connector_with_the_same_topics_copies_each_record_again() -> None:
    assert line(*stored("a", "orders-0"), *stored("b", "orders-0,orders-1", "other-0")) == (
        "connector b copies into topic A.orders, too, so each record comes more than once: stop one of these connectors, "
        "or exclude it in one"
    )


def test_several_are_named_with_all_topics() -> None:
    topics = ",".join(f"t{number}-0" for number in range(5))
    links = {f"t{number}": f"A.t{number}" for number in range(5)}
    found = line(*stored("b", topics), *stored("c", topics), links=links)
    assert found is not None
    assert found.startswith("connectors b, c copy into topics A.t0, A.t1, A.t2 and 2 more, too, so each record")
    assert found.endswith("or exclude them in one")


def test_topics_of_two_sources_under_one_name_are_a_mixture() -> None:
    other = stored("b", "orders-0", source__cluster__alias="B", replication__policy__class=IDENTITY_POLICY)
    assert line(*other, links={"orders": "orders"}) == (
        "connector b copies into topic orders, too: consumers get the records of several sources there"
    )


@pytest.mark.parametrize(
    "entries",
    [
        pytest.param(stored("a", "orders-0"), id="itself"),
        pytest.param(stored("b", "other-0"), id="other_topics"),
        pytest.param(stored("b", "orders-0", source__cluster__alias="B"), id="another_source"),
        pytest.param(stored("b", "orders-0", **{TARGET: "c:9092,d:9092"}), id="another_target"),
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
def test_all_others_are_none_of_its_business(entries: list[Entry]) -> None:
    assert line(*entries) is None


def test_targets_are_one_by_any_address_in_common_and_the_workers_own_by_default() -> None:
    assert line(*stored("b", "orders-0", **{TARGET: "x:1, w:9092"})) is not None
    assert line(*stored("b", "orders-0", **{TARGET: "c:9092"}), config={**OWN, TARGET: "d:9092,c:9092"}) is not None
    assert line(*stored("b", "orders-0"), config={**OWN, TARGET: "c:9092"}) is None
    same = {TARGET: "${env:TARGET}"}
    assert line(*stored("b", "orders-0", **same), config={**OWN, **same}) is not None


def test_what_changes_is_seen() -> None:
    view = ConfigView()
    others = OtherCopies(view.snapshot)

    def told(*entries: Entry) -> bool:
        for key, value in entries:
            view.apply(key, value)
        return others.line("a", OWN, LINKS, others.connectors()) is not None

    assert not told()
    assert told(*stored("b", "orders-0"))
    assert told(*stored("c", "other-0"))
    assert not told(*stored("b", "other-0"))
    assert told(*stored("b", "users-0"))
    assert not told(target_state_entry("b", PAUSED))


def test_without_a_worker_there_are_no_others() -> None:
    others = OtherCopies()
    assert others.line("a", OWN, LINKS, others.connectors()) is None
