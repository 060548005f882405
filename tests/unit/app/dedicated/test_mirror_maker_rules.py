from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_connect.app.config.config_providers import Resolver
from mirror_connect.app.config.properties import parse_properties
from mirror_connect.app.dedicated.mirror_maker_rules import (
    CONNECTOR_NAMES,
    cluster_pairs,
    connector_configs,
    given_to_connectors,
    given_to_worker,
    parsed_list,
    worker_properties,
)
from mirror_connect.connectors.config.security_settings import CLUSTER_CLIENT_NAMES
from tests.contract.mm2_texts import SIX, SIX_FLOWS
from tests.contract.record_mm2_properties import ENVIRONMENT, recorded

MM2 = recorded("mm2")
# Kafka has no answer: MirrorMaker does not start.
ANSWERED = {name: vector for name, vector in MM2.items() if "flows" in vector["recorded"]}


def _flows(text: str) -> dict[str, Any]:
    """What this product makes of a file, in the recorder's form."""
    written = parse_properties(text)
    resolver = Resolver.of(written, ENVIRONMENT)
    resolved = resolver.preview(written)
    flows = {}
    for source, target, _ in cluster_pairs(resolved, parsed_list(resolved["clusters"])):
        worker = worker_properties(written, source, target)
        # Kafka hands the worker the providers as they are written: the worker needs them again.
        kept = {name: value for name, value in worker.items() if name.startswith("config.providers")}
        flows[f"{source}->{target}"] = {
            "worker": resolver.preview(worker) | {name: written.get(name, value) for name, value in kept.items()},
            "connectors": connector_configs(written, source, target),
        }
    return flows


def _recorded_flows(flows: dict[str, Any]) -> dict[str, Any]:
    whole = {}
    for name, flow in flows.items():
        connectors = {kind: {**flow["common"], **own} for kind, own in flow["connectors"].items()}
        whole[name] = {"worker": flow["worker"], "connectors": connectors}
    return whole


@pytest.mark.parametrize("name", ANSWERED)
def test_workers_and_connectors_are_those_that_mirror_maker_makes(name: str) -> None:
    vector = ANSWERED[name]
    assert _flows(vector["text"]) == _recorded_flows(vector["recorded"]["flows"])


def test_names_are_known_as_mirror_maker_knows_them() -> None:
    names = recorded("names")["names"]["recorded"]
    assert sorted(CONNECTOR_NAMES) == names["connectors"]
    assert sorted(CLUSTER_CLIENT_NAMES) == names["clients"]


def test_six_clusters_have_all_thirty_workers_because_of_heartbeats_and_twelve_enabled_flows() -> None:
    properties = {f"{source}->{target}.enabled": "true" for source, target in SIX_FLOWS}
    pairs = list(cluster_pairs(properties, SIX))
    assert len(pairs) == 30
    assert {(source, target) for source, target, enabled in pairs if enabled} == set(SIX_FLOWS)
    quiet = list(cluster_pairs({**properties, "emit.heartbeats.enabled": "false"}, SIX))
    assert {pair[:2] for pair in quiet} == set(SIX_FLOWS)


ALIASES = st.sampled_from(["A", "B", "C.d"])
NAMES = st.sampled_from(
    ["topics", "tasks.max", "enabled", "bootstrap.servers", "producer.acks", "offset.storage.topic", "group.id", "x.y"]
)
PREFIXES = st.sampled_from(["", "A.", "B.", "C.d.", "A->B.", "B->A.", "A->C.d."])
FILES = st.dictionaries(st.builds("{}{}".format, PREFIXES, NAMES), st.text("ab1", max_size=3))


@given(FILES, ALIASES, ALIASES)
def test_a_property_of_the_flow_wins_over_all_others(properties: dict[str, str], source: str, target: str) -> None:
    prefix = f"{source}->{target}."
    own = {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}
    assert given_to_connectors(properties, source, target).items() >= own.items()


@given(FILES, ALIASES, ALIASES)
def test_no_property_of_another_flow_or_cluster_counts(properties: dict[str, str], source: str, target: str) -> None:
    others = [
        f"{one}->{other}."
        for one in ("A", "B", "C.d")
        for other in ("A", "B", "C.d")
        if (one, other) != (source, target)
    ]
    others += [f"{alias}." for alias in ("A", "B", "C.d") if alias not in (source, target)]
    fewer = {name: value for name, value in properties.items() if not name.startswith(tuple(others))}
    assert connector_configs(fewer, source, target) == connector_configs(properties, source, target)
    assert worker_properties(fewer, source, target) == worker_properties(properties, source, target)


@given(FILES, ALIASES, ALIASES)
def test_the_properties_names_in_the_place_of_values_say_where_each_comes_from(
    properties: dict[str, str], source: str, target: str
) -> None:
    names = {name: name for name in properties}
    for of in (lambda given: given_to_connectors(given, source, target), lambda given: given_to_worker(given, target)):
        values, origins = of(properties), of(names)
        assert values == {name: properties[origin] for name, origin in origins.items()}
