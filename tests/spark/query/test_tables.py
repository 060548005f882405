"""SQL over topics, ranges, checkpoints, positions and states, of real clusters; errors that name what is wrong."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from deploy.local import LocalCluster
from mirror_connect.connectors.records.checkpoints import Checkpoint
from mirror_connect.connectors.translation.offset_ranges import NO_ID, OffsetRange, RangeLogState, Segment
from mirror_connect.query.data_source import register
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import STATUSES
from mirror_connect.query.link_options import link_of_config, link_of_files
from mirror_connect.query.results import table_lines
from mirror_connect.query.run import Query, planned_result
from mirror_connect.query.witness import FileWitness
from tests.e2e.identity_topics import produce
from tests.fakes.worker_rest import worker_that_answers
from tests.spark.query.topics import SECRET, Topics, link, positions_of, result, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Spark and brokers once more: `make soak` runs them.
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]


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
