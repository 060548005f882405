"""What acknowledgements show of remote topics is reported once."""

from __future__ import annotations

from typing import cast

import pytest

from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.connectors.task_protocol import CONNECT, DEDICATED, MIRROR_MAKER_1, TaskPartition
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.remote_topic_events import RemoteTopicEvents
from mirror_connect.spark_jobs.tasks.advice import SET_OFFSETS


class Flow:
    def __init__(self, topic: str, partition: int) -> None:
        self.partition = TaskPartition(topic, partition, f"A.{topic}")


@pytest.fixture
def found() -> list[Problem]:
    return []


@pytest.fixture
def events(found: list[Problem]) -> RemoteTopicEvents:
    return RemoteTopicEvents(Problems(print, found.append), SET_OFFSETS[CONNECT])


def flow(topic: str, partition: int = 0) -> PartitionFlow:
    return cast("PartitionFlow", Flow(topic, partition))


def test_somebody_else_who_writes_is_one_event_of_a_task(events: RemoteTopicEvents, found: list[Problem]) -> None:
    for topic in ("orders", "parcels"):
        events.others_write(TaskPartition(topic, 3, f"A.{topic}"), 17, 2)
    (event,) = found
    assert (event.subject, event.code) == ("A.orders", ProblemCode.OTHER_WRITER)
    assert "2 records of partition 3 from offset 17 on did not come from this task" in event.line


def test_lost_records_are_one_event_of_each_topic(events: RemoteTopicEvents, found: list[Problem]) -> None:
    for topic, partition in (("orders", 0), ("orders", 1), ("parcels", 0)):
        events.lost_records(flow(topic, partition), 5)
    assert [(event.subject, event.code) for event in found] == [
        ("A.orders", ProblemCode.TARGET_RECORDS_LOST),
        ("A.parcels", ProblemCode.TARGET_RECORDS_LOST),
    ]


@pytest.mark.parametrize(
    ("program", "told"),
    [
        pytest.param(CONNECT, "stop the connector and set its source offsets by REST", id="connect"),
        pytest.param(DEDICATED, "end the process and set the flow's source offsets by a worker", id="dedicated"),
        pytest.param(MIRROR_MAKER_1, "end the process and set the offsets of its group", id="mirrormaker_1"),
    ],
)
def test_nobody_is_sent_to_a_rest_interface_that_is_not_there(program: str, told: str, found: list[Problem]) -> None:
    RemoteTopicEvents(Problems(print, found.append), SET_OFFSETS[program]).lost_records(flow("orders"), 5)
    (event,) = found
    assert event.advice.startswith(f"to copy lost records again, {told}")
    assert ("REST" in event.advice) is (program == CONNECT)
