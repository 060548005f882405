from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_connect.app.config.config_providers import Resolver
from mirror_connect.app.config.properties import parse_properties
from mirror_connect.app.dedicated.mirror_maker_rules import (
    CONNECTOR_NAMES,
    cluster_pairs,
    cluster_properties,
    connector_configs,
    given_to_connectors,
    given_to_worker,
    parsed_list,
    worker_properties,
)
from mirror_connect.connectors.config.security_settings import CLUSTER_CLIENT_NAMES
from mirror_connect.connectors.mirror.settings import client_properties
from tests.contract.mm2_texts import SIX, SIX_FLOWS
from tests.contract.record_mm2_properties import ENVIRONMENT, recorded
from tests.paths import FIXTURES

KINDS = ("consumer", "producer", "admin")
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


@pytest.mark.kafka_test("MirrorMakerConfigTest.testAllConfigNames")
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


AB = {"clusters": "a, b", "a.bootstrap.servers": "one:1", "b.bootstrap.servers": "two:2"}


def _source_connector(properties: dict[str, str]) -> dict[str, str]:
    return connector_configs({**AB, **properties}, "a", "b")["MirrorSourceConnector"]


@pytest.mark.kafka_test("MirrorMakerConfigTest.testClusterConfigProperties")
def test_a_cluster_has_its_own_properties_and_its_brokers_for_each_kind_of_client() -> None:
    of_a = cluster_properties({**AB, "security.protocol": "SSL", "b.security.protocol": "PLAINTEXT"}, "a")
    assert of_a == {
        **dict.fromkeys(["bootstrap.servers", *(f"{kind}.bootstrap.servers" for kind in KINDS)], "one:1"),
        **dict.fromkeys(["security.protocol", *(f"{kind}.security.protocol" for kind in KINDS)], "SSL"),
    }


@pytest.mark.kafka_test("MirrorMakerConfigTest.testReplicationConfigProperties")
def test_a_flows_number_of_tasks_wins_over_that_of_all() -> None:
    assert _source_connector({"tasks.max": "1", "a->b.tasks.max": "123"})["tasks.max"] == "123"
    assert _source_connector({"tasks.max": "1", "b->a.tasks.max": "123"})["tasks.max"] == "1"


@pytest.mark.kafka_test("MirrorMakerConfigTest.testClientConfigProperties")
def test_a_client_has_what_its_cluster_says_for_its_kind_or_for_all() -> None:
    config = _source_connector({"a.ssl.key.password": "x", "a.admin.ssl.key.password": "y", "b.producer.acks": "1"})
    assert client_properties(config, "source", "admin") == {"bootstrap.servers": "one:1", "ssl.key.password": "y"}
    assert client_properties(config, "source", "consumer") == {"bootstrap.servers": "one:1", "ssl.key.password": "x"}
    assert client_properties(config, "target", "producer") == {"bootstrap.servers": "two:2", "acks": "1"}


@pytest.mark.kafka_test("MirrorMakerConfigTest.testIncludesConnectorConfigProperties")
@pytest.mark.kafka_test("MirrorMakerConfigTest.testIncludesTopicFilterProperties")
def test_a_connector_has_the_properties_of_its_flow_and_of_the_top_level() -> None:
    top = {
        "tasks.max": "100",
        "topics": "t-1",
        "groups": "g-2",
        "replication.policy.separator": "__",
        "use.defaults.from": "x",
    }
    config = _source_connector({**top, "a->b.topics": "t-3", "a->b.topics.exclude": "t-4", "a->b.config.of.mine": "5"})
    wanted = {name: value for name, value in top.items() if name not in ("topics", "use.defaults.from")}
    assert config.items() >= {**wanted, "topics": "t-3", "topics.exclude": "t-4", "config.of.mine": "5"}.items()
    assert "use.defaults.from" not in config


@pytest.mark.kafka_test("MirrorMakerConfigTest.testWorkerConfigs")
def test_a_worker_has_the_properties_of_its_target_and_some_of_the_top_level() -> None:
    top = {
        "worker.sync.timeout.ms": "1",
        "task.shutdown.graceful.timeout.ms": "2",
        "key.converter": "K",
        "group.id": "no",
    }
    worker = worker_properties(
        {**AB, **top, "b.client.id": "mine", "a.client.id": "other", "b.worker.sync.timeout.ms": "9"}, "a", "b"
    )
    wanted = {name: value for name, value in top.items() if name != "group.id"}
    assert worker.items() >= {**wanted, "client.id": "mine", "group.id": "a-mm2", "bootstrap.servers": "two:2"}.items()
    assert (worker["offset.storage.topic"], worker["value.converter"].rpartition(".")[2]) == (
        "mm2-offsets.a.internal",
        "ByteArrayConverter",
    )


