"""The largest example of Kafka's guide: six clusters in three places, and a process of dedicated mode for each place.

Both clusters of a place copy each other, and so do the first ones of all places. Heartbeats are on, as in the text. So each
of the thirty pairs has a worker, ten in each process.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass

import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.records.heartbeats import Heartbeat
from tests.brokers import UNHURRIED, messages, started
from tests.contract.mm2_texts import SIX, SIX_FLOWS
from tests.e2e.copies import Copies, copies
from tests.e2e.dedicated import Dedicated, mm2_properties
from tests.waiting import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long, pytest.mark.soak]


@dataclass
class Places:
    """The six clusters, and the flows that each process has."""

    orders: Copies
    flows: dict[str, set[str]]


@pytest.fixture(scope="module")
def six() -> Iterator[Places]:
    clusters = {alias: LocalCluster(alias, properties=UNHURRIED) for alias in SIX}
    made = Places(Copies(clusters, copies("orders", SIX_FLOWS, SIX)), {})
    more = {"topics": r"(.*\.)?orders", "groups": ""}
    properties = mm2_properties(clusters, [f"{source}->{target}" for source, target in SIX_FLOWS], more)
    with started(*clusters.values()), ExitStack() as stack:
        for alias in SIX:
            made.orders.produce(alias, "orders")
        nodes = {}
        for place in ("west", "east", "north"):
            near = [f"{place}-1", f"{place}-2"]
            nodes[place] = Dedicated(clusters[near[0]], properties, name=place, arguments=["--clusters", *near])
            stack.callback(nodes[place].close)
        with ThreadPoolExecutor(len(nodes)) as pool:
            list(pool.map(Dedicated.start, nodes.values()))
        made.orders.wait(nodes["north"], 300.0)
        made.flows = {place: set(node.call("GET", "/")["flows"]) for place, node in nodes.items()}
        yield made


@pytest.mark.parametrize("alias", SIX)
def test_each_of_six_clusters_gets_the_records_of_all_others_and_none_twice(six: Places, alias: str) -> None:
    six.orders.check(alias, "orders")


@pytest.mark.parametrize("target", SIX)
def test_each_of_six_clusters_has_heartbeats_of_all_others(six: Places, target: str) -> None:
    def pairs() -> set[tuple[str, str]]:
        found = [Heartbeat.decode(m.key(), m.value()) for m in messages(six.orders.clusters[target], "heartbeats", 0)]
        return {(beat.source_alias, beat.target_alias) for beat in found}

    wait_for(lambda: len(pairs()) >= len(SIX) - 1, "heartbeats of all others are there", 120.0)
    assert pairs() == {(source, target) for source in SIX if source != target}


def test_heartbeats_go_every_way_that_records_go(six: Places) -> None:
    expected = copies("heartbeats", SIX_FLOWS, SIX)

    def missing() -> list[str]:
        return [
            f"{topic} on {alias}"
            for alias, topics in expected.items()
            for topic in sorted(set(topics) - six.orders.present(alias, "heartbeats"))
        ]

    wait_for(lambda: not missing(), "heartbeats are copied", 120.0, 1.0, lambda: len(missing()))
    for alias, topics in expected.items():
        assert six.orders.present(alias, "heartbeats") == set(topics)


def test_each_place_of_six_clusters_has_the_flows_that_lead_to_it(six: Places) -> None:
    for place, flows in six.flows.items():
        targets = {f"{place}-1", f"{place}-2"}
        assert flows == {
            f"{source}->{target}" for source in SIX for target in SIX if target in targets and source != target
        }
