"""What a task's status says of partitions that stand still."""

from __future__ import annotations

from mirror_connect.kafka_io.consumer.fetcher import SourcePartition
from mirror_connect.spark_jobs.copy.standing import MOST_LINES, told


def test_partitions_are_told_in_their_order() -> None:
    assert told({SourcePartition("b", 0): "b-0 waits", SourcePartition("a", 10): "a-10 waits"}) == (
        "a-10 waits",
        "b-0 waits",
    )


def test_one_reason_of_many_partitions_is_one_line() -> None:
    assert told({SourcePartition("a", number): "broker 1 is away" for number in range(50)}) == ("broker 1 is away",)


def test_of_many_lines_the_last_one_counts_the_others() -> None:
    lines = told({SourcePartition("a", number): f"a-{number}" for number in range(MOST_LINES + 7)})
    assert (len(lines), lines[-1]) == (MOST_LINES + 1, "… and 7 more lines like these")
