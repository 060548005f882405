"""Dedicated mode: all flows of an mm2.properties file in one process, nodes that take over, and a cluster that is away.

A and B copy each other's topics. A also copies to C, which starts last.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.records.heartbeats import Heartbeat
from tests.brokers import commit, messages, started
from tests.e2e.dedicated import CHECKPOINT, HEARTBEAT, SOURCE, Dedicated, mm2_properties
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import DRIVER
from tests.e2e.reading import values
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

ORDERS: Final = "orders"
PARTITIONS: Final = 2
RECORDS: Final = 50
GROUP: Final = "readers"
FLOWS: Final = ("A->B", "B->A", "A->C")
# C->A is not enabled and has a herder for its heartbeats; the other two have none.
UNWANTED: Final = {f"{flow}.emit.heartbeats.enabled": "false" for flow in ("B->C", "C->B")}
STAMP: Final = {
    "A->C.transforms": "stamp",
    "A->C.transforms.stamp.type": "org.apache.kafka.connect.transforms.InsertHeader",
    "A->C.transforms.stamp.header": "from",
    "A->C.transforms.stamp.value.literal": "A",
}
PATIENCE_S: Final = 180.0


@dataclass
class Links:
    """The clusters by alias, and what was seen while two nodes ran."""

    clusters: dict[str, LocalCluster]
    produced: dict[str, list[list[bytes | None]]] = field(
        default_factory=lambda: {alias: [[] for _ in range(PARTITIONS)] for alias in "AB"}
    )
    drivers: int = 0
    while_c_was_away: dict[str, list[str]] = field(default_factory=dict)
    root: dict[str, object] = field(default_factory=dict)
    # What GET /admin/links shows at the first node, and at the second one when they share the flows: link → its members.
    leading: dict[str, dict[str, Any]] = field(default_factory=dict)
    sharing: dict[str, dict[str, Any]] = field(default_factory=dict)
    # What GET /A/B/admin/workers shows at the second node.
    nodes: list[dict[str, Any]] = field(default_factory=list)
    away_line: str = ""
    standby_line: str = ""
    leading_line: str = ""
    workers: set[str] = field(default_factory=set)
    exit_code: int = -1
    statuses: dict[str, dict[str, object]] = field(default_factory=dict)

    def produce(self) -> None:
        """More orders on A and B; none is like another."""
        for alias in "AB":
            first = sum(map(len, self.produced[alias]))
            rows = [(b"%s %d" % (alias.encode(), n), n % PARTITIONS) for n in range(first, first + RECORDS)]
            produce(self.clusters[alias], ORDERS, ({"value": value, "partition": p} for value, p in rows))
            for value, partition in rows:
                self.produced[alias][partition].append(value)

    def wait_copied(self, *places: tuple[str, str]) -> None:
        """Until each place, as (cluster, prefix), has all records of its origin."""
        for alias, origin in places:
            ends = {partition: len(each) for partition, each in enumerate(self.produced[origin])}
            wait_ends(self.clusters[alias], f"{origin}.{ORDERS}", ends, PATIENCE_S)

    def newest(self, alias: str, topic: str) -> dict[str, bytes | None]:
        """Key → last value of an internal topic, over its partitions."""
        count = len(self.clusters[alias].admin().list_topics(topic, timeout=30).topics[topic].partitions)
        return {
            message.key().decode(): message.value()
            for partition in range(count)
            for message in messages(self.clusters[alias], topic, partition, isolation="read_committed")
        }


@pytest.fixture(scope="module")
def links() -> Iterator[Links]:
    clusters = {alias: LocalCluster(alias) for alias in "ABC"}
    made = Links(clusters)
    properties = mm2_properties(clusters, FLOWS, {"topics": ORDERS, "groups": GROUP, **UNWANTED, **STAMP})
    first = Dedicated(clusters["B"], properties, name="first")
    second = Dedicated(clusters["B"], {**properties, "tasks.max": "3"}, name="second")
    with started(clusters["A"], clusters["B"]):
        try:
            for alias in "AB":
                clusters[alias].create_topic(ORDERS, PARTITIONS)
            made.produce()
            commit(clusters["A"], GROUP, ORDERS, RECORDS // PARTITIONS, partitions=range(PARTITIONS))
            first.start()
            made.wait_copied(("A", "B"), ("B", "A"))
            _see_the_first_node(made, first)
            _see_it_replaced(made, first, second)
            clusters["C"].start()
            made.wait_copied(("C", "A"))
            wait_ends(clusters["C"], "heartbeats", {0: 1}, PATIENCE_S)
            _see_the_end(made, second)
            yield made
        finally:
            second.close()
            first.close()
            clusters["C"].close()


def _see_the_first_node(made: Links, node: Dedicated) -> None:
    made.root = node.call("GET", "/")
    made.drivers = len(node.parts()[DRIVER])
    for name in (SOURCE, CHECKPOINT, HEARTBEAT):
        node.wait_running(f"A/B/{name}")
        node.wait_running(f"C/A/{name}", tasks=1 if name == HEARTBEAT else 0)
        wait_for_state(lambda name=name: node.states(f"B/A/{name}")[:1] == ["RUNNING"], f"B/A/{name} is RUNNING")
    for flow in ("A/B", "B/A", "C/A"):
        for name in (SOURCE, CHECKPOINT, HEARTBEAT):
            made.while_c_was_away[f"{flow}/{name}"] = node.states(f"{flow}/{name}")
            made.workers.add(node.status(f"{flow}/{name}")["connector"]["worker_id"])
    made.away_line = node.wait_logged("[A->C] ")
    at_rest = {"records": 0, "seconds": 0.0, "partitions_behind": 0, "partitions_unknown": 0}

    def shown_at_rest() -> dict[str, dict[str, Any]] | None:
        shown = _shown(node)
        flows = [shown[flow] for flow in ("A->B", "B->A")]
        rest = all((each["lag"], each["partitions"]) == (at_rest, PARTITIONS + 1) for each in flows)
        return shown if rest and shown["C->A"]["state"] == "RUNNING" else None

    made.leading = wait_for_state(shown_at_rest, "both flows are shown at rest, with the heartbeats of the third")
    wait_for(lambda: len(_checkpoints(made)) == PARTITIONS, "the group is translated", PATIENCE_S, 0.3)
    wait_ends(made.clusters["B"], "A.heartbeats", {0: 1}, PATIENCE_S)


def _see_it_replaced(made: Links, first: Dedicated, second: Dedicated) -> None:
    second.start()
    made.standby_line = second.wait_logged("The config of the leader")
    made.nodes = wait_for_state(lambda: _shares(second), "both nodes run a part of A->B, and all of it")
    made.sharing = wait_for_state(lambda: _knows_all(_shown(second)), "the second node knows all of A->B")
    first.kill()
    made.produce()
    made.leading_line = second.wait_logged("is in force now")
    made.wait_copied(("A", "B"), ("B", "A"))


def _shares(node: Dedicated) -> list[dict[str, Any]] | None:
    """The workers of A->B, once both have a part of it and nothing is on its way between them."""
    workers: list[dict[str, Any]] = node.call("GET", "/A/B/admin/workers")["workers"]
    work = sum(len(each["connectors"]) + len(each["tasks"]) for each in workers)
    shared = len(workers) == 2 and all(each["connectors"] or each["tasks"] for each in workers)
    return workers if shared and work >= 6 else None


def _knows_all(shown: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]] | None:
    """All links, once the node knows all of A->B, which is at rest."""
    link = shown["A->B"]
    known = link["unknown_workers"] == [] and link["lag"]["partitions_unknown"] == 0 and link["problems"] == []
    rest = link["state"] == "RUNNING" and link["lag"]["records"] == 0 and link["partitions"] == PARTITIONS + 1
    return shown if known and rest else None


def _shown(node: Dedicated) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in node.call("GET", "/admin/links")["links"]}


def _see_the_end(made: Links, node: Dedicated) -> None:
    made.exit_code = node.stop()
    for flow, alias in (("A", "B"), ("B", "A"), ("A", "C")):
        stored = made.newest(alias, f"mm2-status.{flow}.internal")
        made.statuses[f"{flow}->{alias}"] = {
            key: json.loads(value)["state"] for key, value in stored.items() if value and b'"state"' in value
        }


def _checkpoints(made: Links) -> list[Checkpoint]:
    topic = "A.checkpoints.internal"
    if topic not in made.clusters["B"].admin().list_topics(timeout=60).topics:
        return []
    found = [Checkpoint.decode(m.key(), m.value()) for m in messages(made.clusters["B"], topic, 0)]
    return list({each.of: each for each in found if each.group == GROUP}.values())


@pytest.mark.kafka_test("DedicatedMirrorIntegrationTest.testSingleNodeCluster")
@pytest.mark.kafka_test("DedicatedMirrorIntegrationTest.testMultiNodeCluster")
@pytest.mark.parametrize(("alias", "origin"), [("B", "A"), ("A", "B"), ("C", "A")])
def test_every_flow_copies_all_records_also_after_a_kill_and_where_its_cluster_came_late(
    links: Links, alias: str, origin: str
) -> None:
    found = values(links.clusters[alias], f"{origin}.{ORDERS}", PARTITIONS)
    assert [list(dict.fromkeys(each)) for each in found] == links.produced[origin]


def test_the_transformations_of_a_flow_are_those_of_its_copies_alone(links: Links) -> None:
    def headers(alias: str, topic: str) -> set[str]:
        count = len(links.clusters[alias].admin().list_topics(topic, timeout=60).topics[topic].partitions)
        found = [each.headers() for number in range(count) for each in messages(links.clusters[alias], topic, number)]
        assert found
        return {repr(each) for each in found}

    assert headers("C", f"A.{ORDERS}") == {"[('from', b'A')]"}
    assert headers("B", f"A.{ORDERS}") == {"None"}
    assert headers("C", "heartbeats") == {"None"}


def test_one_spark_application_runs_all_flows(links: Links) -> None:
    assert links.drivers == 1


def test_a_cluster_that_is_away_is_named_and_stops_no_other_flow(links: Links) -> None:
    assert links.clusters["C"].bootstrap_servers in links.away_line
    assert links.while_c_was_away["A/B/MirrorSourceConnector"] == ["RUNNING"] * 2


def test_a_flow_that_is_not_enabled_runs_its_heartbeats_alone(links: Links) -> None:
    assert {name: len(states) - 1 for name, states in links.while_c_was_away.items() if name.startswith("C/A")} == {
        f"C/A/{SOURCE}": 0,
        f"C/A/{CHECKPOINT}": 0,
        f"C/A/{HEARTBEAT}": 1,
    }


def test_heartbeats_are_on_both_sides_of_a_flow(links: Links) -> None:
    def beats(alias: str, topic: str) -> set[tuple[str, str]]:
        found = [Heartbeat.decode(m.key(), m.value()) for m in messages(links.clusters[alias], topic, 0)]
        return {(beat.source_alias, beat.target_alias) for beat in found}

    assert beats("A", "heartbeats") == {("B", "A"), ("C", "A")}
    assert beats("B", "heartbeats") == {("A", "B")}
    assert beats("B", "A.heartbeats") == {("B", "A"), ("C", "A")}


def test_a_group_is_translated(links: Links) -> None:
    there = values(links.clusters["B"], f"A.{ORDERS}", PARTITIONS)
    found = _checkpoints(links)
    assert {each.partition: each.upstream for each in found} == dict.fromkeys(range(PARTITIONS), RECORDS // PARTITIONS)
    for each in found:
        # The kill may have repeated what the group has not read yet. Then it may begin in front of either copy.
        reads = list(dict.fromkeys(there[each.partition][each.downstream :]))
        assert reads == links.produced["A"][each.partition][each.upstream :]


def test_the_internal_topics_are_those_of_mirrormaker(links: Links) -> None:
    topics = links.clusters["B"].admin().list_topics(timeout=60).topics
    found = {name: len(topic.partitions) for name, topic in topics.items() if not name.startswith("__")}
    assert found == {
        ORDERS: PARTITIONS,
        f"A.{ORDERS}": PARTITIONS,
        "heartbeats": 1,
        "A.heartbeats": 1,
        "A.checkpoints.internal": 1,
        "mm2-configs.A.internal": 1,
        "mm2-offsets.A.internal": 25,
        "mm2-status.A.internal": 5,
        "mm2-offset-syncs.A.internal": 1,
        # Of our own: docs/internal-formats.md, Offset ranges.
        "mm2-offset-runs.A.internal": 1,
    }


def test_the_keys_in_the_internal_topics_are_those_of_mirrormaker(links: Links) -> None:
    offsets = set(links.newest("B", "mm2-offsets.A.internal"))
    assert f'["{SOURCE}",{{"cluster":"A","partition":0,"topic":"{ORDERS}"}}]' in offsets
    assert f'["{HEARTBEAT}",{{"sourceClusterAlias":"A","targetClusterAlias":"B"}}]' in offsets
    configs = set(links.newest("B", "mm2-configs.A.internal"))
    assert {"session-key", *(f"connector-{name}" for name in (SOURCE, CHECKPOINT, HEARTBEAT))} <= configs


def test_statuses_name_the_node_and_the_flow(links: Links) -> None:
    assert {name.partition("/")[2] for name in links.workers} == {"A->B", "B->A", "C->A"}


def test_the_internal_rest_names_the_flows(links: Links) -> None:
    assert links.root["flows"] == {flow: f"/{flow[0]}/{flow[-1]}" for flow in ("A->B", "A->C", "B->A", "C->A")}


def test_the_links_of_all_flows_are_shown_and_which_flow_is_not_up(links: Links) -> None:
    states = {name: (each["state"], each["leads"], each["partitions"]) for name, each in links.leading.items()}
    copied = PARTITIONS + 1  # the heartbeats, too
    assert states == {
        "A->B": ("RUNNING", True, copied),
        "A->C": ("UNASSIGNED", False, 0),
        "B->A": ("RUNNING", True, copied),
        "C->A": ("RUNNING", True, 0),
    }
    assert {name for name, each in links.leading.items() if each["trace"]} == {"A->C"}


def test_two_nodes_with_the_same_flows_share_them(links: Links) -> None:
    connectors = [name for each in links.nodes for name in each["connectors"]]
    tasks = [(task["connector"], task["task"]) for each in links.nodes for task in each["tasks"]]
    assert sorted(connectors) == sorted((SOURCE, CHECKPOINT, HEARTBEAT))
    assert sorted(tasks) == sorted((name, 0) for name in (SOURCE, CHECKPOINT, HEARTBEAT))
    assert [each["leads"] for each in links.nodes].count(True) == 1
    # No node has more than its share plus one.
    assert max(len(each["tasks"]) for each in links.nodes) <= 3


def test_the_second_node_shows_all_of_a_flow_too(links: Links) -> None:
    shown = links.sharing["A->B"]
    assert (shown["state"], shown["partitions"]) == ("RUNNING", PARTITIONS + 1)
    assert (shown["lag"]["records"], shown["problems"]) == (0, [])


def test_a_node_with_another_file_says_what_differs_and_whose_config_is_in_force(links: Links) -> None:
    assert " has other values of tasks.max than the connectors that run. " in links.standby_line
    assert "The config of the leader (http://" in links.standby_line


def test_a_node_that_takes_over_says_that_its_file_is_in_force(links: Links) -> None:
    assert "with other values of tasks.max. This node (" in links.leading_line
    for alias in ("A", "B"):
        (origin,) = {"A", "B"} - {alias}
        stored = links.newest(alias, f"mm2-configs.{origin}.internal")[f"connector-{SOURCE}"]
        assert json.loads(stored or b"")["properties"]["tasks.max"] == "3"


def test_sigterm_ends_it_in_time_and_leaves_everything_unassigned(links: Links) -> None:
    # A node that takes longer than nine seconds ends with another code.
    assert links.exit_code == 0
    for flow, states in links.statuses.items():
        assert set(states.values()) == {"UNASSIGNED"}, flow
