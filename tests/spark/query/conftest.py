"""One Spark for the queries of a file, and topics of all kinds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from deploy.local import LocalCluster
from mirror_connect.query.session import QuerySpark
from tests.e2e.identity_topics import (
    SHAPES_PARTITIONS,
    produce,
    produce_compacted,
    produce_shapes,
    produce_transactions,
)
from tests.spark.query.topics import HOUR_MS, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
