"""Three clusters and five links between them: active/active, chain, fan-in, fan-out and ring, and no record in a circle.

The links are A → B, B → A, B → C, C → A and A → C; each is told to copy whatever there is, so that the rules alone decide
where a topic goes and where it ends. Every cluster has topics of the same names. The links are connectors of one worker
on B, or flows of one mm2.properties file.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

import pytest

from deploy.local import LocalCluster
from deploy.local.kafka_tools import run_tool
from mirror_connect.connectors.records.heartbeats import Heartbeat
from tests.brokers import messages, started
from tests.e2e.dedicated import SOURCE, Dedicated, mm2_properties
from tests.e2e.ends import wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import values
from tests.paths import TESTS

# test_dedicated.py has three clusters, two of which copy each other.
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

ALIASES: Final = ("A", "B", "C")
LINKS: Final = (("A", "B"), ("B", "A"), ("B", "C"), ("C", "A"), ("A", "C"))
# One emitter for each cluster that is written to: a link's heartbeats lie on its target, under its two names.
EMITTERS: Final = (("B", "A"), ("A", "B"), ("B", "C"))
# Where topics of other clusters come to lie: cluster → the prefixes that it has.
PREFIXES: Final = {
    "A": {"B.", "C.", "C.B."},
    "B": {"A.", "A.C."},
    "C": {"A.", "B.", "A.B.", "B.A."},
}
ORDERS, MARKER, HEARTBEATS = "orders", "marker", "heartbeats"
PARTITIONS, RECORDS = 2, 50
HEARTBEAT: Final = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"


@dataclass
class Mesh:
    """The clusters by alias after everything has gone everywhere, and a line for each of what Kafka's client says."""

    clusters: dict[str, LocalCluster]
    produced: dict[str, list[list[bytes | None]]] = field(
        default_factory=lambda: {alias: [[] for _ in range(PARTITIONS)] for alias in ALIASES}
    )
    told: dict[str, str] = field(default_factory=dict)

    def produce(self) -> None:
        """More orders on every cluster; none is like another."""
        for alias, cluster in self.clusters.items():
            first = sum(map(len, self.produced[alias]))
            rows = [(b"%s %d" % (alias.encode(), n), n % PARTITIONS) for n in range(first, first + RECORDS)]
            produce(cluster, ORDERS, ({"value": value, "partition": partition} for value, partition in rows))
            for value, partition in rows:
                self.produced[alias][partition].append(value)

    def wait_everywhere(self, topic: str, each: int) -> None:
        """Until every copy of `topic` has `each` records in each of its partitions."""
        for alias, prefixes in PREFIXES.items():
            partitions = PARTITIONS if topic == ORDERS else 1
            for prefix in prefixes:
                wait_ends(self.clusters[alias], prefix + topic, dict.fromkeys(range(partitions), each))

    def topics(self, alias: str, topic: str) -> set[str]:
        """Names on a cluster that end with `topic`."""
        return {name for name in self.clusters[alias].admin().list_topics(timeout=60).topics if name.endswith(topic)}


