"""A statement with exactly-once: whatever is killed, and whatever fails, readers of committed records see each one once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.identity_topics import produce
from tests.e2e.numbered import Writer
from tests.e2e.product import DRIVER, JVM, Product, mirror_config
from tests.e2e.reading import records
from tests.e2e.sql_processes import kill_some
from tests.seeds import chance
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.soak, pytest.mark.long]

PARTITIONS: Final = 3
RATE: Final = 1_500
PROPERTIES: Final = {"exactly.once.source.support": "enabled"}
SUFFIX: Final = b" through Spark"
NUMBER: Final = "CAST(split_part(CAST(value AS STRING), ' ', 1) AS BIGINT)"
SQL: Final = f"SELECT concat(value, CAST('{SUFFIX.decode()}' AS BINARY)) AS value FROM records WHERE {NUMBER} % 3 <> 1"
COUNT, BAD = 30_000, 17_777


@pytest.fixture(scope="module")
def once(target_cluster: LocalCluster) -> Iterator[Product]:
    with Product(target_cluster, group="sql-once", properties=PROPERTIES) as product:
        yield product


def config(source: LocalCluster, target: LocalCluster, topic: str, sql: str, **settings: str) -> dict[str, str]:
    made = mirror_config(
        source,
        target,
        topic,
        source_consumer_isolation_level="read_committed",
        exactly_once_support="required",
        **settings,
    )
    return {**made, "spark.transform.sql": sql}


def committed(cluster: LocalCluster, topic: str, partition: int) -> list[int]:
    """The numbers that readers of committed records see, each of which Spark has changed."""
    found = []
    for each in records(cluster, topic, partition, isolation="read_committed"):
        value = each.value or b""
        assert value.endswith(SUFFIX)
        found.append(int(value.split()[0]))
    return found


@pytest.mark.parametrize(
    ("boundary", "rounds"),
    [
        pytest.param({"transaction_boundary": "interval", "transaction_boundary_interval_ms": "500"}, 4, id="interval"),
        pytest.param({"transaction_boundary": "poll"}, 4, id="poll"),
        pytest.param(
            {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "200"},
            20,
            id="many_rounds",
            marks=pytest.mark.timeout(2400),
        ),
    ],
)
def test_each_kept_record_is_seen_once_and_in_order_whatever_is_killed(
    boundary: dict[str, str], rounds: int, source_cluster: LocalCluster, target_cluster: LocalCluster, once: Product
) -> None:
    topic = f"sql-once-{boundary['transaction_boundary']}-{rounds}"
    source_cluster.create_topic(topic, PARTITIONS)
    dice = chance(topic)
    with Writer(source_cluster, topic, PARTITIONS, RATE) as writer:
        once.put(topic, config(source_cluster, target_cluster, topic, SQL, **boundary))
        once.wait_running(topic)
        for turn in range(1, rounds + 1):
            time.sleep(dice.uniform(0.2, 2.0))
            if turn % 5:
                kill_some(once, dice)
            else:
                once.kill(DRIVER, JVM)
            if turn % 10 == 0:
                # After twelve deaths a task is FAILED.
                once.call("POST", f"/connectors/{topic}/tasks/0/restart")
            once.wait_running(topic)
            once.wait_going_on(topic, target_cluster, f"A.{topic}")
    wanted = {number: [n for n in range(count) if n % 3 != 1] for number, count in writer.counts.items()}

    def found() -> dict[int, list[int]]:
        return {number: committed(target_cluster, f"A.{topic}", number) for number in wanted}

    def missing() -> int:
        return sum(map(len, wanted.values())) - sum(map(len, found().values()))

    wait_for(lambda: missing() <= 0, "all are there", pause=1.0, arrived=missing)
    assert found() == wanted
    last = {number: count - 1 for number, count in writer.counts.items()}
    # Dropped records at the end count as well.
    wait_for(lambda: once.source_offsets(topic) == last, f"the source offsets are {last}")
    once.delete(topic)


def in_words(topic: str, cluster: LocalCluster) -> None:
    """Numbers, one of which is a word."""
    cluster.create_topic(topic, 1)
    rows = ({"value": "bad" if n == BAD else str(n), "key": b"k", "partition": 0} for n in range(COUNT))
    produce(cluster, topic, rows, **{"compression.type": "zstd", "batch.num.messages": 1_000})


def marking(cast: str) -> str:
    return (
        f"SELECT concat(CAST(coalesce({cast}(CAST(value AS STRING) AS BIGINT), -1) AS STRING), "
        f"'{SUFFIX.decode()}') AS value "
        "FROM records"
    )


def test_a_task_that_fails_commits_all_before_the_record_and_goes_on_with_it(
    source_cluster: LocalCluster, target_cluster: LocalCluster, once: Product
) -> None:
    topic = "sql-once-none"
    in_words(topic, source_cluster)
    once.put(topic, config(source_cluster, target_cluster, topic, marking("CAST")))

    def failed() -> str | None:
        tasks = once.status(topic).get("tasks", [])
        return str(tasks[0]["trace"]) if tasks and tasks[0]["state"] == "FAILED" else None

    trace = wait_for_state(failed, "the task is FAILED")
    assert f"{topic}, partition 0, offset {BAD}" in trace
    # A commit that was about to come when it failed has come.
    assert committed(target_cluster, f"A.{topic}", 0) == list(range(BAD))
    assert once.source_offsets(topic) == {0: BAD - 1}
    once.put(topic, config(source_cluster, target_cluster, topic, marking("TRY_CAST")))
    wanted = [-1 if n == BAD else n for n in range(COUNT)]
    wait_for(
        lambda: len(committed(target_cluster, f"A.{topic}", 0)) >= COUNT,
        "all are there",
        arrived=lambda: len(committed(target_cluster, f"A.{topic}", 0)),
    )
    assert committed(target_cluster, f"A.{topic}", 0) == wanted
    once.delete(topic)


def test_a_record_is_skipped_and_all_others_are_seen_once(
    source_cluster: LocalCluster, target_cluster: LocalCluster, once: Product
) -> None:
    topic = "sql-once-all"
    in_words(topic, source_cluster)
    tolerant = {"errors_tolerance": "all", "errors_log_enable": "true"}
    once.put(topic, config(source_cluster, target_cluster, topic, marking("CAST"), **tolerant))
    wait_for(
        lambda: len(committed(target_cluster, f"A.{topic}", 0)) >= COUNT - 1,
        "all are there",
        arrived=lambda: len(committed(target_cluster, f"A.{topic}", 0)),
    )
    assert committed(target_cluster, f"A.{topic}", 0) == [n for n in range(COUNT) if n != BAD]
    wait_for_state(lambda: f"{topic}, partition 0, offset {BAD}" in once.log_text(), "the log tells of it")
    once.delete(topic)
