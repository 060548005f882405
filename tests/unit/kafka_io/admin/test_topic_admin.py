"""Many topics are created and grown in requests that a controller takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from mirror_connect.kafka_io.admin.topic_admin import RECORDS_AT_ONCE, NewRemote, create_topics, grow_topics
from tests.fakes.topic_requests import TopicRequests


class Controller(TopicRequests):
    def __init__(self) -> None:
        self.made: dict[str, int] = {}

    def create_topic(self, topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str]) -> None:
        if topic in self.made:
            raise AdminError("exists", 36)
        self.made[topic] = partitions

    def grow_topic(self, topic: str, total: int) -> None:
        self.made[topic] = total


def test_topics_share_requests_up_to_a_limit_of_what_they_are_made_of() -> None:
    controller = Controller()
    wanted = {f"t{number}": NewRemote(7, 1, {"a": "b", "c": "d"}) for number in range(RECORDS_AT_ONCE // 10 + 1)}
    refused = create_topics(cast("ClusterAdmin", controller), wanted)
    assert (refused, len(controller.made), controller.requests) == ({}, len(wanted), 2)


def test_a_topic_beyond_the_limit_has_a_request_of_its_own() -> None:
    controller = Controller()
    grow_topics(cast("ClusterAdmin", controller), {"a": 1, "huge": RECORDS_AT_ONCE + 1, "z": 1})
    assert (controller.made, controller.requests) == ({"a": 1, "huge": RECORDS_AT_ONCE + 1, "z": 1}, 3)


def test_nothing_wanted_is_nothing_asked() -> None:
    controller = Controller()
    create_topics(cast("ClusterAdmin", controller), {})
    assert controller.requests == 0


def test_a_topic_that_is_refused_is_told_with_its_error() -> None:
    controller = Controller()
    controller.made["b"] = 1
    refused = create_topics(cast("ClusterAdmin", controller), {name: NewRemote(1, 1) for name in "abc"})
    assert ([*refused], [*controller.made]) == (["b"], ["b", "a", "c"])