@pytest.fixture(scope="module", params=["connectors", "dedicated"])
def mesh(request: pytest.FixtureRequest) -> Iterator[Mesh]:
    clusters = {alias: LocalCluster(alias) for alias in ALIASES}
    with ExitStack() as stack:
        stack.enter_context(started(*clusters.values()))
        made = Mesh(clusters)
        connectors = request.param == "connectors"
        product = Product(clusters["B"], group="mesh") if connectors else dedicated(clusters)
        stack.callback(product.close)
        with ThreadPoolExecutor(1) as pool:
            starting = pool.submit(product.start)
            for cluster in clusters.values():
                cluster.create_topic(ORDERS, PARTITIONS)
            made.produce()
            starting.result()
        if connectors:
            put_connectors(product, clusters)
        for source, target in LINKS:
            product.wait_running(f"{source}-{target}" if connectors else f"{source}/{target}/{SOURCE}")
        made.wait_everywhere(ORDERS, RECORDS // PARTITIONS)
        made.wait_everywhere(HEARTBEATS, 1)
        # Every link that brings the marker has looked for topics after all of the above were there.
        for cluster in clusters.values():
            cluster.create_topic(MARKER, 1)
            produce(cluster, MARKER, [{"value": b"seen", "partition": 0}])
        made.produce()
        made.wait_everywhere(MARKER, 1)
        made.wait_everywhere(ORDERS, 2 * RECORDS // PARTITIONS)
        made.told = read_by_kafka(clusters)
        yield made


def put_connectors(product: Product, clusters: dict[str, LocalCluster]) -> None:
    for source, target in EMITTERS:
        config = link_config(clusters, source, target)
        product.put(f"heartbeats-{source}-{target}", {**config, "connector.class": HEARTBEAT})
    for source, target in LINKS:
        product.put(f"{source}-{target}", link_config(clusters, source, target))


def dedicated(clusters: dict[str, LocalCluster]) -> Dedicated:
    emitters = {f"{source}->{target}.emit.heartbeats.enabled": "true" for source, target in EMITTERS}
    topics = {"topics": f".*{ORDERS},.*{MARKER}", "emit.heartbeats.enabled": "false"}
    flows = [f"{source}->{target}" for source, target in LINKS]
    return Dedicated(clusters["B"], mm2_properties(clusters, flows, topics | emitters), name="mesh")


def link_config(clusters: dict[str, LocalCluster], source: str, target: str) -> dict[str, str]:
    settings = {"source_cluster_alias": source, "target_cluster_alias": target}
    # The worker's own topics would be copied, too.
    return mirror_config(clusters[source], clusters[target], f".*{ORDERS},.*{MARKER}", **settings)


def read_by_kafka(clusters: dict[str, LocalCluster]) -> dict[str, str]:
    """What Kafka's client says of each cluster, a line by alias; all of them in one start of Java."""
    files = [str(cluster.write_client_properties()) for cluster in clusters.values()]
    told = run_tool(
        str(TESTS / "java" / "ReadTopology.java"),
        [",".join((*ALIASES, "Z")), *files],
        properties={},
        directory=clusters["A"].directory,
    )
    return dict(zip(clusters, told.splitlines(), strict=True))


@pytest.mark.parametrize(
    ("cluster", "prefix"),
    [
        pytest.param("B", "A.", id="active_active_one_way"),
        pytest.param("A", "B.", id="active_active_the_other"),
        pytest.param("C", "B.A.", id="chain_of_a_b_c"),
        pytest.param("C", "A.", id="fan_in_of_a_and_fan_out_to_c"),
        pytest.param("C", "B.", id="fan_in_of_b_and_ring"),
        pytest.param("A", "C.B.", id="ring_of_b_c_a"),
        pytest.param("B", "A.C.", id="ring_of_c_a_b"),
        pytest.param("A", "C.", id="ring_of_c_a"),
        pytest.param("C", "A.B.", id="chain_of_b_a_c"),
    ],
)
def test_a_copy_has_the_records_of_its_origin_and_no_others(mesh: Mesh, cluster: str, prefix: str) -> None:
    origin = prefix.rstrip(".").split(".")[-1]
    assert values(mesh.clusters[cluster], prefix + ORDERS, PARTITIONS) == mesh.produced[origin]


@pytest.mark.parametrize("cluster", ALIASES)
def test_what_is_written_at_home_stays_as_it_was(mesh: Mesh, cluster: str) -> None:
    assert values(mesh.clusters[cluster], ORDERS, PARTITIONS) == mesh.produced[cluster]


@pytest.mark.parametrize("topic", [ORDERS, MARKER, HEARTBEATS])
@pytest.mark.parametrize("cluster", ALIASES)
def test_no_topic_comes_to_a_cluster_where_it_has_been(mesh: Mesh, cluster: str, topic: str) -> None:
    assert mesh.topics(cluster, topic) == {topic, *(prefix + topic for prefix in PREFIXES[cluster])}


@pytest.mark.parametrize(
    ("cluster", "says"),
    [
        pytest.param("A", "upstream [B, C] hops {A=-1, B=1, C=1, Z=-1}", id="a"),
        # From C there is no link to B: its heartbeats come by A.
        pytest.param("B", "upstream [A, C] hops {A=1, B=-1, C=2, Z=-1}", id="b"),
        pytest.param("C", "upstream [A, B] hops {A=1, B=1, C=-1, Z=-1}", id="c"),
    ],
)
@pytest.mark.kafka_test("MirrorClientTest.upstreamClustersTest")
@pytest.mark.kafka_test("MirrorClientTest.replicationHopsTest")
@pytest.mark.kafka_test("MirrorClientTest.countHopsForTopicTest")
def test_kafkas_own_client_tells_the_topology_from_the_heartbeats(mesh: Mesh, cluster: str, says: str) -> None:
    assert mesh.told[cluster].partition(" remote ")[0] == says


@pytest.mark.parametrize("cluster", ALIASES)
@pytest.mark.kafka_test("MirrorClientTest.remoteTopicsTest")
def test_kafkas_own_client_knows_the_copies(mesh: Mesh, cluster: str) -> None:
    copies = (prefix + topic for prefix in PREFIXES[cluster] for topic in (ORDERS, MARKER, HEARTBEATS))
    assert mesh.told[cluster].partition(" remote ")[2] == f"[{', '.join(sorted(copies))}]"


def test_heartbeats_keep_the_names_of_their_link_over_two_hops(mesh: Mesh) -> None:
    beats = [Heartbeat.decode(m.key(), m.value()) for m in messages(mesh.clusters["C"], "B.A.heartbeats", 0)]
    assert {(beat.source_alias, beat.target_alias) for beat in beats} == {("B", "A")}
