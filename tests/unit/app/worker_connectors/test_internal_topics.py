"""The mirror connectors' own topics: what is created, and what is taken for somebody else's to create."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from mirror_connect.app.worker_connectors.internal_topics import (
    Creation,
    create_internal_topic,
    make_internal_topic,
    make_mapping_topics,
)
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError


class Admin:
    """A cluster of `brokers`; `refusal` is raised by every creation."""

    def __init__(self, brokers: int = 3, refusal: Exception | None = None) -> None:
        self.brokers, self.refusal = brokers, refusal
        self.created: list[tuple[Any, ...]] = []

    def cluster_id(self) -> str:
        return "id"

    def broker_count(self) -> int:
        return self.brokers

    def create_topic(
        self, topic: str, partitions: int, replicas: int, configs: Mapping[str, str], *, validate_only: bool
    ) -> None:
        if self.refusal is not None:
            raise self.refusal
        if replicas > self.brokers:
            raise AdminError("too many", 38)
        if not validate_only:
            self.created.append((topic, partitions, replicas, dict(configs)))


def made(admin: Admin, replicas: int = 3) -> str | None:
    return make_internal_topic(cast("ClusterAdmin", admin), "c", "heartbeats", "a.replication.factor", replicas)


@pytest.mark.kafka_test("MirrorUtilsTest.testCreateCompactedTopic")
@pytest.mark.parametrize("replicas", [3, 1, -1])
def test_a_topic_of_one_partition_is_created_compacted(replicas: int) -> None:
    admin = Admin()
    assert (made(admin, replicas), admin.created) == (
        None,
        [("heartbeats", 1, replicas, {"cleanup.policy": "compact"})],
    )


def test_a_cluster_of_fewer_brokers_has_fewer_replicas_and_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    admin = Admin(brokers=1)
    assert (made(admin), [each[2] for each in admin.created]) == (None, [1])
    assert [record.getMessage() for record in caplog.records] == [
        "Connector c: topic heartbeats is created with 1 replica instead of 3 (a.replication.factor): the cluster has no "
        "more brokers"
    ]


@pytest.mark.parametrize("brokers", [3, 1])
def test_what_is_only_validated_is_not_created(brokers: int) -> None:
    admin = Admin(brokers)
    outcome = create_internal_topic(cast("ClusterAdmin", admin), "heartbeats", 3, validate_only=True)
    assert (outcome, admin.created) == (Creation(brokers), [])


@pytest.mark.kafka_test("MirrorUtilsTest.testCreateCompactedTopicAlreadyExists")
@pytest.mark.kafka_test(
    "MirrorUtilsTest.testCreateCompactedTopicAssumeTopicAlreadyExistsWithUnsupportedVersionException"
)
@pytest.mark.kafka_test(
    "MirrorUtilsTest.testCreateCompactedTopicAssumeTopicAlreadyExistsWithTopicAuthorizationException"
)
@pytest.mark.kafka_test(
    "MirrorUtilsTest.testCreateCompactedTopicAssumeTopicAlreadyExistsWithClusterAuthorizationException"
)
@pytest.mark.parametrize("refusal", [AdminError("exists", 36), AdminError("old", 35), NotAuthorized("denied")], ids=str)
def test_what_exists_or_may_not_be_created_is_left_to_others(refusal: Exception) -> None:
    assert made(Admin(refusal=refusal)) is None


@pytest.mark.kafka_test("MirrorUtilsTest.testCreateCompactedTopicFailsWithInvalidConfigurationException")
@pytest.mark.parametrize("refusal", [AdminError("a policy", 44), AdminError("a replication factor", 38)], ids=str)
def test_any_other_refusal_is_told(refusal: Exception) -> None:
    assert made(Admin(refusal=refusal)) == str(refusal)


@pytest.mark.kafka_test("MirrorUtilsTest.testCreateCompactedTopicFailsWithTimeoutException")
def test_a_cluster_that_does_not_answer_is_not_a_topic_that_exists() -> None:
    with pytest.raises(ClusterUnreachable):
        made(Admin(refusal=ClusterUnreachable("no answer")))


CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"


class MappingAdmin:
    """A cluster of `brokers`; `refusal` is raised by every creation."""

    def __init__(self, brokers: int = 3, refusal: Exception | None = None) -> None:
        self.brokers, self.refusal = brokers, refusal
        self.created: dict[str, int] = {}

    def cluster_id(self) -> str:
        return "id"

    def broker_count(self) -> int:
        return self.brokers

    def create_topic(
        self, topic: str, partitions: int, replicas: int, configs: Mapping[str, str], *, validate_only: bool
    ) -> None:
        if self.refusal is not None:
            raise self.refusal
        if replicas > self.brokers:
            raise AdminError("too many", 38)
        assert (partitions, configs) == (1, {"cleanup.policy": "compact"})
        if not validate_only:
            self.created[topic] = replicas


def made_for_mapping(source: MappingAdmin, target: MappingAdmin, **config: str) -> list[str]:
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
def test_syncs_are_made_where_the_config_says_and_ranges_on_the_target(
    location: str, at_source: dict[str, int], at_target: dict[str, int]
) -> None:
    source, target = MappingAdmin(), MappingAdmin()
    settings = {"offset-syncs.topic.location": location}
    assert (made_for_mapping(source, target, **settings), source.created, target.created) == ([], at_source, at_target)


def test_a_cluster_of_fewer_brokers_gets_fewer_replicas() -> None:
    source, target = MappingAdmin(brokers=1), MappingAdmin(brokers=2)
    assert made_for_mapping(source, target) == []
    assert (list(source.created.values()), list(target.created.values())) == ([1], [2])


@pytest.mark.kafka_test("DedicatedMirrorIntegrationTest.testClusterWithEmitOffsetDisabled")
def test_without_syncs_no_topic_is_made() -> None:
    source, target = MappingAdmin(), MappingAdmin()
    assert made_for_mapping(source, target, **{"emit.offset-syncs.enabled": "false"}) == []
    assert (source.created, target.created) == ({}, {})


def test_what_may_pass_is_told_and_a_missing_right_is_left_to_others() -> None:
    assert made_for_mapping(
        MappingAdmin(refusal=NotAuthorized("denied")), MappingAdmin(refusal=AdminError("not now", 41))
    ) == ["not now"]
