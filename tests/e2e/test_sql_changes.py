"""A statement that is changed under load, and one record among a million that a statement can't take."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.ends import end_offsets
from tests.e2e.identity_topics import produce
from tests.e2e.numbered import Writer
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import last_value, records
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

PARTITIONS: Final = 3
RATE: Final = 1_500
# No statement at all in between.
PLAIN: Final = 2
STAGES: Final = 6
RECORDS, BAD = 1_000_000, 654_321
SECRET: Final = "what-is-in-it"
NUMBER: Final = "CAST(split_part(CAST(value AS STRING), ' ', 1) AS BIGINT)"


def stage_of(stage: int) -> dict[str, str]:
    """Marks values with the stage, and leaves out the numbers that end with it."""
    if stage == PLAIN:
        return {}
    sql = f"SELECT concat(CAST('s{stage} ' AS BINARY), value) AS value FROM records WHERE {NUMBER} % 10 <> {stage}"
    return {"spark.transform.sql": sql}


def marked(value: bytes) -> tuple[int, int]:
    """The stage and the number."""
    words = value.split(b" ")
    return (int(words[0][1:]), int(words[1])) if value.startswith(b"s") else (PLAIN, int(words[0]))


def dropped(number: int, stages: range) -> bool:
    return any(number % 10 == stage for stage in stages if stage != PLAIN)


def test_each_record_is_of_the_old_or_the_new_statement_and_none_is_lost(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("sql-changed")
    source_cluster.create_topic(topic, PARTITIONS)
    config = mirror_config(source_cluster, target_cluster, topic)
    with Writer(source_cluster, topic, PARTITIONS, RATE) as writer:
        for stage in range(STAGES):
            product.put(topic, {**config, **stage_of(stage)})
            wait_for(
                lambda stage=stage: all(
                    last_stage(target_cluster, f"A.{topic}", partition) == stage for partition in range(PARTITIONS)
                ),
                f"records of stage {stage} come in each partition",
                arrived=lambda: end_offsets(target_cluster, f"A.{topic}"),
            )
            product.wait_running(topic)
    for partition, count in writer.counts.items():
        last = next(n for n in reversed(range(count)) if n % 10 != STAGES - 1)
        wait_for(
            lambda partition=partition, last=last: last in numbers(target_cluster, f"A.{topic}", partition),
            f"the last record of partition {partition} is there",
        )
        found = stages(target_cluster, f"A.{topic}", partition)
        for (stage, number), (next_stage, following) in itertools.pairwise([(0, -1), *found]):
            assert next_stage >= stage, f"{following} is of stage {next_stage}, and {number} before it of {stage}"
            missing = range(number + 1, following)
            lost = [each for each in missing if not dropped(each, range(stage, next_stage + 1))]
            assert not lost, f"{lost[:3]} of partition {partition} are missing"
        repeated = len(found) - len({number for _, number in found})
        assert repeated == 0, f"{repeated} records of partition {partition} came twice, though nothing was killed"
    product.delete(topic)


def stages(cluster: LocalCluster, topic: str, partition: int) -> list[tuple[int, int]]:
    return [marked(each.value or b"") for each in records(cluster, topic, partition)]


def numbers(cluster: LocalCluster, topic: str, partition: int) -> set[int]:
    return {number for _, number in stages(cluster, topic, partition)}


def last_stage(cluster: LocalCluster, topic: str, partition: int) -> int | None:
    value = last_value(cluster, topic, partition)
    return None if value is None else marked(value)[0]


@pytest.fixture(scope="module")
def one_bad(source_cluster: LocalCluster) -> str:
    """A topic of numbers; one of them is none."""
    topic = "sql-one-bad"
    source_cluster.create_topic(topic, 1)
    values = (f"{SECRET} {n}" if n == BAD else str(n) for n in range(RECORDS))
    usual = {"compression.type": "lz4", "batch.size": 100_000, "batch.num.messages": 2_000}
    produce(source_cluster, topic, ({"value": value, "key": b"k", "partition": 0} for value in values), **usual)
    return topic


def doubled(cast: str) -> str:
    return f"SELECT CAST({cast}(CAST(value AS STRING) AS BIGINT) * 2 AS STRING) AS value FROM records"


def wait_copied(cluster: LocalCluster, topic: str, count: int) -> None:
    def there() -> int:
        return sum(end_offsets(cluster, topic).values())

    wait_for(lambda: there() >= count, f"{count} records in {topic}", arrived=there)


def values_of(cluster: LocalCluster, topic: str) -> list[bytes | None]:
    return [each.value for each in records(cluster, topic, 0)]


def numbers_doubled(*ranges: range) -> list[bytes]:
    return [b"%d" % (2 * number) for each in ranges for number in each]


def failed_task(product: Product, name: str) -> dict[str, Any] | None:
    tasks = product.status(name).get("tasks", [])
    return dict(tasks[0]) if tasks and tasks[0]["state"] == "FAILED" else None


def test_the_task_fails_in_front_of_a_record_and_goes_on_there_after_a_correction(
    one_bad: str, source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product
) -> None:
    name, copy = "sql-none", f"N.{one_bad}"
    config = mirror_config(source_cluster, target_cluster, one_bad, source_cluster_alias="N")
    product.put(name, {**config, "spark.transform.sql": doubled("CAST"), "errors.log.enable": "true"})
    for turn in range(2):
        wait_copied(target_cluster, copy, BAD)
        failed = wait_for_state(lambda: failed_task(product, name), f"the task is FAILED, turn {turn}")
        assert f"{one_bad}, partition 0, offset {BAD}" in failed["trace"]
        assert "spark.transform.sql" in failed["trace"]
        assert SECRET not in failed["trace"]
        assert values_of(target_cluster, copy) == numbers_doubled(range(BAD))
        (stored,) = product.call("GET", f"/connectors/{name}/offsets")["offsets"]
        assert stored["offset"]["offset"] == BAD - 1
        if turn == 0:
            # A restart without a correction changes nothing. The answer says so, if the task fails at once.
            failures = product.log_text().count(f"Task {name}-0 is FAILED")
            product.rest.post(f"/connectors/{name}/tasks/0/restart")
            wait_for_state(
                lambda failures=failures: product.log_text().count(f"Task {name}-0 is FAILED") > failures,
                "the task fails again",
            )
    product.put(name, {**config, "spark.transform.sql": doubled("TRY_CAST")})
    wait_copied(target_cluster, copy, RECORDS)
    found = values_of(target_cluster, copy)
    assert found == [*numbers_doubled(range(BAD)), None, *numbers_doubled(range(BAD + 1, RECORDS))]
    assert SECRET not in product.log_text()
    product.delete(name)


def test_a_record_that_is_skipped_is_counted_and_told(
    one_bad: str, source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product
) -> None:
    name, copy = "sql-all", f"L.{one_bad}"
    config = mirror_config(source_cluster, target_cluster, one_bad, source_cluster_alias="L")
    tolerant = {"errors.tolerance": "all", "errors.log.enable": "true"}
    product.put(name, {**config, **tolerant, "spark.transform.sql": doubled("CAST")})
    wait_copied(target_cluster, copy, RECORDS - 1)
    assert values_of(target_cluster, copy) == numbers_doubled(range(BAD), range(BAD + 1, RECORDS))

    def told() -> list[str]:
        return [
            each for each in product.log_text().splitlines() if "can't take the record" in each and "skipped" in each
        ]

    (line,) = wait_for_state(told, "the log tells of it")
    assert f"{one_bad}, partition 0, offset {BAD}" in line
    assert SECRET not in product.log_text()
    assert product.states(name) == ["RUNNING", "RUNNING"]
    product.delete(name)
