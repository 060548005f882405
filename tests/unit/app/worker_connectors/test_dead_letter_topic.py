"""The dead letter topic is created as in Kafka Connect, or the connector fails."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mirror_connect.app.worker_connectors.dead_letter_topic import make_dead_letter_topic, planned_dead_letter_topic
from mirror_connect.app.worker_connectors.internal_topics import Creation
from mirror_connect.connectors.errors import ConfigError, NotAuthorized
from mirror_connect.connectors.mirror.dead_letters import REPLICAS, TOPIC, DeadLetterTopic
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.admin_errors import AdminError

LETTERS = DeadLetterTopic("letters", 3, context=False)


class Admin:
    def __init__(self, refusal: Exception | None = None) -> None:
        self.refusal = refusal
        self.created: list[tuple[Any, ...]] = []

    def create_topic(self, topic: str, partitions: int, replicas: int, *, validate_only: bool = False) -> None:
        if self.refusal is not None:
            raise self.refusal
        if not validate_only:
            self.created.append((topic, partitions, replicas))


def make(admin: Admin, *there: str, reserved: tuple[str, ...] = ()) -> None:
    make_dead_letter_topic(cast("ClusterAdmin", admin), "link", LETTERS, there, reserved)


def test_it_has_one_partition_and_is_left_as_it_is_if_it_is_there() -> None:
    admin = Admin()
    make(admin)
    assert admin.created == [("letters", 1, 3)]
    make(Admin(AssertionError("nothing is to be created")), "letters", "orders")
    make(Admin(AdminError("somebody else was faster", 36)))


@pytest.mark.parametrize(
    ("code", "setting"), [pytest.param(38, REPLICAS, id="replicas"), pytest.param(44, TOPIC, id="a_policy")]
)
def test_a_connector_whose_topic_can_not_be_created_fails(code: int, setting: str) -> None:
    with pytest.raises(ConfigError, match=setting):
        make(Admin(AdminError("topic letters was not created: no", code)))
    with pytest.raises(NotAuthorized):
        make(Admin(NotAuthorized("grant CREATE on topic letters")))
    # What may pass is tried again.
    with pytest.raises(AdminError):
        make(Admin(AdminError("not now", 41)))


def test_the_workers_own_topics_are_refused() -> None:
    with pytest.raises(ConfigError, match=TOPIC):
        make(Admin(), "letters", reserved=("letters",))


def test_a_plan_says_what_would_become_of_it() -> None:
    def planned(admin: Admin, *there: str) -> Creation:
        return planned_dead_letter_topic(cast("ClusterAdmin", admin), LETTERS, there)

    admin = Admin()
    assert planned(admin) == Creation(3)
    assert admin.created == []
    assert planned(admin, "letters") == Creation()
    assert planned(Admin(AdminError("there", 36))) == Creation()
    assert planned(Admin(AdminError("too many", 38))).refused is not None
    assert planned(Admin(NotAuthorized("no right"))).refused == "no right"
