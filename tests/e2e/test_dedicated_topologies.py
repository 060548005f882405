"""The topologies of Kafka's guide with four clusters: one mm2.properties file, in which each has topics of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.brokers import UNHURRIED, started
from tests.contract.mm2_texts import SIX, SIX_FLOWS
from tests.e2e.copies import Copies, copies
from tests.e2e.dedicated import Dedicated, mm2_properties
from tests.e2e.product import PATIENCE_S

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long, pytest.mark.soak]

# Topic → the flows that copy it. A, B and C also stand for the guide's names.
TOPOLOGIES: Final[Mapping[str, tuple[str, ...]]] = {
    "active-passive": ("A->B",),
    "active-active": ("A->B", "B->A"),
    "aggregation": ("A->D", "B->D", "C->D"),
    "fan-out": ("D->A", "D->B", "D->C"),
    "forwarding": ("A->B", "B->C", "C->D"),
}
ALL_FLOWS: Final = tuple(dict.fromkeys(flow for flows in TOPOLOGIES.values() for flow in flows))


@pytest.fixture(scope="module")
def four() -> Iterator[dict[str, Copies]]:
    clusters = {alias: LocalCluster(alias, properties=UNHURRIED) for alias in "ABCD"}
    topics: dict[str, list[str]] = {f"{flow}.topics": [] for flow in ALL_FLOWS}
    made = {}
    for topic, flows in TOPOLOGIES.items():
        pairs = tuple((flow[0], flow[-1]) for flow in flows)
        for flow in flows:
            # Copies of copies have prefixes.
            topics[f"{flow}.topics"].append(rf"(.*\.)?{topic}")
        origins = tuple(dict.fromkeys(source for source, _ in pairs))[: 1 if topic == "forwarding" else None]
        made[topic] = Copies(clusters, copies(topic, pairs, origins))
    quiet = {"emit.heartbeats.enabled": "false", "groups": ""}
    properties = mm2_properties(clusters, ALL_FLOWS, {name: ", ".join(each) for name, each in topics.items()} | quiet)
    with started(*clusters.values()), ExitStack() as stack:
        for topic, each in made.items():
            for origin in {origin for found in each.expected.values() for origin in found.values()}:
                each.produce(origin, topic)
        node = Dedicated(clusters["B"], properties, name="four")
        stack.callback(node.close)
        node.start()
        for each in made.values():
            each.wait(node, PATIENCE_S)
        yield made


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_topology_of_four_clusters_copies_each_topic_to_where_its_flows_lead(
    four: dict[str, Copies], topology: str
) -> None:
    made = four[topology]
    for alias in made.clusters:
        made.check(alias, topology)


def test_copies_lie_where_the_guide_says() -> None:
    pairs = tuple((flow[0], flow[-1]) for flow in TOPOLOGIES["forwarding"])
    assert copies("t", pairs, ("A",)) == {
        "A": {"t": "A"},
        "B": {"A.t": "A"},
        "C": {"B.A.t": "A"},
        "D": {"C.B.A.t": "A"},
    }
    six = copies("t", SIX_FLOWS, SIX)
    assert {alias: len(found) for alias, found in six.items()} == dict.fromkeys(SIX, 10)
