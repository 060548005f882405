"""Topics that grow, appear, and are made again under a statement: each record goes through it, in order and once."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from deploy.local import LocalCluster
from tests.e2e.ends import end_offsets
from tests.e2e.identity_topics import produce
from tests.e2e.product import TASK, Product, mirror_config
from tests.e2e.reading import last_value, records
from tests.waiting import wait_for

pytestmark = [pytest.mark.brokers, pytest.mark.spark]

# Marks what has gone through Spark, and drops every tenth record.
SQL = (
    "SELECT concat(CAST('seen ' AS BINARY), value) AS value FROM records"
    " WHERE CAST(CAST(value AS STRING) AS BIGINT) % 10 <> 3"
)


def write(cluster: LocalCluster, topic: str, partitions: Iterable[int], numbers: range) -> None:
    """These numbers to each of the partitions."""
    produce(
        cluster,
        topic,
        ({"value": str(number), "partition": partition} for number in numbers for partition in partitions),
        **{"topic.metadata.refresh.interval.ms": 500, "allow.auto.create.topics": False},
    )


def made_of(*ranges: range) -> list[bytes]:
    return [b"seen %d" % number for each in ranges for number in each if number % 10 != 3]


def copied(cluster: LocalCluster, topic: str, partition: int) -> list[bytes | None]:
    return [each.value for each in records(cluster, topic, partition)]


def wait_last(cluster: LocalCluster, topic: str, partitions: int, number: int) -> None:
    """Until this number is the last one of each partition."""
    wait_for(
        lambda: (
            len(end_offsets(cluster, topic)) == partitions
            and all(last_value(cluster, topic, each) == b"seen %d" % number for each in range(partitions))
        ),
        f"{number} is the last one of each of {partitions} partitions of {topic}",
        arrived=lambda: end_offsets(cluster, topic),
    )


def test_partitions_and_topics_that_join_go_through_the_statement_from_their_first_record(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product, topic_name: Callable[[str], str]
) -> None:
    prefix = topic_name("sql-joining")
    first, later = f"{prefix}-first", f"{prefix}-later"
    source_cluster.create_topic(first, 2)
    write(source_cluster, first, range(2), range(1_000))
    config = mirror_config(source_cluster, target_cluster, f"{prefix}-.*")
    product.put(prefix, {**config, "spark.transform.sql": SQL})
    wait_last(target_cluster, f"A.{first}", 2, 999)
    tasks = product.pids(TASK)

    source_cluster.grow_topic(first, 4)
    write(source_cluster, first, range(4), range(1_000, 2_000))
    source_cluster.create_topic(later, 3)
    write(source_cluster, later, range(3), range(500))
    wait_last(target_cluster, f"A.{first}", 4, 1_999)
    wait_last(target_cluster, f"A.{later}", 3, 499)

    for partition in range(4):
        expected = made_of(range(0 if partition < 2 else 1_000, 2_000))
        assert copied(target_cluster, f"A.{first}", partition) == expected
    for partition in range(3):
        assert copied(target_cluster, f"A.{later}", partition) == made_of(range(500))
    # Processes that other tests' tasks have left may end meanwhile; none begins.
    assert product.pids(TASK) <= tasks
    product.delete(prefix)


def test_a_topic_made_again_while_spark_has_its_records_is_copied_whole_behind_what_was_copied_of_the_old_one(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("sql-again")
    copy = f"A.{topic}"
    source_cluster.create_topic(topic)
    config = mirror_config(source_cluster, target_cluster, topic)
    product.put(topic, {**config, "spark.transform.sql": SQL, "on.topic.recreated": "copy"})
    write(source_cluster, topic, [0], range(100))
    wait_last(target_cluster, copy, 1, 99)
    former, new = range(100, 20_100), range(1_000_000, 1_005_000)
    write(source_cluster, topic, [0], former)
    # Spark has some of them now, and gives them back when their topic is no longer there.
    source_cluster.delete_topic(topic)
    source_cluster.create_topic(topic)
    write(source_cluster, topic, [0], new)
    wait_last(target_cluster, copy, 1, new[-1])

    found = copied(target_cluster, copy, 0)
    of_old = len(found) - len(made_of(new))
    assert found[of_old:] == made_of(new)
    assert found[:of_old] == made_of(range(100), former)[:of_old]
    product.delete(topic)
