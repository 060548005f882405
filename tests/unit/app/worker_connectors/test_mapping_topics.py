"""The topics of offset syncs and runs: where they are made, with how many replicas, and when not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from mirror_connect.app.worker_connectors.mapping_topics import make_mapping_topics
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.admin.admin import AdminError, ClusterAdmin

CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


class Admin:
    """A cluster of `brokers`; `refusal` is raised by every creation."""

    def __init__(self, brokers: int = 3, refusal: Exception | None = None) -> None:
        self.brokers, self.refusal = brokers, refusal
        self.created: dict[str, int] = {}

    def cluster_id(self) -> str:
        return "id"

    def broker_count(self) -> int:
        return self.brokers

    def create_topic(self, topic: str, partitions: int, replicas: int, configs: Mapping[str, str]) -> None:
        if self.refusal is not None:
            raise self.refusal
        if replicas > self.brokers:
            raise AdminError("too many", 38)
        assert (partitions, configs) == (1, {"cleanup.policy": "compact"})
        self.created[topic] = replicas


def made(source: Admin, target: Admin, **config: str) -> list[str]:
    settings = connector_definition(CLASS).settings(
        {
            "name": "c",
            "connector.class": CLASS,
            "source.cluster.alias": "A",
            "target.cluster.alias": "B",
            **{name.replace("__", "."): value for name, value in config.items()},
        }
    )
    return make_mapping_topics(settings, cast("ClusterAdmin", source), cast("ClusterAdmin", target))


@pytest.mark.kafka_test("MirrorSourceConfigTest.testAdminConfigsForOffsetSyncsTopic")
@pytest.mark.parametrize(
    ("location", "at_source", "at_target"),
    [
        ("source", {"mm2-offset-syncs.B.internal": 3}, {"mm2-offset-runs.A.internal": 3}),
        ("target", {}, {"mm2-offset-syncs.A.internal": 3, "mm2-offset-runs.A.internal": 3}),
    ],
)
def test_syncs_are_made_where_the_config_says_and_runs_on_the_target(
    location: str, at_source: dict[str, int], at_target: dict[str, int]
) -> None:
    source, target = Admin(), Admin()
    settings = {"offset-syncs.topic.location": location}
    assert (made(source, target, **settings), source.created, target.created) == ([], at_source, at_target)


def test_a_cluster_of_fewer_brokers_gets_fewer_replicas() -> None:
    source, target = Admin(brokers=1), Admin(brokers=2)
    assert made(source, target) == []
    assert (list(source.created.values()), list(target.created.values())) == ([1], [2])


@pytest.mark.kafka_test("DedicatedMirrorIntegrationTest.testClusterWithEmitOffsetDisabled")
def test_without_syncs_no_topic_is_made() -> None:
    source, target = Admin(), Admin()
    assert made(source, target, **{"emit.offset-syncs.enabled": "false"}) == []
    assert (source.created, target.created) == ({}, {})


def test_what_may_pass_is_told_and_a_missing_right_is_left_to_others() -> None:
    assert made(Admin(refusal=NotAuthorized("denied")), Admin(refusal=AdminError("not now", 41))) == ["not now"]
