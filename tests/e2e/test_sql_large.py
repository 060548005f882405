"""Large records through Spark: as they are, as JSON, and grown beyond what the target takes. Nobody else is harmed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.ends import end_offsets
from tests.e2e.identity_topics import produce
from tests.e2e.product import JVM, Product, mirror_config
from tests.e2e.reading import records
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

MOST: Final = 32 << 20
LIMIT: Final = {"max.message.bytes": str(MOST + (1 << 20))}
# Sizes of values, in bytes.
SIZES: Final = (10, 1 << 20, 3, 5 << 20, 700, 20 << 20, 1, (MOST - 4096), 5, 12 << 20, 2)


def large(size: int, number: int) -> bytes:
    """A JSON object of about this size, in which nothing is easy to compress away for a reader of columns."""
    head = f'{{"id":{number},"text":"'
    return (head + "abcdefghij" * max(0, (size - len(head)) // 10) + '"}').encode()


def wait_copied(product: Product, name: str, cluster: LocalCluster, topic: str, count: int) -> None:
    def there() -> int:
        assert "FAILED" not in product.states(name), product.log_tail(40)
        return sum(end_offsets(cluster, topic).values())

    wait_for(lambda: there() >= count, f"{count} records in {topic}", arrived=there)


def test_records_up_to_the_limit_go_through_spark(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("sql-large")
    source_cluster.create_topic(topic, 1, LIMIT)
    values = [large(size, number) for number, size in enumerate(SIZES)]
    usual = {"message.max.bytes": MOST + (1 << 20), "compression.type": "zstd"}
    produce(source_cluster, topic, ({"value": value, "key": b"k", "partition": 0} for value in values), **usual)
    jvms: set[int] = set()
    config = mirror_config(
        source_cluster, target_cluster, topic, producer_override_max_request_size=str(MOST + (1 << 20))
    )
    for alias, settings in {
        "V": {"spark.transform.sql": "SELECT substring(value, 1) AS value FROM records"},
        "W": {
            "spark.transform.value.schema": "id BIGINT, text STRING",
            "spark.transform.sql": "SELECT named_struct('id', value.id, 'text', value.text) AS value FROM records",
        },
    }.items():
        target_cluster.create_topic(f"{alias}.{topic}", 1, LIMIT)
        name = f"{alias}-{topic}"
        product.put(name, {**config, **settings, "source.cluster.alias": alias})
        product.wait_running(name)
        jvms = jvms or product.pids(JVM)
        wait_copied(product, name, target_cluster, f"{alias}.{topic}", len(values))
        for number, came in enumerate(records(target_cluster, f"{alias}.{topic}", 0)):
            assert json.loads(came.value or b"") == json.loads(values[number])
        assert product.states(name) == ["RUNNING", "RUNNING"]
        product.delete(name)
    assert product.pids(JVM) == jvms


def test_a_value_that_grows_beyond_the_target_stalls_its_partition_alone(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product, topic_name: Callable[[str], str]
) -> None:
    topic = topic_name("sql-grows")
    source_cluster.create_topic(topic, 2)
    rows = [{"value": b"x" * 100, "key": b"%d" % n, "partition": n % 2} for n in range(1_000)]
    produce(source_cluster, topic, rows)
    config = mirror_config(source_cluster, target_cluster, topic)
    # Only record 400, in the middle of partition 0, becomes 20 MB. Others become 10 kB, and their batches are split.
    sql = (
        "SELECT repeat(CAST(value AS STRING), CASE WHEN key = CAST('400' AS BINARY) THEN 200000 ELSE 100 END) AS value "
        "FROM records"
    )
    product.put(topic, {**config, "spark.transform.sql": sql})

    def stalled() -> bool:
        return "larger than" in json.dumps(product.status(topic)) or "max.message.bytes" in json.dumps(
            product.status(topic)
        )

    wait_for_state(stalled, "the status names the record")
    wait_for(
        lambda: end_offsets(target_cluster, f"A.{topic}") == {0: 200, 1: 500},
        "all others are there",
        arrived=lambda: end_offsets(target_cluster, f"A.{topic}"),
    )
    assert f"{topic}-0" in json.dumps(product.status(topic))
    product.put(topic, {**config, "spark.transform.sql": sql, "on.oversize.record": "skip"})
    wait_for(
        lambda: end_offsets(target_cluster, f"A.{topic}") == {0: 499, 1: 500},
        "the record is skipped",
        arrived=lambda: end_offsets(target_cluster, f"A.{topic}"),
    )
    keys = [each.key for each in records(target_cluster, f"A.{topic}", 0)]
    assert keys == [b"%d" % n for n in range(0, 1_000, 2) if n != 400]
    product.delete(topic)
