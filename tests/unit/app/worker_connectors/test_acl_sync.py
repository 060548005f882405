"""Syncs of ACLs on clusters in memory: what is created, what is deleted, and what is said when there is nothing to do."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from mirror_connect.app.worker_connectors import acl_sync
from mirror_connect.app.worker_connectors.acl_sync import AclSync
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.acls import AclBinding, Resource
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.acl_rules import Copies
from mirror_connect.connectors.mirror.mirror_source import PREFIXED_ACLS, REMOVE_ACLS
from mirror_connect.kafka_io.admin.admin import ClusterAdmin

CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
READ = AclBinding("TOPIC", "LITERAL", "orders", "User:u", "*", "READ", "ALLOW")
COPY = replace(READ, name="A.orders")
DENY, DENY_COPY = replace(READ, permission="DENY"), replace(COPY, permission="DENY")
PREFIX, PREFIX_COPY = (replace(READ, pattern="PREFIXED", name=name) for name in ("ord", "A.ord"))


@dataclass
class FakeCluster:
    """`acls`: None without an authorizer. `refused`: bindings that can be neither created nor deleted."""

    acls: set[AclBinding] | None = field(default_factory=set)
    refused: set[AclBinding] = field(default_factory=set)


def topic_acls(cluster: FakeCluster) -> set[AclBinding] | None:
    return None if cluster.acls is None else set(cluster.acls)


def create_acls(cluster: FakeCluster, bindings: Sequence[AclBinding]) -> dict[AclBinding, str]:
    assert cluster.acls is not None
    cluster.acls |= set(bindings) - cluster.refused
    return {each: f"{each.permission} refused" for each in bindings if each in cluster.refused}


def delete_acls(cluster: FakeCluster, bindings: Sequence[AclBinding]) -> dict[AclBinding, str]:
    assert cluster.acls is not None
    cluster.acls -= set(bindings) - cluster.refused
    return {each: f"{each.permission} refused" for each in bindings if each in cluster.refused}


class Memory:
    """Outlives the connector. `away`: its cluster doesn't answer."""

    def __init__(self) -> None:
        self.kept: dict[Resource, Copies] = {}
        self.away = False

    def load(self) -> Copies:
        self._ask()
        return {copy: of for copies in self.kept.values() for copy, of in copies.items()}

    def save(self, copies: Mapping[Resource, Copies]) -> None:
        self._ask()
        for resource, of in copies.items():
            self.kept[resource] = {copy: set(sources) for copy, sources in of.items()}

    def _ask(self) -> None:
        if self.away:
            raise ClusterUnreachable("the offsets topic does not answer")


class World:
    def __init__(self) -> None:
        self.memory = Memory()
        self.source, self.target = FakeCluster(), FakeCluster()
        self.links = {"orders": "A.orders"}

    def sync(self, *on: str, alias: str = "A", **more: str) -> AclSync:
        config = {"name": "c", "connector.class": CLASS, "source.cluster.alias": alias, "topics": "orders", **more}
        return AclSync(connector_definition(CLASS).settings({**config, **dict.fromkeys(on, "true")}), self.memory)

    def round(self, sync: AclSync, *given: AclBinding) -> list[str]:
        self.source.acls = set(given)
        return sync.sync(cast("ClusterAdmin", self.source), cast("ClusterAdmin", self.target), self.links)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    for each in (topic_acls, create_acls, delete_acls):
        monkeypatch.setattr(acl_sync, each.__name__, each)
    return World()


def test_what_the_source_revokes_stays_unless_asked_otherwise(world: World) -> None:
    sync = world.sync()
    world.round(sync, READ, DENY)
    world.round(sync)
    assert world.target.acls == {COPY, DENY_COPY}


def test_nobody_gets_rights_to_what_no_copy_may_be(world: World) -> None:
    world.source.acls = {READ, PREFIX}
    source, target = cast("ClusterAdmin", world.source), cast("ClusterAdmin", world.target)
    assert world.sync(PREFIXED_ACLS).sync(source, target, world.links, {"A.orders"}) == []
    assert COPY not in (world.target.acls or ())


def test_with_a_route_rights_are_those_of_topics_that_are_copied(world: World) -> None:
    """`*` would become the rights to every topic of the target, and `orders-us` shares the name of another one's copy."""
    route = {"type": "RegexRouter", "regex": r"A\.([^-]*).*", "replacement": "$1"}
    sync = world.sync(
        topics=".*", transforms="route", **{f"transforms.route.{key}": text for key, text in route.items()}
    )
    world.links = {"orders": "orders"}
    others = [replace(READ, name=name, principal="User:x") for name in ("*", "orders-us")]
    assert world.round(sync, READ, PREFIX, *others) == []
    assert world.target.acls == {READ}


def test_what_the_source_revokes_goes_when_asked_for(world: World) -> None:
    sync = world.sync(REMOVE_ACLS)
    world.round(sync, READ, DENY)
    world.round(sync, DENY)
    assert world.target.acls == {DENY_COPY}


