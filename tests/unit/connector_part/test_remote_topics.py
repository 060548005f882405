"""Remote topics are created and grown, and one that is refused keeps no other from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from mirror_connect.app.connector_part.remote_topics import Changes, bring_up_to_date
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.admin import AdminError, ClusterAdmin


class FakeAdmin:
    def __init__(self, failures: Mapping[str, Exception]) -> None:
        self.failures = failures
        self.made: list[tuple[str, int, int | None]] = []

    def create_topic(self, topic: str, partitions: int, replication_factor: int) -> None:
        self._do(topic, partitions, replication_factor)

    def create_partitions(self, topic: str, total: int) -> None:
        self._do(topic, total, None)

    def _do(self, topic: str, partitions: int, factor: int | None) -> None:
        if topic in self.failures:
            raise self.failures[topic]
        self.made.append((topic, partitions, factor))


def changes(
    wanted: Mapping[str, int], existing: Mapping[str, int], **failures: Exception
) -> tuple[Changes, list[tuple[str, int, int | None]]]:
    admin = FakeAdmin(failures)
    return bring_up_to_date(cast("ClusterAdmin", admin), wanted, existing, 2), admin.made


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
    assert (found.refused, [topic for topic, *_ in made], found.there) == ({"a": str(refusal)}, ["b"], {"a": 0, "b": 1})


def test_growth_that_is_refused_leaves_the_partitions_there_are() -> None:
    found, _ = changes({"t": 3}, {"t": 1}, t=AdminError("no", 1))
    assert found.there == {"t": 1}


def test_a_cluster_that_is_away_is_no_matter_of_one_topic() -> None:
    with pytest.raises(ClusterUnreachable):
        changes({"t": 1}, {}, t=ClusterUnreachable("away"))
