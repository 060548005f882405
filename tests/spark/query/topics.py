"""What queries in tests read: topics of all kinds, and how they are read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deploy.local import LocalCluster
from mirror_connect.query.data_source import source_for
from mirror_connect.query.link import QueryLink
from mirror_connect.query.link_options import link_of_files
from mirror_connect.query.run import Query, Result, planned_result
from mirror_connect.query.witness import FileWitness

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

HOUR_MS = 3_600_000
SECRET = "TOP-SECRET-7"


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


def link(source: LocalCluster, target: LocalCluster | None = None, **more: str) -> QueryLink:
    given = {"source": {**source.client_properties(), "ssl.truststore.password": SECRET, **more}}
    if target is not None:
        given["target"] = target.client_properties()
    return link_of_files(given, "A")


def read(spark: SparkSession, known: QueryLink, topic: str, **options: str) -> DataFrame:
    spark.dataSource.register(source_for(known, None))
    named = {name.replace("_", "."): value for name, value in options.items()}
    return spark.read.format("mirror").options(topic=topic, **named).load()


def result(spark: SparkSession, text: str, known: QueryLink, tmp_path: Path, **bounds: str) -> Result:
    return planned_result(spark, text, Query(known, bounds, FileWitness(str(tmp_path))))


def rows(found: Result) -> list[dict[str, Any]]:
    return [json.loads(each) for each in found.first_rows(10_000, named=True)]


def positions_of(topics: Topics) -> dict[str, Any]:
    listed = [
        {"partition": {"cluster": "A", "topic": topics.orders, "partition": partition}, "offset": {"offset": 89}}
        for partition in (0, 1)
    ]
    gone = {"partition": {"cluster": "A", "topic": "gone", "partition": 0}, "offset": {"offset": 5}}
    return {"offsets": [*listed, gone]}
