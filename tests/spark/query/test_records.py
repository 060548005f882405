"""Records that a query reads are a consumer's, and no more is read than it needs."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import TopicPartition
from pyspark.sql.pandas.types import to_arrow_schema

from deploy.local import LocalCluster
from mirror_connect.query.bounds import Bounds
from mirror_connect.query.data_source import source_for
from mirror_connect.query.parsed_plan import parsed_plan
from mirror_connect.query.record_scan import Scan, planned, read_slice
from mirror_connect.query.run import Result
from mirror_connect.query.statement import statement_of
from mirror_connect.query.witness import FileWitness
from tests.brokers import messages
from tests.e2e.identity_topics import SHAPES_PARTITIONS, produce
from tests.spark.query.topics import HOUR_MS, Topics, link, read, result, rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark and brokers once more: `make soak` runs them.
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

TYPES = {0: "NoTimestampType", 1: "CreateTime", 2: "LogAppendTime"}


def as_rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    found = frame.selectExpr(
        *("partition", "offset", "timestamp_type", "unix_millis(timestamp)", "key", "value", "headers")
    ).collect()
    return sorted(
        (*row[:4], *(None if each is None else bytes(each) for each in row[4:6]), [tuple(one) for one in row[6]])
        for row in found
    )


def consumed(cluster: LocalCluster, topic: str, partitions: int, isolation: str) -> list[tuple[Any, ...]]:
    found = []
    for partition in range(partitions):
        for each in messages(cluster, topic, partition, isolation=isolation):
            kind, ms = each.timestamp()
            headers = [(name, value) for name, value in each.headers() or []]
            found.append((partition, each.offset(), TYPES[kind], ms, each.key(), each.value(), headers))
    return sorted(found)


@pytest.mark.parametrize("slice_offsets", ["500000", "7"])
def test_records_are_those_of_a_consumer(
    spark: SparkSession, source_cluster: LocalCluster, topics: Topics, slice_offsets: str
) -> None:
    known = link(source_cluster)
    for topic, partitions in ((topics.shapes, SHAPES_PARTITIONS), (topics.appended, 1), (topics.orders, 3)):
        expected = consumed(source_cluster, topic, partitions, "read_uncommitted")
        assert expected
        assert as_rows(read(spark, known, topic, slice_offsets=slice_offsets)) == expected


def test_gaps_of_a_compacted_log_are_no_records(
    spark: SparkSession, source_cluster: LocalCluster, topics: Topics
) -> None:
    expected = consumed(source_cluster, topics.compacted, 1, "read_uncommitted")
    assert as_rows(read(spark, link(source_cluster), topics.compacted, slice_offsets="100")) == expected


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_transactions(spark: SparkSession, source_cluster: LocalCluster, topics: Topics, isolation: str) -> None:
    expected = consumed(source_cluster, topics.transactions, 2, isolation)
    known = link(source_cluster, None, **{"isolation.level": isolation})
    assert as_rows(read(spark, known, topics.transactions, slice_offsets="50")) == expected
    assert (len(expected) == topics.committed) == (isolation == "read_committed")


def test_times_are_those_of_the_records_also_of_late_ones(
    spark: SparkSession, source_cluster: LocalCluster, topics: Topics
) -> None:
    every = consumed(source_cluster, topics.orders, 3, "read_uncommitted")
    known = link(source_cluster)
    begin, end = topics.now - 2 * HOUR_MS, topics.now - HOUR_MS
    within = [row for row in every if begin <= row[3] < end]
    assert 0 < len(within) < len(every)
    assert as_rows(read(spark, known, topics.orders, **{"from": str(begin), "until": str(end)})) == within
    # The same as a filter, which Spark hands to the source.
    frame = read(spark, known, topics.orders).where(
        f"timestamp >= timestamp_millis({begin}) AND timestamp < timestamp_millis({end})"
    )
    assert as_rows(frame) == within
    first = [row for row in every if 5 <= row[1] < 9]
    assert as_rows(read(spark, known, topics.orders, from_offset="5", until_offset="9")) == first


def test_a_filter_reads_less(
    spark: SparkSession, source_cluster: LocalCluster, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topic_name("query-large")
    source_cluster.create_topic(topic, 2)
    now = int(time.time() * 1000)
    values = ({"value": os.urandom(1000), "partition": n % 2, "timestamp": now + n} for n in range(30_000))
    produce(source_cluster, topic, values)
    sizes = []
    for number, condition in enumerate(
        (
            "true",
            "offset >= 14000",
            "partition = 1",
            f"timestamp >= timestamp_millis({now + 29_000})",
            "offset = 3 AND partition = 0",
        )
    ):
        directory = tmp_path / str(number)
        directory.mkdir()
        witness = FileWitness(str(directory))
        spark.dataSource.register(source_for(link(source_cluster), witness))
        found = spark.read.format("mirror").load(topic).where(condition).count()
        sizes.append((found, witness.bytes_read >> 20))
    assert [found for found, _ in sizes] == [30_000, 2000, 15_000, 1000, 1]
    whole = sizes[0][1]
    assert whole >= 28
    # A fetch brings four megabytes.
    assert all(size <= limit for (_, size), limit in zip(sizes[1:], (8, whole // 2 + 1, 8, 4), strict=True)), sizes


def test_a_few_rows_of_a_long_topic_read_a_few_slices(
    spark: SparkSession, source_cluster: LocalCluster, topics: Topics, tmp_path: Path
) -> None:
    text = "SELECT * FROM source.t"
    read = []
    for most in (6, 1000):
        directory = tmp_path / str(most)
        directory.mkdir()
        witness = FileWitness(str(directory))
        spark.dataSource.register(source_for(link(source_cluster), witness))
        frame = spark.read.format("mirror").option("slice.offsets", "5").load(topics.orders)
        found = Result(frame, statement_of(text, parsed_plan(spark, text)), witness).first_rows(most, named=True)
        assert len(found) == min(most, 300)
        read.append(witness.bytes_read)
    # The first of sixty slices has five records. Then four slices are read.
    assert 0 < read[0] <= read[1] / 6


def test_what_retention_deletes_meanwhile_is_left_out(
    spark: SparkSession, source_cluster: LocalCluster, topic_name: Callable[[str], str], tmp_path: Path
) -> None:
    topic = topic_name("query-shrinking")
    source_cluster.create_topic(topic)
    for begin in range(0, 300, 100):
        values = [{"value": b"%d" % number} for number in range(begin, begin + 100)]
        produce(source_cluster, topic, values, **{"batch.num.messages": 10})
    found = result(spark, f"SELECT offset FROM source.`{topic}` ORDER BY offset", link(source_cluster), tmp_path)
    # The ends of the logs are read again when the job begins; a slice's begin is gone as its task asks for it.
    place = TopicPartition(topic, 0, 150)
    scan = Scan("source", (topic,), Bounds(), 100)
    slices = asyncio.run(planned(link(source_cluster), scan))
    source_cluster.admin().delete_records([place])[place].result(60)
    assert [each["offset"] for each in rows(found)] == list(range(150, 300))
    schema = to_arrow_schema(spark.read.format("mirror").option("topic", topic).load().schema, timezone="UTC")
    offsets = [
        [each for batch in read_slice(link(source_cluster), scan, part, schema) for each in batch["offset"].to_pylist()]
        for part in slices
    ]
    assert offsets == [[], list(range(150, 200)), list(range(200, 300))]
