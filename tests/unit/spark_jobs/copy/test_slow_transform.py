"""A statement or function that keeps records for long: the status and the log name them, and then the task ends."""

from __future__ import annotations

from typing import cast

import pytest

from mirror_connect.connectors.mirror.record_transform import RecordTransform
from mirror_connect.connectors.mirror.transform_function import TransformFunction
from mirror_connect.connectors.mirror.transform_sql import TransformSql
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import ProblemCode, code_of
from mirror_connect.connectors.record_errors import TransformationError
from mirror_connect.spark_jobs.copy.computed_batch import Computing, Waiting
from mirror_connect.spark_jobs.copy.slow_transform import SHOWN_S, SlowTransform

ORDERS = TopicPartition("orders", 3)
NOW = 1_764_000_000.0


class Spark:
    """Has had these records for so long."""

    def __init__(self, transform: RecordTransform) -> None:
        self.transform = transform
        self.waiting: Waiting | None = None

    def waits(self) -> Waiting | None:
        return self.waiting


def slow(spark: Spark, log: list[str], timeout_ms: int = 300_000) -> SlowTransform:
    return SlowTransform(cast(Computing, spark), timeout_ms, log.append, lambda: NOW)


def test_what_takes_long_is_named_once_and_its_end_is_told() -> None:
    log: list[str] = []
    spark = Spark(TransformFunction("masking:mask", ()))
    watch = slow(spark, log)
    for waiting in (None, Waiting({ORDERS: (5, 9)}, SHOWN_S - 0.1)):
        spark.waiting = waiting
        watch.look()
        assert (watch.problem, log) == (None, [])
    for seconds in (SHOWN_S, SHOWN_S + 100):
        spark.waiting = Waiting({ORDERS: (5, 9)}, seconds)
        watch.look()
        assert watch.problem is not None
        assert watch.problem.since == NOW - SHOWN_S
    assert (watch.problem.subject, watch.problem.code) == ("orders-3", ProblemCode.PARTITION_STALLED_TRANSFORMATION)
    assert (
        watch.problem.text
        == "orders, partition 3, offsets 5 to 9: spark.transform.python (masking:mask) has not returned"
    )
    assert "300 s (spark.transform.timeout.ms)" in watch.problem.line
    [line] = log
    assert line.startswith(f"{watch.problem.text} for 30 s; ")
    assert code_of(line) == "PARTITION_STALLED_TRANSFORMATION"
    spark.waiting = Waiting({ORDERS: (10, 10)}, 0.5)
    watch.look()
    assert watch.problem is None
    assert log[1:] == ["orders-3 continues: spark.transform.python (masking:mask) has returned"]
    watch.look()
    assert len(log) == 2


def test_other_records_that_take_long_are_another_line() -> None:
    log: list[str] = []
    spark = Spark(TransformSql("SELECT * FROM records"))
    watch = slow(spark, log)
    for offset in (5, 6, 6):
        spark.waiting = Waiting({ORDERS: (offset, offset)}, SHOWN_S)
        watch.look()
    assert [line.split(":")[0] for line in log] == ["orders, partition 3, offset 5", "orders, partition 3, offset 6"]
    assert "spark.transform.sql has" in log[0]


def test_records_of_many_partitions_are_named_in_one_line() -> None:
    log: list[str] = []
    spark = Spark(TransformSql("SELECT * FROM records"))
    spark.waiting = Waiting({TopicPartition("orders", n): (5, 5 + n) for n in range(5)}, SHOWN_S)
    slow(spark, log).look()
    assert log[0].split(":")[0] == (
        "orders, partition 0, offset 5; orders, partition 1, offsets 5 to 6; orders, partition 2, offsets 5 to 7; "
        "2 more partitions"
    )


@pytest.mark.parametrize("timeout_ms", [1_000, 300_000])
async def test_the_task_ends_with_one_line_when_nothing_comes_back(timeout_ms: int) -> None:
    log: list[str] = []
    spark = Spark(TransformFunction("masking:mask", ()))
    watch = slow(spark, log, timeout_ms)
    spark.waiting = Waiting({ORDERS: (5, 9)}, timeout_ms / 1000 - 0.001)
    watch.look()
    spark.waiting = Waiting({ORDERS: (5, 9)}, timeout_ms / 1000)
    with pytest.raises(TransformationError) as ended:
        await watch.watch()
    assert str(ended.value) == (
        f"orders, partition 3, offsets 5 to 9: spark.transform.python (masking:mask) has not returned for "
        f"{timeout_ms // 1000} s, which is more than spark.transform.timeout.ms={timeout_ms}. Correct it, or raise that "
        "setting, then restart the task"
    )
