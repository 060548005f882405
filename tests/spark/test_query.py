"""Queries with real brokers and a real Spark: records are a consumer's, SQL over them, what is refused, the command."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pyarrow.parquet as pq
import pytest
from confluent_kafka import TopicPartition
from pyspark.sql.pandas.types import to_arrow_schema

from deploy.local import LocalCluster
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.translation.offset_ranges import NO_ID, OffsetRange, RangeLogState, Segment
from mirror_connect.query.bounds import Bounds
from mirror_connect.query.data_source import register, source_for
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import STATUSES, QueryLink
from mirror_connect.query.link_options import link_of_config, link_of_files
from mirror_connect.query.parsed_plan import parsed_plan
from mirror_connect.query.record_scan import Scan, planned, read_slice
from mirror_connect.query.results import table_lines
from mirror_connect.query.run import Query, Result, planned_result
from mirror_connect.query.session import NICE, QuerySpark
from mirror_connect.query.sql_errors import explained
from mirror_connect.query.statement import place_of, statement_of
from mirror_connect.query.witness import FileWitness
from tests.brokers import messages
from tests.e2e.identity_topics import (
    SHAPES_PARTITIONS,
    produce,
    produce_compacted,
    produce_shapes,
    produce_transactions,
)
from tests.fakes.worker_rest import worker_that_answers
from tests.waiting import wait_for_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark and brokers once more: `make soak` runs them.
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

HOUR_MS = 3_600_000
# Of a slow machine, on which three files run.
RUN_S = 500.0
SECRET = "TOP-SECRET-7"
TYPES = {0: "NoTimestampType", 1: "CreateTime", 2: "LogAppendTime"}


@dataclass(frozen=True)
class Topics:
    """Names of topics on the source, `orders` with JSON, and when its newest record is from."""

    shapes: str
    transactions: str
    compacted: str
    appended: str
    orders: str
    now: int
    committed: int


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    # Otherwise pytest's would be made in Spark's directory, which is removed.
    tmp_path_factory.getbasetemp()
    own = QuerySpark("512m", 2)
    try:
        own.begin()
        session = own.session()
        yield session
        session.stop()
    finally:
        own.end()


@pytest.fixture(scope="module")
def topics(source_cluster: LocalCluster) -> Topics:
    prefix = f"query.{time.time_ns()}"
    shapes, transactions, compacted, appended, orders = (
        f"{prefix}-{name}" for name in ("shapes", "tx", "compacted", "appended", "orders")
    )
    kept = {"retention.ms": "-1"}
    source_cluster.create_topic(shapes, SHAPES_PARTITIONS, kept)
    source_cluster.create_topic(transactions, 2)
    source_cluster.create_topic(appended, 1, {"message.timestamp.type": "LogAppendTime"})
    source_cluster.create_topic(orders, 3, kept)
    produce_shapes(source_cluster, shapes)
    committed = produce_transactions(source_cluster, transactions)[1]
    produce_compacted(source_cluster, compacted)
    produce(source_cluster, appended, [{"value": b"a%d" % n} for n in range(50)], **{"compression.type": "zstd"})
    now = int(time.time() * 1000)
    # Each minute of the last five hours has an order; every tenth arrives an hour late.
    rows = [
        {
            "key": b"k%d" % (n % 7),
            "value": json.dumps({"id": n, "amount": n % 10 + 0.25, "country": ("DE", "FR")[n % 2]}).encode(),
            "timestamp": now - (300 - n) * 60_000 - (HOUR_MS if n % 10 == 0 else 0),
            "partition": n % 3,
        }
        for n in range(300)
    ]
    produce(source_cluster, orders, rows, **{"compression.type": "lz4", "batch.num.messages": 20})
    return Topics(shapes, transactions, compacted, appended, orders, now, committed)


def link(source: LocalCluster, target: LocalCluster | None = None, **more: str) -> QueryLink:
    given = {"source": {**source.client_properties(), "ssl.truststore.password": SECRET, **more}}
    if target is not None:
        given["target"] = target.client_properties()
    return link_of_files(given, "A")


def read(spark: SparkSession, known: QueryLink, topic: str, **options: str) -> DataFrame:
    spark.dataSource.register(source_for(known, None))
    named = {name.replace("_", "."): value for name, value in options.items()}
    return spark.read.format("mirror").options(topic=topic, **named).load()


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


def count(spark: SparkSession, known: QueryLink, topic: str, **options: str) -> int:
    return int(read(spark, known, topic, **options).count())


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


def result(spark: SparkSession, text: str, known: QueryLink, tmp_path: Path, **bounds: str) -> Result:
    return planned_result(spark, text, Query(known, bounds, FileWitness(str(tmp_path))))


def rows(found: Result) -> list[dict[str, Any]]:
    return [json.loads(each) for each in found.first_rows(10_000, named=True)]


def test_sql_over_topics(spark: SparkSession, source_cluster: LocalCluster, topics: Topics, tmp_path: Path) -> None:
    text = f"""
        WITH parsed AS (
          SELECT from_json(CAST(value AS STRING), 'id INT, amount DOUBLE, country STRING') AS o, partition
          FROM source.`{topics.orders}`)
        SELECT o.country, count(*) AS n, sum(o.amount) AS total FROM parsed GROUP BY o.country ORDER BY 1"""
    assert rows(result(spark, text, link(source_cluster), tmp_path)) == [
        {"country": "DE", "n": 150, "total": sum(n % 10 + 0.25 for n in range(0, 300, 2))},
        {"country": "FR", "n": 150, "total": sum(n % 10 + 0.25 for n in range(1, 300, 2))},
    ]


def test_source_and_target_in_one_statement(
    spark: SparkSession, source_cluster: LocalCluster, target_cluster: LocalCluster, topics: Topics, tmp_path: Path
) -> None:
    target_cluster.create_topic(topics.orders, 1)
    produce(target_cluster, topics.orders, [{"key": b"k1", "value": b"x"}])
    text = f"""SELECT s.key, t.value FROM source.`{topics.orders}` s JOIN target.`{topics.orders}` t
               ON s.key = t.key WHERE s.offset < 3 AND EXISTS (SELECT 1 FROM target.`{topics.orders}`)"""
    found = rows(result(spark, text, link(source_cluster, target_cluster), tmp_path))
    assert found
    assert {base64.b64decode(each["value"]) for each in found} == {b"x"}
    qualified = f"SELECT `{topics.orders}`.offset FROM source.`{topics.orders}` ORDER BY 1 LIMIT 1"
    assert rows(result(spark, qualified, link(source_cluster), tmp_path)) == [{"offset": 0}]


def test_all_rows_are_those_of_the_statement_in_its_order(
    spark: SparkSession, source_cluster: LocalCluster, topics: Topics, tmp_path: Path
) -> None:
    # A separator of lines for Python, and one for files; several files, too.
    text = f"""SELECT /*+ REPARTITION_BY_RANGE(3, n) */ partition * 100 + offset AS n, 'a\u2028b\\nc😀' AS t, key, key
               FROM source.`{topics.orders}` ORDER BY n DESC"""
    found = result(spark, text, link(source_cluster), tmp_path)
    stored = found.stored_rows(named=False)
    assert list(stored) == found.first_rows(10_000, named=False)
    every = [json.loads(each) for each in stored]
    assert [each["0"] for each in every] == list(range(299, -1, -1))
    assert {each["1"] for each in every} == {"a\u2028b\nc😀"}
    lines = list(table_lines(found.columns, stored))
    assert (len(lines), {len(line) for line in lines[1:]}) == (301, {len(lines[1])})
    with pytest.raises(QueryError, match="two columns have the name key"):
        found.stored_rows(named=True)


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


def test_ranges_and_checkpoints(
    spark: SparkSession, source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    known = link_of_files({"target": target_cluster.client_properties()}, f"Q{time.time_ns()}")
    assert rows(result(spark, "SELECT r.topic, c.topic AS t FROM ranges r, checkpoints c", known, tmp_path)) == []
    old, new = Checkpoint("billing", "A.orders", 1, 4, 1), Checkpoint("billing", "A.orders", 1, 9, 7)
    two = OffsetRange(0, 0, 100), OffsetRange(101, 100, 50, linked=True)
    segment = Segment("orders", 2, 0, 0, NO_ID, bytes(range(16)), RangeLogState(), two)
    assert known.checkpoints_topic is not None
    assert known.ranges_topic is not None
    for topic, records in (
        (known.checkpoints_topic, [(old.key(), old.value()), (new.key(), new.value()), (b"?", b"?")]),
        (known.ranges_topic, [(segment.key(), segment.value())]),
    ):
        target_cluster.create_topic(topic, 1, {"cleanup.policy": "compact"})
        produce(target_cluster, topic, [{"key": key, "value": value} for key, value in records])
    text = "SELECT group_id, topic, partition, upstream_offset, downstream_offset FROM checkpoints"
    assert [tuple(each.values()) for each in rows(result(spark, text, known, tmp_path))] == [
        ("billing", "A.orders", 1, 9, 7)
    ]
    text = "SELECT topic, partition, upstream_offset, downstream_offset, length, linked, target_topic_id FROM ranges"
    assert [tuple(each.values()) for each in rows(result(spark, text, known, tmp_path))] == [
        ("orders", 2, 0, 0, 100, False, "AAECAwQFBgcICQoLDA0ODw"),
        ("orders", 2, 101, 100, 50, True, "AAECAwQFBgcICQoLDA0ODw"),
    ]


def positions_of(topics: Topics) -> dict[str, Any]:
    listed = [
        {"partition": {"cluster": "A", "topic": topics.orders, "partition": partition}, "offset": {"offset": 89}}
        for partition in (0, 1)
    ]
    gone = {"partition": {"cluster": "A", "topic": "gone", "partition": 0}, "offset": {"offset": 5}}
    return {"offsets": [*listed, gone]}


def test_positions_and_states_come_from_the_worker(
    spark: SparkSession, source_cluster: LocalCluster, topics: Topics, tmp_path: Path
) -> None:
    given = {"source": source_cluster.client_properties()}
    config = {"connector.class": "MirrorSourceConnector", "source.cluster.alias": "A"}
    known = link_of_config("m", config, given)
    task = {"id": 0, "state": "FAILED", "worker_id": "w:8083", "trace": "why"}
    state = {"type": "source", "connector": {"state": "RUNNING", "worker_id": "w:8083"}, "tasks": [task]}
    bodies = {"/connectors/m/offsets": positions_of(topics), STATUSES: {"m": {"status": state}}}
    query = Query(known, {}, FileWitness(str(tmp_path)), bodies.get)
    text = "SELECT topic, partition, offset, end_offset, lag FROM positions ORDER BY topic, partition"
    assert [tuple(each.values()) for each in rows(planned_result(spark, text, query))] == [
        ("gone", 0, 5, None, None),
        (topics.orders, 0, 89, 100, 10),
        (topics.orders, 1, 89, 100, 10),
    ]
    text = "SELECT connector, task, state, trace FROM status ORDER BY task NULLS FIRST"
    assert [tuple(each.values()) for each in rows(planned_result(spark, text, query))] == [
        ("m", None, "RUNNING", None),
        ("m", 0, "FAILED", "why"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM source.t WHERE key IN (SELECT key FROM target.`t.x-y`) LIMIT 5 OFFSET 2",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT * FROM r",
        "SELECT a.*, x FROM source.t a LATERAL VIEW explode(headers) AS x",
        "SELECT *, row_number() OVER w FROM source.t WINDOW w AS (PARTITION BY key ORDER BY offset)",
        "SELECT * FROM (SELECT partition, offset FROM source.t) PIVOT (count(offset) FOR partition IN (0, 1))",
        "SELECT partition, count(*) FROM source.t GROUP BY GROUPING SETS ((partition), ()) HAVING count(*) > 1",
        "FROM source.t |> WHERE offset > 5 |> SELECT key",
        "SELECT /*+ BROADCAST(b) */ * FROM source.t a LEFT ANTI JOIN target.t b USING (key)",
        "SELECT * FROM source.t TABLESAMPLE (10 PERCENT) AS s, LATERAL (SELECT s.key)",
        "SELECT * FROM range(5) UNION SELECT 1 EXCEPT VALUES (2) INTERSECT TABLE positions",
        "SELECT * FROM status TABLESAMPLE (5 ROWS) ORDER BY ALL",
        "SELECT '😀😀', `😀`.key FROM source.`😀` /* 😀 */ JOIN target.t USING (key)",
    ],
)
def test_all_of_select_is_taken(spark: SparkSession, text: str) -> None:
    sql = statement_of(text, parsed_plan(spark, text)).sql
    assert "source." not in sql
    assert parsed_plan(spark, sql).plans


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("INSERT INTO source.t VALUES (1)", "InsertIntoStatement (line 1, column 1)"),
        ("INSERT OVERWRITE LOCAL DIRECTORY '/tmp/x' USING csv SELECT 1", "InsertIntoDir"),
        ("FROM source.t INSERT INTO a SELECT key INSERT INTO b SELECT value", "InsertIntoStatement"),
        ("CREATE TABLE a AS SELECT 1", "CreateTableAsSelect"),
        ("CREATE TEMPORARY VIEW a AS SELECT 1", "CreateView"),
        ("CREATE TEMPORARY FUNCTION f AS 'x.Y' USING JAR '/tmp/x.jar'", "CreateFunction"),
        ("DROP TABLE source.t", "DropTable"),
        ("ADD JAR '/tmp/x.jar'", "AddJarsCommand"),
        ("SET a=1", "SetCommand"),
        ("USE source", "SetCatalogAndNamespace"),
        ("EXPLAIN SELECT 1", "ExplainCommand"),
        ("SHOW TABLES", "ShowTables"),
        ("CACHE TABLE a AS SELECT 1", "CacheTableAsSelect"),
        ("EXECUTE IMMEDIATE 'DROP TABLE a'", "UnresolvedExecuteImmediate"),
        ("SELECT TRANSFORM (key) USING 'cat' AS k FROM source.t", "ScriptTransformation"),
        ("SELECT * FROM IDENTIFIER('source.t')", "write its name itself, without comments or IDENTIFIER"),
        ("SELECT IDENTIFIER('reflect')('java.lang.System', 'getenv')", "IDENTIFIER is not taken"),
        ("SELECT reflect('java.lang.System', 'getenv')", "function reflect is not taken (line 1, column 8)"),
        ("SELECT 1 WHERE EXISTS (SELECT java_method('a', 'b'))", "function java_method is not taken"),
        ("SELECT try_reflect('a', 'b') FROM source.t", "function try_reflect is not taken"),
        ("SELECT * FROM json.`/etc/passwd`", "there is no table json./etc/passwd (line 1, column 15)"),
        ("SELECT * FROM parquet.`file:///etc/passwd`", "there is no table parquet.file:///etc/passwd"),
        ("SELECT * FROM `/etc/passwd`", "there is no table /etc/passwd"),
        ("SELECT * FROM source.t WITH ('header' = 'true')", "a table has no options"),
        ("SELECT * FROM read_files('/etc/passwd')", "table function read_files is not taken"),
        ("SELECT from_protobuf(value, 'm', '/etc/passwd') FROM source.t", "function from_protobuf is not taken"),
        ("CREATE TABLE a USING csv LOCATION 'file:///tmp/x'", "CreateTable"),
        ("COPY INTO a FROM '/etc/passwd'", "PARSE_SYNTAX_ERROR"),
        ("LOAD DATA LOCAL INPATH '/etc/passwd' INTO TABLE a", "LoadData"),
        ("DECLARE VARIABLE a INT", "CreateVariable"),
        ("MERGE INTO source.t USING target.t ON true WHEN MATCHED THEN DELETE", "MergeIntoTable"),
        ("DELETE FROM source.t", "DeleteFromTable"),
        ("SELECT * FROM STREAM source.t", "NamedStreamingRelation"),
        ("SELECT * FROM source.t VERSION AS OF 1", "RelationTimeTravel"),
        ("SELECT * FROM python_worker_logs()", "table function python_worker_logs is not taken"),
        ("BEGIN SELECT 1; END", "CompoundBody"),
    ],
)
def test_whatever_is_no_select_of_these_tables_is_refused(spark: SparkSession, text: str, line: str) -> None:
    with pytest.raises(QueryError) as refused, explained(lambda index: place_of(text, index), lambda: None):
        statement_of(text, parsed_plan(spark, text))
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)


def test_errors_of_spark_have_the_users_position(
    spark: SparkSession, source_cluster: LocalCluster, topics: Topics, tmp_path: Path
) -> None:
    known, name = link(source_cluster), f"source.`{topics.orders}`"
    for text, place, word in (
        (f"SELECT *\nFROM {name} WHERE nothing = 1", "(line 2, column", "nothing"),
        ("SELECT * FORM source.t", "(line 1, column 15)", "PARSE_SYNTAX_ERROR"),
        (f"SELECT 1; SELECT 2 FROM {name}", "(line 1, column 11)", "PARSE_SYNTAX_ERROR"),
        (f"SELECT missing(key) FROM {name}", "(line 1, column 8)", "missing"),
    ):
        with pytest.raises(QueryError) as refused:
            result(spark, text, known, tmp_path)
        assert place in str(refused.value)
        assert word in str(refused.value)
        assert "\n" not in str(refused.value)
    found = result(spark, f"SELECT CAST(CAST(value AS STRING) AS INT) FROM {name}", known, tmp_path)
    with pytest.raises(QueryError, match=r"CAST_INVALID_INPUT.*\(line 1, column 8\)"):
        found.first_rows(10, named=True)
    with pytest.raises(QueryError, match="two columns have the name key"):
        result(spark, f"SELECT key, key FROM {name}", known, tmp_path).check_names()


def test_errors_of_the_cluster_are_one_line(
    spark: SparkSession, source_cluster: LocalCluster, topics: Topics, tmp_path: Path
) -> None:
    known = link(source_cluster)
    missing = rf"^the source cluster has no topic {topics.orders}x; near it there .*{topics.orders}"
    with pytest.raises(QueryError, match=missing):
        result(spark, f"SELECT * FROM source.`{topics.orders}x`", known, tmp_path)
    # Brokers make a topic of each name that a client asks for, unless it asks them not to.
    assert f"{topics.orders}x" not in source_cluster.admin().list_topics(timeout=60).topics
    with pytest.raises(QueryError, match=r"^the target cluster is not known"):
        result(spark, "SELECT * FROM target.t", known, tmp_path)
    nowhere = link_of_files({"source": {"bootstrap.servers": "127.0.0.1:1"}}, None)
    with pytest.raises(QueryError, match=r"^the source cluster: no broker answers at 127\.0\.0\.1:1"):
        result(spark, "SELECT * FROM source.t", nowhere, tmp_path)
    # What only Spark's processes see, after the statement was planned.
    topic = f"{topics.orders}-gone"
    source_cluster.create_topic(topic)
    found = result(spark, f"SELECT count(*) FROM source.`{topic}`", known, tmp_path)
    source_cluster.delete_topic(topic)
    with pytest.raises(QueryError, match=rf"^the source cluster has no topic {topic}; near it"):
        found.first_rows(10, named=True)


def test_no_plan_shows_a_secret(
    spark: SparkSession, source_cluster: LocalCluster, topics: Topics, tmp_path: Path
) -> None:
    found = result(spark, f"SELECT * FROM source.`{topics.orders}` WHERE offset > 1", link(source_cluster), tmp_path)
    shown = [
        found.frame._jdf.queryExecution().toString(),
        found.frame._jdf.queryExecution().logical().toJSON(),
        str(spark.sparkContext.getConf().getAll()),
        *(" ".join(each.cmdline()) for each in psutil.Process().children(recursive=True)),
    ]
    assert topics.orders in shown[0]
    assert not [each for each in shown if SECRET in each]


def test_a_session_of_ones_own(
    spark: SparkSession, source_cluster: LocalCluster, topics: Topics, tmp_path: Path
) -> None:
    path = tmp_path / "client.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in source_cluster.client_properties().items()))
    register(spark)
    frame = spark.read.format("mirror").option("source.properties", str(path)).option("last", "2h").load(topics.orders)
    assert frame.columns[:3] == ["topic", "partition", "offset"]
    assert 0 < frame.count() < 300
    with worker_that_answers(
        {
            STATUSES: {"m": {"info": {"config": {"connector.class": "MirrorSourceConnector"}}, "status": {}}},
            "/connectors/m/config": {"connector.class": "MirrorSourceConnector", "name": "m"},
            "/connectors/m/offsets": positions_of(topics),
        }
    ) as worker:
        options = {"what": "positions", "worker": worker.url, "source.properties": str(path)}
        assert spark.read.format("mirror").options(**options).load().count() == 3


def command(source: LocalCluster, tmp_path: Path, statement: str, *more: str) -> subprocess.CompletedProcess[str]:
    """What the command prints, without its progress: on a slow machine it tells some."""
    arguments = _command(source, tmp_path, statement, *more)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=RUN_S, check=False)
    done.stderr = "".join(each for each in done.stderr.splitlines(keepends=True) if not each.endswith(" read\n"))
    return done


def _command(source: LocalCluster, tmp_path: Path, statement: str, *more: str) -> list[str]:
    path = tmp_path / "source.properties"
    properties: Mapping[str, str] = {**source.client_properties(), "ssl.truststore.password": SECRET}
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return [sys.executable, "-m", "mirror_connect.cli", "sql", statement, "--source", str(path), *more]


def test_the_command_prints_rows_of_the_last_hour(source_cluster: LocalCluster, topics: Topics, tmp_path: Path) -> None:
    statement = f"SELECT offset, CAST(value AS STRING) AS v FROM source.`{topics.orders}` ORDER BY timestamp DESC"
    done = command(source_cluster, tmp_path, statement, "--last", "90min", "-o", "json", "--rows", "5")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 5), done.stderr
    assert json.loads(json.loads(done.stdout.splitlines()[0])["v"])["id"] == 299
    assert done.stderr == "mirror-connect: there are more rows than 5: --rows NUMBER shows more of them, 0 all\n"


def test_the_command_prints_csv_and_tables(source_cluster: LocalCluster, topics: Topics, tmp_path: Path) -> None:
    statement = f"SELECT key, partition, key FROM source.`{topics.orders}` WHERE offset = 0 ORDER BY partition"
    done = command(source_cluster, tmp_path, statement, "-o", "csv")
    assert list(csv.reader(io.StringIO(done.stdout))) == [
        ["key", "partition", "key"],
        *([base64.b64encode(b"k%d" % n).decode(), str(n), base64.b64encode(b"k%d" % n).decode()] for n in range(3)),
    ]
    done = command(source_cluster, tmp_path, statement)
    assert done.stdout.splitlines() == [
        "key  partition  key",
        "k0           0  k0",
        "k1           1  k1",
        "k2           2  k2",
    ]
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_writes_parquet(source_cluster: LocalCluster, topics: Topics, tmp_path: Path) -> None:
    to = tmp_path / "parquet"
    statement = f"SELECT topic, offset, value, timestamp FROM source.`{topics.orders}`"
    done = command(source_cluster, tmp_path, statement, "-o", "parquet", "--to", str(to))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    table = pq.read_table(to)
    assert table.num_rows == 300
    assert json.loads(table.column("value")[0].as_py())["country"] in ("DE", "FR")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("SELECT 1", "--max-bytes", "10"), None),
        (("SELECT max(value) FROM source.`{}`", "--max-bytes", "1"), "more than --max-bytes 1 B: read less"),
        (
            ("SELECT count(*) FROM range(100000000000000)", "--timeout", "20s"),
            "stopped after 20 s, the limit of --timeout",
        ),
        (("DROP TABLE source.t",), "only one SELECT is taken"),
        (
            ("SELECT collect_list(repeat(CAST(id AS STRING), 1000)) FROM range(10000000)", "--memory", "512m"),
            "Spark's JVM does not answer any more",
        ),
    ],
)
def test_the_command_ends_at_a_limit_with_one_line(
    source_cluster: LocalCluster, topics: Topics, tmp_path: Path, arguments: tuple[str, ...], line: str | None
) -> None:
    statement, *more = arguments
    done = command(source_cluster, tmp_path, statement.format(topics.orders), *more)
    assert done.returncode == (0 if line is None else 2), done.stderr
    assert done.stderr.count("\n") == (line is not None), done.stderr
    assert line is None or line in done.stderr
    assert SECRET not in done.stderr


@pytest.mark.parametrize(
    ("number", "code", "last"),
    [(signal.SIGINT, 130, ["mirror-connect: interrupted"]), (signal.SIGTERM, 143, []), (signal.SIGHUP, 129, [])],
)
def test_a_signal_in_the_middle_ends_all_of_its_processes(
    source_cluster: LocalCluster, topics: Topics, tmp_path: Path, *, number: int, code: int, last: list[str]
) -> None:
    endless = f"SELECT count(*) AS n FROM source.`{topics.orders}`, range(100000000000000)"
    to = tmp_path / "never"
    with _started(source_cluster, tmp_path, endless, "-o", "parquet", "--to", str(to)) as process:
        assert process.stderr is not None
        # Progress is told after ten seconds; by the third time the query runs.
        for _ in range(3):
            assert " read" in process.stderr.readline()
        rest, children = _ended(process, number)
        assert (process.returncode, rest) == (code, last)
        wait_for_state(lambda: not any(map(_is_there, children)), "the command's processes have ended", 60)
    assert [each.name for each in tmp_path.iterdir()] == ["source.properties"]


def test_a_signal_at_the_start_ends_all_of_its_processes(
    source_cluster: LocalCluster, topics: Topics, tmp_path: Path
) -> None:
    with _started(source_cluster, tmp_path, f"SELECT * FROM source.`{topics.orders}`") as process:
        of_it = psutil.Process(process.pid)
        wait_for_state(lambda: any("java" in each.name() for each in of_it.children()), "its JVM starts", 60)
        rest, children = _ended(process, signal.SIGINT)
        assert (process.returncode, rest) == (130, ["mirror-connect: interrupted"])
        wait_for_state(lambda: not any(map(_is_there, children)), "the command's processes have ended", 60)
    assert [each.name for each in tmp_path.iterdir()] == ["source.properties"]


@contextlib.contextmanager
def _started(source: LocalCluster, tmp_path: Path, statement: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    # The log of its processes goes to a file, so that only the command itself holds the pipe.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    arguments = _command(source, tmp_path, statement, *more)
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _ended(process: subprocess.Popen[str], number: int) -> tuple[list[str], list[psutil.Process]]:
    """Signals the command twice, as impatient people do; what it still tells, and the processes that it had."""
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    # Whatever else is on the machine goes first.
    assert {each.nice() - os.getpriority(os.PRIO_PROCESS, process.pid) for each in children} == {NICE}
    process.send_signal(number)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    _, rest = process.communicate(timeout=RUN_S)
    return [each for each in rest.splitlines() if not each.endswith(" read")], children


def _is_there(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
