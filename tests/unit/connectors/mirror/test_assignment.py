import json
from typing import Any

import pytest

from mirror_connect.connectors.mirror.assignment import (
    assign,
    assigned_partitions_text,
    parse_assigned_partitions,
    reassign,
    task_configs,
)
from mirror_connect.connectors.partitions import TopicPartition
from tests.paths import FIXTURES

LINES = (FIXTURES / "worker-connect-configs.jsonl").read_text().splitlines()
RECORDS = [json.loads(line) for line in LINES]
SOURCE_TASKS = [
    record["decoded"]
    for record in RECORDS
    if record["decoded"]["key"].startswith("task-mm2-source-") and record["decoded"]["value"]
]


def partitions(text: str) -> list[TopicPartition]:
    """`a0 b1` → partitions."""
    return [TopicPartition(entry[0], int(entry[1:])) for entry in text.split()]


def tasks(*texts: str) -> list[list[TopicPartition]]:
    return [partitions(text) for text in texts]


def test_partitions_are_dealt_round_robin() -> None:
    assert assign(partitions("a0 a1 a2 a3 b0"), 2) == tasks("a0 a2 b0", "a1 a3")


@pytest.mark.kafka_test("MirrorSourceConnectorTest.testMirrorSourceConnectorTaskConfig")
def test_kafkas_example_of_eight_two_and_two_over_three_tasks() -> None:
    # MirrorSourceConnectorTest.testMirrorSourceConnectorTaskConfig
    assigned = assign(partitions("a0 a1 a2 a3 a4 a5 a6 a7 b0 b1 c0 c1"), 3)
    assert assigned == tasks("a0 a3 a6 b1", "a1 a4 a7 c0", "a2 a5 b0 c1")


@pytest.mark.parametrize(("count", "expected"), [(0, 0), (2, 2), (9, 3)])
def test_there_are_no_more_tasks_than_partitions(count: int, expected: int) -> None:
    assert len(assign(partitions("a0 a1 a2 a3")[:count], 3)) == expected


def test_what_runs_stays_and_new_ones_go_to_the_least_loaded() -> None:
    assert reassign(tasks("a0 a2 a3", "a1"), partitions("a0 a1 a2 a3 b0 b1 b2"), 2) == tasks("a0 a2 a3 b2", "a1 b0 b1")


def test_among_equals_the_lowest_task_gets_the_new_one() -> None:
    assert reassign(tasks("a0", "a1"), partitions("a0 a1 b0"), 2) == tasks("a0 b0", "a1")


def test_vanished_ones_go_and_nothing_else_moves() -> None:
    assert reassign(tasks("a0 a2", "a1 b0"), partitions("a0 a1 a2"), 2) == tasks("a0 a2", "a1")


def test_another_number_of_tasks_deals_anew() -> None:
    assert reassign(tasks("a1", "a0"), partitions("a0 a1 a2"), 3) == tasks("a0", "a1", "a2")


def test_a_task_left_with_nothing_gets_one_from_the_fullest() -> None:
    assert reassign(tasks("a0 a1 a2", "b0"), partitions("a0 a1 a2"), 2) == tasks("a0 a1", "a2")


def test_without_partitions_there_are_no_tasks() -> None:
    assert reassign(tasks("a0"), [], 2) == []


def test_a_partition_that_two_tasks_claimed_runs_once() -> None:
    assert reassign(tasks("a0", "a0"), partitions("a0 a1"), 2) == tasks("a0", "a1")


def test_assigned_partitions_are_read_back_with_hyphens_in_topics() -> None:
    assigned = [TopicPartition("exp-tx", 0), TopicPartition("payments.eu", 12)]
    assert parse_assigned_partitions(assigned_partitions_text(assigned)) == assigned


@pytest.mark.parametrize("text", ["orders", "orders-x", "orders-"])
def test_an_entry_without_a_partition_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        parse_assigned_partitions(text)


@pytest.mark.kafka_test("MirrorSourceConfigTest.testTaskConfigTopicPartitions")
@pytest.mark.parametrize("record", SOURCE_TASKS, ids=lambda record: record["key"])
def test_a_task_config_is_the_one_kafka_stored(record: dict[str, Any]) -> None:
    stored = record["value"]["properties"]
    own = ("task.class", "task.index", "task.assigned.partitions")
    config = {name: value for name, value in stored.items() if name not in own}
    index = int(stored["task.index"])
    assignment = [[TopicPartition("x", 0)]] * index + [parse_assigned_partitions(stored["task.assigned.partitions"])]
    assert task_configs(config, assignment)[index] == stored
