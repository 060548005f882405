"""Names of remote topics with a RegexRouter: which have a route, and where a topic comes from."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.mirror.filters import LeftOut
from mirror_connect.connectors.mirror.mirror_source import MirrorSource, topic_selection
from mirror_connect.connectors.mirror.routed_policy import routed_policy
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY

CONFIG = {
    "name": "m",
    "connector.class": MirrorSource.class_name,
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "transforms": "route",
    "transforms.route.type": "RegexRouter",
    "transforms.route.regex": r"A\.(.*)",
    "transforms.route.replacement": "$1",
}


def test_the_route_is_for_the_name_that_the_policy_gave() -> None:
    policy = routed_policy(CONFIG)
    assert (policy.remote_topic("A", "orders"), policy.named_topic("A", "orders")) == ("orders", "A.orders")
    keeping = routed_policy({**CONFIG, "replication.policy.class": IDENTITY_POLICY, "transforms.route.regex": "(.*)s"})
    assert keeping.remote_topic("A", "orders") == "order"


@pytest.mark.parametrize("topic", ["heartbeats", "C.heartbeats"])
def test_heartbeats_keep_their_names(topic: str) -> None:
    assert routed_policy(CONFIG).remote_topic("A", topic) == f"A.{topic}"


def test_the_origin_of_a_topic_is_read_as_by_the_policy() -> None:
    routed, plain = routed_policy(CONFIG), DefaultReplicationPolicy()
    for name in ("orders", "A.orders", "B.orders", "C.B.orders", "B.heartbeats", "B.checkpoints.internal"):
        assert [routed.source(name), routed.upstream(name), routed.original(name), routed.is_cycle(name, "B")] == [
            *(plain.source(name), plain.upstream(name), plain.original(name), plain.is_cycle(name, "B")),
        ]
        assert (routed.is_heartbeats(name), routed.is_internal(name)) == (
            plain.is_heartbeats(name),
            plain.is_internal(name),
        )


def test_topics_of_mirrormaker_keep_their_names() -> None:
    routed, plain = routed_policy({**CONFIG, "transforms.route.regex": "(.*)"}), DefaultReplicationPolicy()
    assert routed.checkpoints_topic("A") == plain.checkpoints_topic("A")
    assert routed.offset_syncs_topic("B") == plain.offset_syncs_topic("B")


@pytest.mark.parametrize("name", ["__consumer_offsets", "connect-configs", "A.checkpoints.internal", "mm2-x.internal"])
def test_no_route_leads_into_a_topic_of_others(name: str) -> None:
    settings = MirrorSource().settings({**CONFIG, "topics": ".*", "transforms.route.replacement": name})
    selection = topic_selection(settings).with_reserved({"connect-configs"})
    selection.judge(["orders"])
    assert selection.left_out("orders") is LeftOut.RESERVED


def test_without_a_route_it_is_the_policy_itself() -> None:
    config = {name: value for name, value in CONFIG.items() if not name.startswith("transforms")}
    filtering = {**config, "transforms": "all", "transforms.all.type": "Filter"}
    assert routed_policy(config) == routed_policy(filtering) == DefaultReplicationPolicy()
