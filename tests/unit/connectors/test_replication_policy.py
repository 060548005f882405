import json
from pathlib import Path
from typing import Any

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.filters import NameFilter, TopicSelection
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy, replication_policy
from mirror_connect.connectors.user_code.known_classes import DEFAULT_POLICY, IDENTITY_POLICY
from mirror_connect.connectors.user_code.user_class import PLUGIN_PATH, UserClass
from tests.paths import FIXTURES

LINES = (FIXTURES / "replication-policy-vectors.jsonl").read_text().splitlines()
VECTORS = [json.loads(line) for line in LINES]
NAMES = [vector for vector in VECTORS if vector["kind"] == "policy"]
TOPICS = [vector for vector in VECTORS if vector["kind"] == "policy-topic"]

NOT_SAID = {"kind", "class", "separator", "internal_separator_enabled", "topic"}


def policy_of(vector: dict[str, Any]) -> DefaultReplicationPolicy:
    config = {
        "replication.policy.class": IDENTITY_POLICY if vector["class"] == "identity" else DEFAULT_POLICY,
        "source.cluster.alias": vector.get("source_alias") or "A",
    }
    if vector["separator"] is not None:
        config["replication.policy.separator"] = vector["separator"]
    if vector["internal_separator_enabled"] is not None:
        config["replication.policy.internal.topic.separator.enabled"] = str(
            vector["internal_separator_enabled"]
        ).lower()
    return replication_policy(config)


def test_the_vectors_are_all_of_a_known_kind() -> None:
    assert len(NAMES) + len(TOPICS) == len(VECTORS) > 100


@pytest.mark.kafka_test("ReplicationPolicyTest.offsetSyncsTopic_shouldBeEffectedByInternalTopicSeparatorEnabled")
@pytest.mark.kafka_test("ReplicationPolicyTest.checkpointsTopic_shouldBeEffectedByInternalTopicSeparatorEnabled")
@pytest.mark.kafka_test("MirrorConnectorConfigTest.testReplicationPolicy")
@pytest.mark.parametrize(
    "vector", NAMES, ids=lambda v: f"{v['class']}-{v['separator']}-{v['internal_separator_enabled']}"
)
def test_names_of_own_topics_are_those_of_kafka(vector: dict[str, Any]) -> None:
    policy = policy_of(vector)
    assert (policy.offset_syncs_topic("B"), policy.checkpoints_topic("A")) == (
        vector["offset_syncs_topic_for_B"],
        vector["checkpoints_topic_for_A"],
    )


@pytest.mark.kafka_test("MirrorClientTest.testIsHeartbeatTopic")
@pytest.mark.kafka_test("MirrorClientTest.testIsCheckpointTopic")
@pytest.mark.kafka_test("MirrorClientTest.testIdentityReplicationTopicSource")
@pytest.mark.kafka_test("ReplicationPolicyTest.testInternalTopic")
@pytest.mark.kafka_test("ReplicationPolicyTest.heartbeatsTopic_shouldNotBeEffectedByInternalTopicSeparatorConfig")
@pytest.mark.parametrize(
    "vector",
    TOPICS,
    ids=lambda v: f"{v['class']}-{v['separator']}-{v['internal_separator_enabled']}-{v['topic']}",
)
def test_what_a_name_says_is_what_kafka_reads_in_it(vector: dict[str, Any]) -> None:
    policy = policy_of(vector)
    everything = TopicSelection(policy, NameFilter.compile("topics", [".*"]), NameFilter(None), "B")
    topic = vector["topic"]
    assert {
        "remote_from_A": policy.remote_topic("A", topic),
        "source": policy.source(topic),
        "upstream": policy.upstream(topic),
        "original": policy.original(topic),
        "is_heartbeats": policy.is_heartbeats(topic),
        "is_checkpoints": policy.is_checkpoints(topic),
        "is_mm2_internal": policy.is_mm2_internal(topic),
        "is_internal": policy.is_internal(topic),
        "cycle_A_to_B": policy.is_cycle(topic, "B"),
        "replicated_A_to_B": everything.should_replicate(topic),
    } == {name: vector[name] for name in vector if name not in NOT_SAID}


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testIdentityReplication")
@pytest.mark.parametrize(
    ("topic", "copied"),
    [
        *(("A.B.orders", True), ("B.A.orders", True), ("B.orders", True), ("orders", True)),
        *(("heartbeats", True), ("C.heartbeats", True)),
        *(("B.heartbeats", False), ("B.A.heartbeats", False), ("A.B.heartbeats", False), ("A.B.A.heartbeats", False)),
    ],
)
def test_with_names_that_stay_only_heartbeats_tell_a_cycle(topic: str, copied: bool) -> None:
    policy = replication_policy({"replication.policy.class": IDENTITY_POLICY, "source.cluster.alias": "A"})
    selection = TopicSelection(policy, NameFilter.compile("topics", [".*"]), NameFilter(None), "B")
    assert selection.should_replicate(topic) is copied


def test_an_unknown_policy_is_named() -> None:
    with pytest.raises(ConfigError, match=r"com\.example\.Mine.*replication\.policy\.class"):
        replication_policy({"replication.policy.class": "com.example.Mine"})


@pytest.fixture
def user_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> DefaultReplicationPolicy:
    """Upstream topics go round and round for `a` and `b`, `.b` has none; it names no remote topic for `nameless`."""
    (tmp_path / "mine.py").write_text(
        "class Mine:\n"
        "    def format_remote_topic(self, source_alias, topic): return '' if topic == 'nameless' else topic\n"
        "    def topic_source(self, topic): return 'C'\n"
        "    def upstream_topic(self, topic): return {'a': 'b', 'b': 'a', '.b': None}.get(topic, topic)\n"
    )
    monkeypatch.setenv(PLUGIN_PATH, str(tmp_path))
    return replication_policy({"replication.policy.class": "python:mine:Mine"})


def test_a_users_policy_whose_names_lead_in_a_circle_is_told(user_policy: DefaultReplicationPolicy) -> None:
    with pytest.raises(ConfigError, match=r"python:mine:Mine .* upstream_topic leads from 'a' on without end, by 'b'"):
        user_policy.is_cycle("a", "B")


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testIsCycleWithNullUpstreamTopic")
def test_a_copy_without_an_upstream_topic_is_no_cycle(user_policy: DefaultReplicationPolicy) -> None:
    assert not user_policy.is_cycle(".b", "B")


def test_a_users_policy_has_to_name_a_remote_topic(user_policy: DefaultReplicationPolicy) -> None:
    with pytest.raises(ConfigError, match=r"format_remote_topic\('A', 'nameless'\) returned '', which names no topic"):
        user_policy.remote_topic("A", "nameless")


def test_own_topics_are_named_as_ever_with_a_users_policy(user_policy: DefaultReplicationPolicy) -> None:
    assert user_policy.checkpoints_topic("A") == "A.checkpoints.internal"


def test_a_users_policy_is_asked_a_question_once(
    user_policy: DefaultReplicationPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    user_policy.remote_topic("A", "orders")
    monkeypatch.setattr(UserClass, "ask", lambda *_: pytest.fail("it was asked again"))
    assert user_policy.remote_topic("A", "orders") == "orders"
