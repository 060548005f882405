"""The dead letter topic of the whole product: the worker creates it, Spark finds the records, and none is changed there."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.product import Product, mirror_config
from tests.integration.mirror_rig import produce, read
from tests.waiting import wait_for, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

SECRET: Final = "pepper-and-salt"
SQL: Final = (
    "SELECT named_struct('id', value.id, 'email', sha2(concat(secrets.SALT, value.email), 256)) AS value FROM records"
)
CONFIG: Final = {
    "spark.transform.sql": SQL,
    "spark.transform.value.schema": "id BIGINT, email STRING",
    "spark.transform.secret.SALT": SECRET,
    "errors.tolerance": "all",
    "errors.deadletterqueue.context.headers.enable": "true",
}
COUNT: Final = 700


def records() -> list[dict[str, object]]:
    """One of seven is no JSON."""
    return [
        {
            "key": b"%d" % number,
            "value": b"no JSON, u@example.org" if number % 7 == 3 else b'{"id":%d,"email":"u@example.org"}' % number,
            "headers": [("h", b"%d" % number)],
            "partition": 0,
            "timestamp": 1_790_000_000_000 + number,
        }
        for number in range(COUNT)
    ]


def link_of(product: Product, connector: str) -> dict[str, Any]:
    """As REST shows the link with this connector."""
    links: list[dict[str, Any]] = product.rest.get("/admin/links").json()["links"]
    return next(each for each in links if any(one["name"] == connector for one in each["connectors"]))


def test_records_that_a_statement_can_not_take_are_in_the_topic(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product
) -> None:
    topic = f"letters-of-sql-{time.time_ns()}"
    letters = f"{topic}-letters"
    source_cluster.create_topic(topic, 1)
    made = records()
    produce(source_cluster, topic, made, **{"compression.type": "zstd"})
    config = {
        **mirror_config(source_cluster, target_cluster, topic),
        **CONFIG,
        "errors.deadletterqueue.topic.name": letters,
    }
    # One broker has no three replicas: as with Kafka Connect that is an error.
    begun_ms = time.time() * 1000
    product.put(topic, config)
    wait_for_state(lambda: product.status(topic).get("connector", {}).get("state") == "FAILED", "the connector fails")
    assert "errors.deadletterqueue.topic.replication.factor" in product.status(topic)["connector"]["trace"]
    failed = next(each for each in link_of(product, topic)["connectors"] if each["name"] == topic)
    assert failed["state"] == "FAILED"
    assert begun_ms - 1000 < failed["since_ms"] < time.time() * 1000 + 1000
    product.put(topic, {**config, "errors.deadletterqueue.topic.replication.factor": "1"})
    product.wait_running(topic)
    bad = [each for each in made if b"no JSON" in bytes(each["value"])]  # type: ignore[call-overload]

    def there() -> int:
        topics = target_cluster.admin().list_topics(timeout=60).topics
        return len(read(target_cluster, letters)) + len(read(target_cluster, f"A.{topic}")) if letters in topics else 0

    wait_for(lambda: there() >= COUNT, "all are copied or dead letters", 180, arrived=there)
    found = read(target_cluster, letters)
    assert [(each.key, each.value, each.timestamp[1], each.headers[0]) for each in found] == [
        (each["key"], each["value"], each["timestamp"], each["headers"][0])
        for each in bad  # type: ignore[index]
    ]
    told = dict(found[0].headers)
    assert told["__connect.errors.class.name"] == b"spark.transform.sql"
    assert told["__connect.errors.offset"] == b"3"
    assert all(SECRET.encode() not in (value or b"") for each in found for _, value in each.headers)
    assert all("@" not in json.loads(each.value or b"")["email"] for each in read(target_cluster, f"A.{topic}"))
    # Of this connector alone: no other one has the same link, and nothing was read twice.
    wait_for_state(lambda: link_of(product, topic)["skipped"] == len(bad), "the link counts what it has left out")
    assert len(target_cluster.admin().list_topics(letters, timeout=60).topics[letters].partitions) == 1
    product.delete(topic)