@pytest.mark.parametrize(
    ("added", "expected"),
    [
        pytest.param(
            {},
            "a->b b->a",
            id="default",
            marks=pytest.mark.kafka_test("MirrorMakerConfigTest.testClusterPairsWithDefaultSettings"),
        ),
        pytest.param(
            {"emit.heartbeats.enabled": "false"},
            "",
            id="no_heartbeats",
            marks=pytest.mark.kafka_test("MirrorMakerConfigTest.testEmptyClusterPairsWithGloballyDisabledHeartbeats"),
        ),
        pytest.param(
            {"a->b.emit.heartbeats.enabled": "false", "b->a.emit.heartbeats.enabled": "false"},
            "",
            id="no_heartbeats_of_both",
            marks=pytest.mark.kafka_test("MirrorMakerConfigTest.testClusterPairsWithTwoDisabledHeartbeats"),
        ),
        pytest.param(
            {"emit.heartbeats.enabled": "false", "a->b.enabled": "true"},
            "a->b",
            id="no_heartbeats_and_one_flow",
            marks=pytest.mark.kafka_test("MirrorMakerConfigTest.testClusterPairsWithGloballyDisabledHeartbeats"),
        ),
        pytest.param(
            {"emit.heartbeats.enabled": "false", "a->b.enabled": "true", "b->a.emit.heartbeats.enabled": "true"},
            "a->b b->a",
            id="heartbeats_of_one",
            marks=pytest.mark.kafka_test(
                "MirrorMakerConfigTest.testClusterPairsWithGloballyDisabledHeartbeatsCentralLocal"
            ),
        ),
    ],
)
def test_flows_have_workers_if_they_are_enabled_or_their_heartbeats(added: dict[str, str], expected: str) -> None:
    assert " ".join(f"{source}->{target}" for source, target, _ in cluster_pairs(added, ["a", "b"])) == expected


@pytest.mark.kafka_test("MirrorMakerConfigTest.testLazyConfigResolution")
def test_references_stay_as_written_in_connectors() -> None:
    references = {"topics": "${p:t}", "a.sasl.jaas.config": "${p:j}", "a->b.groups": "${p:g}", "config.providers": "p"}
    config = _source_connector(references)
    assert (config["topics"], config["groups"], config["config.providers"]) == ("${p:t}", "${p:g}", "p")
    assert config["source.admin.sasl.jaas.config"] == "${p:j}"


def _stored_by_mirror_maker() -> dict[tuple[str, str], dict[str, str]]:
    """Connectors that a MirrorMaker has stored: (topic, key) → config."""
    records = [json.loads(line) for line in (FIXTURES / "dedicated-configs.jsonl").read_text("utf-8").splitlines()]
    decoded = [(record["topic"], record["decoded"]) for record in records]
    found = [(topic, each["key"], each["value"]) for topic, each in decoded]
    return {(topic, key): value["properties"] for topic, key, value in found if key.startswith("connector-")}


def test_a_running_mirror_maker_has_stored_the_same_connectors() -> None:
    text = """
        clusters = A, B
        A.bootstrap.servers = 127.0.0.1:9500
        B.bootstrap.servers = 127.0.0.1:9600
        A.offset.flush.interval.ms = 5000
        B.offset.flush.interval.ms = 5000
        A->B.enabled = true
        A->B.topics = orders,audit,payments.*,exp-gap
        A->B.groups = billing,gapg.*
        A->B.sync.group.offsets.enabled = true
        A->B.sync.group.offsets.interval.seconds = 3
        A->B.emit.checkpoints.interval.seconds = 3
        B->A.enabled = false
        tasks.max = 2
        replication.factor = 1
        checkpoints.topic.replication.factor = 1
        heartbeats.topic.replication.factor = 1
        offset-syncs.topic.replication.factor = 1
        refresh.topics.interval.seconds = 5
        emit.heartbeats.interval.seconds = 5
        metric.names.formats = legacy,new
        config.storage.replication.factor = 1
    """
    ours = {
        (f"mm2-configs.{flow[0]}.internal", f"connector-{name}"): config
        for flow, derived in _flows(text).items()
        for name, config in derived["connectors"].items()
    }
    assert ours == _stored_by_mirror_maker()
