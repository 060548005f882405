"""Heartbeats, checkpoints and groups on the whole product: deployed as for MirrorMaker 2, and changed while they run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.heartbeats import Heartbeat
from mirror_connect.connectors.records.offset_syncs import OffsetSync
from tests.brokers import commit, committed, messages
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import Product, mirror_config
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

RECORDS, READ = 100, 40
MIRROR = "org.apache.kafka.connect.mirror.Mirror"
CHECKPOINTS = "A.checkpoints.internal"
SYNCS = "mm2-offset-syncs.B.internal"


@dataclass
class Link:
    """What was seen of a link whose checkpoint connector was deployed with its usual intervals and then made quick."""

    product: Product
    source: LocalCluster
    target: LocalCluster
    topic: str
    group: str
    names: dict[str, str]
    log: str = ""
    tasks: list[dict[str, str]] = field(default_factory=list)


@pytest.fixture(scope="module")
def link(product: Product, source_cluster: LocalCluster, target_cluster: LocalCluster) -> Iterator[Link]:
    topic, group = "followed", "reader-of-followed"
    names = {kind: f"followed-{kind.lower()}" for kind in ("Source", "Checkpoint", "Heartbeat")}
    made = Link(product, source_cluster, target_cluster, topic, group, names)
    source_cluster.create_topic(topic, 1)
    produce(source_cluster, topic, ({"value": b"%d" % number, "partition": 0} for number in range(RECORDS)))
    commit(source_cluster, group, topic, READ)
    # Where the group stands, as the source connector of another worker may have told it.
    if SYNCS not in source_cluster.admin().list_topics(timeout=60).topics:
        source_cluster.create_topic(SYNCS, 1, {"cleanup.policy": "compact"})
    sync = OffsetSync(topic, 0, READ, READ)
    produce(source_cluster, SYNCS, [{"key": sync.key(), "value": sync.value(), "partition": 0}])
    said = len(product.log_text())
    for kind, name in names.items():
        given = {
            **mirror_config(source_cluster, target_cluster, topic),
            "connector.class": f"{MIRROR}{kind}Connector",
            "groups": group,
            "refresh.groups.interval.seconds": "1",
            "sync.group.offsets.enabled": "true",
        }
        product.put(name, {each: value for each, value in given.items() if not each.startswith("sync.topic")})
    for name in names.values():
        product.wait_running(name)
    wait_ends(target_cluster, f"A.{topic}", {0: RECORDS})
    quick = {f"{what}.interval.seconds": "2" for what in ("emit.checkpoints", "sync.group.offsets")}
    product._json("PATCH", f"/connectors/{names['Checkpoint']}/config", quick)
    line = f"Task {names['Checkpoint']}-0 is RUNNING"
    wait_for_state(lambda: product.log_text()[said:].count(line) == 2, "the task runs with the other intervals")
    wait_for(lambda: committed(target_cluster, group, f"A.{topic}"), "the group is on the target")
    made.log = product.log_text()[said:]
    made.tasks = [dict(each["config"]) for each in product.call("GET", f"/connectors/{names['Checkpoint']}/tasks")]
    yield made
    for name in names.values():
        product.delete(name)


def places(link: Link, connector: str) -> set[bytes]:
    offsets = f"{link.product.group}-offsets"
    keys = (message.key() for partition in range(5) for message in messages(link.target, offsets, partition))
    return {key for key in keys if key.startswith(f'["{connector}"'.encode())}


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testReplication")
def test_a_group_that_comes_to_the_target_goes_on_with_the_next_record(link: Link) -> None:
    # Until the copying task has recorded what lies where, a group gets no further than syncs lead it.
    wait_for(
        lambda: committed(link.target, link.group, f"A.{link.topic}") == {0: READ},
        "the group goes on with the next record",
    )


def test_the_link_shows_what_the_group_would_read_again(link: Link) -> None:
    path = f"/admin/links/A-%3EB/groups?search={link.group}"
    # A checkpoint that the target takes while its task ends is measured by nobody, so there is one more.
    commit(link.source, link.group, link.topic, READ + 1)

    def shown() -> dict[str, Any] | None:
        # Three things, each told when it is known: the checkpoint's latency, the target's offset, and how these compare.
        for each in link.product.call("GET", path)["groups"]:
            equal = (each["partitions"], each["read_again"], each["skipped"], each["untranslated"]) == (1, 0, 0, 0)
            if equal and each["synced_ms"] is not None and each["checkpoint_latency_ms"] is not None:
                return dict(each)
        return None

    found = wait_for(shown, "the group is told as equal on the target")
    assert found["topics"] == [link.topic]
    assert found["checkpoint_latency_ms"] >= 0
    link_view = next(each for each in link.product.call("GET", "/admin/links")["links"] if each["name"] == "A->B")
    assert link_view["groups"] >= 1
    assert {each["kind"] for each in link_view["connectors"]} >= {"source", "checkpoint", "heartbeat"}


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testReplication")
def test_its_checkpoint_is_in_the_topic_that_kafka_reads(link: Link) -> None:
    wanted = Checkpoint(link.group, f"A.{link.topic}", 0, READ, READ)
    wait_for(
        lambda: wanted in [Checkpoint.decode(m.key(), m.value()) for m in messages(link.target, CHECKPOINTS, 0)],
        "the checkpoint is there",
    )


@pytest.mark.kafka_test("MirrorConnectorsIntegrationBaseTest.testReplication")
def test_heartbeats_say_that_the_link_is_alive(link: Link) -> None:
    def links() -> set[tuple[str, str]]:
        beats = [Heartbeat.decode(m.key(), m.value()) for m in messages(link.target, "heartbeats", 0)]
        return {(beat.source_alias, beat.target_alias) for beat in beats}

    wait_for(lambda: ("A", "B") in links(), "a heartbeat is there")


def test_the_tasks_name_their_groups_as_kafka_does(link: Link) -> None:
    assert [each["task.assigned.groups"] for each in link.tasks] == [link.group]


@pytest.mark.parametrize("topic", ["heartbeats", CHECKPOINTS])
def test_a_topic_has_as_many_replicas_as_the_cluster_can_hold(link: Link, topic: str) -> None:
    partitions = link.target.admin().list_topics(timeout=60).topics[topic].partitions
    assert [len(each.replicas) for each in partitions.values()] == [1]


def test_places_in_connect_offsets_are_those_that_kafka_keeps(link: Link) -> None:
    names = link.names
    for kind in ("Checkpoint", "Heartbeat"):
        wait_for(lambda kind=kind: places(link, names[kind]), f"the {kind.lower()} has its place")
    assert (places(link, names["Checkpoint"]), places(link, names["Heartbeat"])) == (
        {f'["{names["Checkpoint"]}",{{"partition":0,"topic":"A.{link.topic}","group":"{link.group}"}}]'.encode()},
        {f'["{names["Heartbeat"]}",{{"sourceClusterAlias":"A","targetClusterAlias":"B"}}]'.encode()},
    )


def test_the_log_names_the_groups_of_a_task(link: Link) -> None:
    assert f"Task {link.names['Checkpoint']}-0 is RUNNING with 1 group" in link.log
