"""Remote topics are created and grown, and one that is refused keeps no other from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from mirror_connect.app.worker_connectors.remote_topics import (
    FRESH_S,
    Changes,
    FreshTopics,
    decide_changes,
    make_changes,
)
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from tests.fakes.topic_requests import TopicRequests


class FakeAdmin(TopicRequests):
    def __init__(self, failures: Mapping[str, Exception]) -> None:
        self.failures = failures
        self.made: list[tuple[str, int, int | None]] = []
        self.configs: dict[str, str] = {}

    def create_topic(self, topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
        self.configs = dict(configs)
        self._do(topic, partitions, replication_factor)

    def topics(self) -> dict[str, int]:
        return {"t": 5}

    def grow_topic(self, topic: str, total: int) -> None:
        self._do(topic, total, None)

    def _do(self, topic: str, partitions: int, factor: int | None) -> None:
        if topic in self.failures:
            raise self.failures[topic]
        self.made.append((topic, partitions, factor))


def bring_up_to_date(
    admin: ClusterAdmin,
    wanted: Mapping[str, int],
    existing: Mapping[str, int],
    factor: int,
    configs: Mapping[str, Mapping[str, str]],
) -> Changes:
    return make_changes(admin, decide_changes(wanted, existing, factor, configs))


def changes(
    wanted: Mapping[str, int], existing: Mapping[str, int], **failures: Exception
) -> tuple[Changes, list[tuple[str, int, int | None]]]:
    admin = FakeAdmin(failures)
    configs: dict[str, dict[str, str]] = {topic: {} for topic in wanted}
    return bring_up_to_date(cast("ClusterAdmin", admin), wanted, existing, 2, configs), admin.made


def test_a_topic_that_is_not_there_is_created_like_its_source() -> None:
    found, made = changes({"A.t": 3}, {})
    assert (made, found.there) == ([("A.t", 3, 2)], {"A.t": 3})


def test_a_topic_with_fewer_partitions_grows() -> None:
    found, made = changes({"t": 3}, {"t": 1})
    assert (made, found.there) == ([("t", 3, None)], {"t": 3})


def test_a_topic_with_more_partitions_is_left_as_it_is() -> None:
    found, made = changes({"t": 3}, {"t": 5})
    assert (made, found.there) == ([], {"t": 5})


@pytest.mark.parametrize("refusal", [AdminError("factor 2 is larger than 1", 38), NotAuthorized("no right to it")])
def test_a_refused_topic_is_told_and_the_others_go_on(refusal: Exception) -> None:
    found, made = changes({"a": 1, "b": 1}, {}, a=refusal)
    assert ([topic for topic, *_ in made], found.there) == (["b"], {"a": 0, "b": 1})
    assert found.refused["a"].startswith(str(refusal))


def test_a_topic_that_somebody_else_has_just_made_is_taken_as_it_is() -> None:
    found, made = changes({"t": 3, "u": 1}, {}, t=AdminError("exists", 36))
    assert (made, found.there, found.refused) == ([("u", 1, 2)], {"t": 5, "u": 1}, {})


def test_growth_that_is_refused_leaves_the_partitions_there_are() -> None:
    found, _ = changes({"t": 3}, {"t": 1}, t=AdminError("no", 1))
    assert found.there == {"t": 1}


def test_a_cluster_that_is_away_is_no_matter_of_one_topic() -> None:
    with pytest.raises(ClusterUnreachable):
        changes({"t": 1}, {}, t=ClusterUnreachable("away"))


def refused(error: AdminError, configs: Mapping[str, str]) -> str:
    admin = cast("ClusterAdmin", FakeAdmin({"t": error}))
    return bring_up_to_date(admin, {"t": 1}, {}, 2, {"t": configs}).refused["t"]


def test_a_topic_is_created_with_its_configs() -> None:
    admin = FakeAdmin({})
    bring_up_to_date(cast("ClusterAdmin", admin), {"t": 1}, {}, 2, {"t": {"flush.ms": "9"}})
    assert admin.configs == {"flush.ms": "9"}


def test_a_topic_whose_configs_are_not_known_is_not_created() -> None:
    admin = FakeAdmin({})
    found = bring_up_to_date(cast("ClusterAdmin", admin), {"t": 1}, {}, 2, {})
    assert (admin.made, found.there, found.refused) == ([], {"t": 0}, {})


def test_a_config_that_is_refused_is_named_with_its_value_and_what_to_set() -> None:
    line = refused(AdminError("Invalid value 7 for configuration new.one", 40), {"new.one": "7", "flush.ms": "9"})
    assert line == (
        "Invalid value 7 for configuration new.one; its source has new.one=7: allow that on the target, add the name to "
        "config.properties.exclude of the connector, or create the topic by hand"
    )


class OlderCluster(FakeAdmin):
    """Knows flush.ms and nothing else."""

    def create_topic(self, topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
        for name in configs:
            if name != "flush.ms":
                raise AdminError(f"topic {topic} was not created: Unknown topic config name: {name} (target)", 40)
        super().create_topic(topic, partitions, replication_factor, configs)


def test_configs_that_the_targets_release_lacks_are_left_out_and_told() -> None:
    admin = OlderCluster({})
    configs = {"new.one": "7", "flush.ms": "9", "new.two": "8"}
    found = bring_up_to_date(cast("ClusterAdmin", admin), {"t": 1}, {}, 2, {"t": configs})
    assert (admin.configs, found.there, found.refused) == ({"flush.ms": "9"}, {"t": 1}, {})
    assert found.made == [
        "created remote topic t with 1 partition, without new.one=7, new.two=8: "
        "the brokers of the target know no such config"
    ]


def test_a_config_that_nobody_asked_for_is_a_refusal_however_it_is_told() -> None:
    assert "Unknown" in refused(AdminError("Unknown topic config name: of.a.policy", 40), {"flush.ms": "9"})


def test_all_configs_are_named_where_the_refusal_names_none() -> None:
    assert "its source has flush.ms=1, x=2:" in refused(AdminError("a policy says no", 44), {"x": "2", "flush.ms": "1"})


def test_a_replication_factor_that_is_refused_names_its_setting() -> None:
    assert (
        refused(AdminError("no", 38), {"a": "1"})
        == "no; set replication.factor of the connector, 2, to the number of brokers or less"
    )


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_topic_that_was_just_created_is_there() -> None:
    fresh = FreshTopics()
    fresh.made({"t": 3})
    assert fresh.added_to({"u": 1}) == {"u": 1, "t": 3}


def test_a_topic_that_has_just_grown_has_its_new_partitions() -> None:
    fresh = FreshTopics()
    fresh.made({"t": 3})
    assert fresh.added_to({"t": 1}) == {"t": 3}


def test_a_topic_that_brokers_have_told_of_is_gone_when_they_say_so() -> None:
    fresh = FreshTopics()
    fresh.made({"t": 3})
    fresh.added_to({"t": 3})
    assert fresh.added_to({}) == {}


def test_a_topic_that_grows_further_has_what_brokers_tell() -> None:
    fresh = FreshTopics()
    fresh.made({"t": 3})
    assert fresh.added_to({"t": 5}) == {"t": 5}


def test_one_that_nobody_ever_tells_of_is_not_believed_in_for_ever() -> None:
    clock = Clock()
    fresh = FreshTopics(clock)
    fresh.made({"t": 3})
    clock.now += FRESH_S
    assert fresh.added_to({}) == {}


def test_what_is_only_validated_is_not_made() -> None:
    admin = FakeAdmin({})
    decided = decide_changes({"new": 3, "grown": 2}, {"grown": 1}, 2, {"new": {}})
    found = make_changes(cast("ClusterAdmin", admin), decided, validate_only=True)
    assert (admin.made, admin.validations, found.there) == ([], 2, {"new": 3, "grown": 2})
