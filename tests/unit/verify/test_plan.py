"""Which of a link's topics are compared, and which can't be."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.user_code.known_classes import DEFAULT_POLICY, IDENTITY_POLICY
from mirror_connect.verify.link import link_of
from mirror_connect.verify.plan import one_to_one, orphans

CONFIG = {
    "connector.class": "MirrorSourceConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
    "target.cluster.bootstrap.servers": "b:9092",
    "topics": "orders.*,.*orders-old,checkpoints.*",
}


@pytest.mark.parametrize(
    ("policy", "topic", "named"),
    [
        pytest.param(DEFAULT_POLICY, "A.orders-old", True, id="a_copy_without_its_source"),
        pytest.param(DEFAULT_POLICY, "A.orders", False, id="a_copy_whose_source_is_there"),
        pytest.param(DEFAULT_POLICY, "A.payments", False, id="of_another_connector"),
        pytest.param(DEFAULT_POLICY, "C.orders-old", False, id="of_another_link"),
        pytest.param(DEFAULT_POLICY, "orders-old", False, id="the_targets_own"),
        pytest.param(DEFAULT_POLICY, "A.B.orders-old", False, id="what_is_never_copied"),
        pytest.param(DEFAULT_POLICY, "A.checkpoints.internal", False, id="internal"),
        pytest.param(IDENTITY_POLICY, "orders-old", False, id="names_that_are_kept_tell_nothing"),
    ],
)
def test_copies_whose_topics_the_source_has_not_are_known_by_their_names(policy: str, topic: str, named: bool) -> None:
    link = link_of("m", {**CONFIG, "replication.policy.class": policy})
    assert orphans(link, {"orders"}, {"orders", topic}) == ([topic] if named else [])


@pytest.mark.parametrize(
    ("positions", "compared"),
    [(None, {"a": 1, "c": 3}), ({}, {"a": 1, "c": 3}), ({TopicPartition("b", 0): 5}, {"b": 2, "c": 3})],
)
def test_of_topics_that_share_a_copy_the_one_that_is_copied_is_compared(
    positions: dict[TopicPartition, int] | None, compared: dict[str, int]
) -> None:
    route = {"type": "RegexRouter", "regex": r"A\.(a|b)", "replacement": "both"}
    nowhere = {"type": "RegexRouter", "regex": r"A\.d", "replacement": ""}
    config = {
        **CONFIG,
        "topics": ".*",
        "transforms": "route,nowhere",
        **{f"transforms.route.{name}": value for name, value in route.items()},
        **{f"transforms.nowhere.{name}": value for name, value in nowhere.items()},
    }
    link = link_of("m", config, positions=positions)
    assert one_to_one(link, {"a": 1, "b": 2, "c": 3, "d": 4}) == compared
