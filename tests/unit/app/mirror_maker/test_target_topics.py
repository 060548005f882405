"""Where records go on the target: to the same partition, and all records of one partition to one place."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mirror_connect.app.mirror_maker import target_topics
from mirror_connect.app.mirror_maker.target_topics import TargetTopics, task_partitions, tasks_of
from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.partitioner import partition_for
from mirror_connect.kafka_io.admin.admin_errors import AdminError
from mirror_connect.kafka_io.admin.topic_admin import NewRemote

SIX = [TopicPartition("t", number) for number in range(6)]


def targets(count: int) -> list[int]:
    return [each.target.partition for each in task_partitions(SIX, {"t": count})]


@pytest.mark.parametrize(
    ("count", "there"),
    [
        pytest.param(6, [0, 1, 2, 3, 4, 5], id="as_many"),
        pytest.param(9, [0, 1, 2, 3, 4, 5], id="more"),
        pytest.param(4, [0, 1, 2, 3, 0, 1], id="fewer"),
        pytest.param(1, [0, 0, 0, 0, 0, 0], id="one"),
    ],
)
def test_a_partition_goes_to_its_number_modulo_those_on_the_target(count: int, there: list[int]) -> None:
    assert targets(count) == there


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_key_lies_where_javas_partitioner_puts_it_if_the_counts_divide(count: int) -> None:
    keys = [str(number).encode() for number in range(200)]
    there = targets(count)
    assert [there[partition_for(key, len(SIX))] for key in keys] == [partition_for(key, count) for key in keys]


@pytest.mark.parametrize("count", [1, 2, 4, 6, 9])
def test_no_task_has_two_partitions_that_go_to_the_same_one(count: int) -> None:
    tasks = tasks_of(SIX, {"t": count})
    assert sorted(each for partitions in tasks.values() for each in partitions) == SIX
    for partitions in tasks.values():
        there = [each.target for each in task_partitions(partitions, {"t": count})]
        assert len(there) == len(set(there))


def test_there_is_one_task_also_without_partitions_and_if_the_target_has_enough() -> None:
    assert tasks_of([], {}) == {0: []}
    assert tasks_of(SIX, {"t": 6}) == {0: SIX}


def test_partitions_of_topics_that_the_target_lacks_wait() -> None:
    assert (tasks_of(SIX, {}), task_partitions(SIX, {})) == ({0: []}, ())


class Admin:
    """An admin of the target: `late`: topics that others make meanwhile, and how often they are not reported yet."""

    def __init__(self, there: dict[str, int], late: dict[str, int] | None = None, unreported: int = 0) -> None:
        self.there = there
        self.late = late or {}
        self.unreported = unreported
        self.created: dict[str, int] = {}

    def topics(self) -> dict[str, int]:
        found = dict(self.there)
        if self.unreported:
            self.unreported -= 1
        elif self.created:
            found |= self.late
        return found


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    def create(admin: Admin, wanted: Mapping[str, NewRemote]) -> dict[str, Exception]:
        admin.created |= {topic: new.partitions for topic, new in wanted.items()}
        refused: dict[str, Exception] = {topic: AdminError("exists", 36) for topic in wanted if topic in admin.late}
        return refused | {topic: NotAuthorized("no right") for topic in wanted if topic.startswith("secret")}

    monkeypatch.setattr(target_topics, "create_topics", create)
    monkeypatch.setattr(target_topics, "PAUSE_S", 0.0)
    return Admin({"orders": 4})


def test_absent_topics_are_created_like_their_sources_and_others_stay(admin: Admin) -> None:
    found = TargetTopics(admin).prepared({"orders": 6, "new": 3})  # type: ignore[arg-type]
    assert (found, admin.created) == ({"orders": 4, "new": 3}, {"new": 3})


def test_a_topic_that_somebody_else_has_just_created_has_the_partitions_that_it_got_there(admin: Admin) -> None:
    admin.late, admin.unreported = {"new": 5}, 3
    assert TargetTopics(admin).prepared({"new": 3}) == {"new": 5}  # type: ignore[arg-type]


def test_a_topic_that_cannot_be_created_is_left_out_and_named_once(
    admin: Admin, caplog: pytest.LogCaptureFixture
) -> None:
    topics = TargetTopics(admin)  # type: ignore[arg-type]
    assert [topics.prepared({"secret": 1, "orders": 4}) for _ in range(2)] == [{"orders": 4}] * 2
    assert [line for line in caplog.messages if "secret" in line] == [
        "Topic secret is not copied: no right. Create it on the target, or let this user create it; it is tried again"
    ]


def test_other_numbers_of_partitions_are_named_once(admin: Admin, caplog: pytest.LogCaptureFixture) -> None:
    topics = TargetTopics(admin)  # type: ignore[arg-type]
    for _ in range(2):
        topics.prepared({"orders": 6})
    (line,) = caplog.messages
    assert line.startswith(
        "Topic orders has 6 partitions on the source and 4 partitions on the target. Partition p goes"
    )