def test_a_binding_that_the_source_never_gave_is_left_alone(world: World) -> None:
    by_hand = replace(COPY, principal="User:hand")
    world.target.acls = {by_hand}
    sync = world.sync(REMOVE_ACLS)
    world.round(sync, READ)
    world.round(sync)
    assert world.target.acls == {by_hand}


def test_what_the_source_revokes_while_the_connector_is_away_goes_at_its_return(world: World) -> None:
    by_hand = replace(COPY, principal="User:hand")
    world.round(world.sync(REMOVE_ACLS), READ, DENY)
    assert world.target.acls is not None
    world.target.acls.add(by_hand)
    world.round(world.sync(REMOVE_ACLS), DENY)
    assert world.target.acls == {DENY_COPY, by_hand}


def test_what_was_removed_is_not_removed_again_when_somebody_makes_it_by_hand(world: World) -> None:
    world.round(world.sync(REMOVE_ACLS), READ)
    world.round(world.sync(REMOVE_ACLS))
    world.target.acls = {COPY}
    world.round(world.sync(REMOVE_ACLS))
    assert world.target.acls == {COPY}


def test_a_connector_that_was_not_asked_to_remove_has_kept_nothing(world: World) -> None:
    world.round(world.sync(), READ)
    world.round(world.sync(REMOVE_ACLS))
    assert (world.target.acls, world.memory.kept) == ({COPY}, {})


def test_what_another_link_of_the_same_connector_copied_is_not_this_ones(world: World) -> None:
    world.round(world.sync(REMOVE_ACLS), READ)
    world.round(world.sync(REMOVE_ACLS, alias="Z"))
    assert world.target.acls == {COPY}


@pytest.mark.parametrize("rounds_before", [0, 1])
def test_nothing_is_created_that_can_not_be_remembered(world: World, rounds_before: int) -> None:
    sync = world.sync(REMOVE_ACLS)
    for _ in range(rounds_before):
        world.round(sync)
    world.memory.away = True
    with pytest.raises(ClusterUnreachable):
        world.round(sync, READ)
    before = set(world.target.acls or ())
    world.memory.away = False
    world.round(sync, READ)
    assert (before, world.target.acls, world.memory.load()) == (set(), {COPY}, {COPY: {READ}})


def test_a_removal_is_forgotten_after_it_was_made_and_not_before(world: World) -> None:
    sync = world.sync(REMOVE_ACLS)
    world.round(sync, READ)
    world.target.refused = {COPY}
    world.round(sync)
    world.target.refused = set()
    world.round(world.sync(REMOVE_ACLS))
    assert (world.target.acls, world.memory.load()) == (set(), {})


def test_nothing_is_removed_while_a_binding_is_refused(world: World) -> None:
    sync = world.sync(REMOVE_ACLS)
    world.round(sync, READ)
    world.target.refused = {DENY_COPY}
    assert world.round(sync, DENY) == ["DENY refused"]
    assert world.target.acls == {COPY}


def test_a_removal_that_is_refused_is_told_and_tried_again(world: World) -> None:
    sync = world.sync(REMOVE_ACLS)
    world.round(sync, READ)
    world.target.refused = {COPY}
    told = world.round(sync)
    world.target.refused = set()
    world.round(sync)
    assert (told, world.target.acls) == (["ALLOW refused"], set())


def test_a_binding_that_is_refused_keeps_no_other_from_it(world: World) -> None:
    world.target.refused = {DENY_COPY}
    assert (world.round(world.sync(), READ, DENY), world.target.acls) == (["DENY refused"], {COPY})


def test_a_prefixed_binding_is_copied_when_asked_for(world: World) -> None:
    world.round(world.sync(), PREFIX)
    before = set(world.target.acls or ())
    world.round(world.sync(PREFIXED_ACLS), PREFIX)
    assert (before, world.target.acls) == (set(), {PREFIX_COPY})


def test_a_prefixed_binding_stays_when_only_its_topics_are_gone(world: World) -> None:
    sync = world.sync(PREFIXED_ACLS, REMOVE_ACLS)
    world.round(sync, PREFIX)
    world.links = {}
    world.round(sync, PREFIX)
    assert world.target.acls == {PREFIX_COPY}


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testNoBrokerAclAuthorizer")
@pytest.mark.parametrize("side", ["source", "target"])
def test_a_cluster_without_an_authorizer_is_told_once(
    world: World, side: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sync = world.sync(REMOVE_ACLS)
    getattr(world, side).acls = None
    for _ in range(2):
        if side == "target":
            assert world.round(sync, READ) == []
        else:
            assert sync.sync(cast("ClusterAdmin", world.source), cast("ClusterAdmin", world.target), {}) == []
    assert [f"the {side} has no authorizer" in each.getMessage() for each in caplog.records] == [True]
