"""Poison in the internal topics: written at the source it never arrives; written into them it takes nobody along.

Two records would hang a worker of old, and each that took its place: a connector, and a commit of three thousand million
tasks. Whoever may write a topic at the source could have them carried there by a link that keeps names.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import httpx
import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from mirror_connect.connectors.user_code.known_classes import IDENTITY_POLICY
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.product import Product, mirror_config
from tests.waiting import WaitTimedOut, wait_for_state

# tests/unit/app/storage/test_poison_records.py has every record, and a worker that takes over, in each run of `make test`.
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

GROUP = "poisoned"
COMPACTED = {"cleanup.policy": "compact"}
EVIL = [
    (b"connector-evil", b'{"properties":{"name":"evil","connector.class":"EvilConnector"}}'),
    (b"commit-evil", b'{"tasks":3000000000}'),
]
POISON: dict[str, Sequence[tuple[bytes | None, bytes | None]]] = {
    "configs": [
        *EVIL,
        (b"connector-odd", b'{"properties":{"name":["x"],"connector.class":7}}'),
        (b"connector-deep", b'{"properties":' + b"[" * 200_000 + b"]" * 200_000 + b"}"),
        (b"connector-halved", b'{"properties":{"name":"halved","connector.class":"\\ud800"}}'),
        (
            b"connector-torn",
            b'{"properties":{"connector.class":"org.apache.kafka.connect.mirror.MirrorSourceConnector"}}',
        ),
        (b"task-torn-0", b'{"properties":{"task.assigned.partitions":"a,-1,b-99999999999999999999"}}'),
        (b"commit-torn", b'{"tasks":1}'),
        (b"task-evil-" + b"9" * 5000, b'{"properties":{}}'),
        (b"session-key", b'{"key":"\xc3\xa9","algorithm":"x","creation-timestamp":1}'),
        (b"logger-cluster-x", b'{"level":{}}'),
        (b"\xff\xfe", b"\xff"),
    ],
    "status": [
        (b"status-task-good-" + b"9" * 5000, b"{}"),
        (b"status-connector-evil", b'{"state":"DANCING","trace":[],"worker_id":"w","generation":1}'),
        (
            b"status-task-evil-2147483647",
            b'{"state":"RUNNING","trace":null,"worker_id":"w","generation":9999999999999}',
        ),
    ],
    "offsets": [
        (b'["good",{"cluster":"A","partition":0,"topic":"poison-later"}]', b'{"offset":' + b"9" * 4000 + b"}"),
        (b"[" * 200_000, b"x"),
    ],
}


def write(cluster: LocalCluster, topic: str, records: Sequence[tuple[bytes | None, bytes | None]]) -> None:
    producer = Producer(cluster.librdkafka())
    failed: list[str] = []
    for key, value in records:
        producer.produce(topic, value=value, key=key, on_delivery=lambda error, _: error and failed.append(str(error)))
    assert (producer.flush(60), failed) == (0, [])


def write_orders(source: LocalCluster, topic: str, count: int) -> None:
    write(source, topic, [(None, b"order")] * count)


def test_poison_at_the_source_stays_there_and_poison_in_the_topics_takes_nobody_along(
    source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    source, target = source_cluster, target_cluster
    internal = {what: f"{GROUP}-{what}" for what in POISON}
    for what, topic in internal.items():
        source.create_topic(topic, config=COMPACTED)
        write(source, topic, POISON[what])
    source.create_topic("poison-orders")
    source.create_topic("poison-later")
    write_orders(source, "poison-orders", 10)
    config = mirror_config(source, target, f"poison-orders,{GROUP}-.*", replication_policy_class=IDENTITY_POLICY)
    with Product(target, group=GROUP) as worker:
        worker.put("good", config)
        arrives(worker, "poison-orders", 10)
        # What comes with the orders would have come by now, with the connector's next looks at the topics, too.
        time.sleep(3)
        answers(worker, ["good"])
        words = "internal topics of the worker or of MirrorMaker"
        wait_for_state(lambda: words in worker.log_text(), "the log tells of it")
        assert worker.log_text().count(words) == 1

        for what, topic in internal.items():
            write(target, topic, POISON[what])
        write_orders(source, "poison-orders", 10)
        arrives(worker, "poison-orders", 20)
        answers(worker, ["evil", "good", "torn"])
        # A connector that copies what has a position that is none, beginning with a new look at the topics.
        worker.put("good", {**config, "topics": "poison-orders,poison-later"})
        write_orders(source, "poison-later", 5)
        arrives(worker, "poison-later", 5)

        worker.kill()
        write_orders(source, "poison-orders", 10)
        worker.start()
        arrives(worker, "poison-orders", 30)
        answers(worker, ["evil", "good", "torn"])
        worker.wait_running("good")
        wait_for_state(lambda: worker.states("evil")[:1] == ["FAILED"], "evil has failed")
        for name in ("evil", "torn"):
            worker.delete(name)
        # The parts of it that were copied are the source's, and nothing else is.
        assert end_offsets(target, "poison-orders") == {0: 30}
        worker.delete("good")


def arrives(worker: Product, topic: str, count: int) -> None:
    try:
        wait_ends(worker.cluster, topic, {0: count}, 150)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{worker.status('good')}\n{worker.log_tail(60)}") from None


def answers(worker: Product, connectors: list[str]) -> None:
    def in_time() -> bool:
        try:
            answer = worker.rest.get("/connectors", timeout=2)
        except httpx.HTTPError:
            return False
        return answer.status_code == httpx.codes.OK and set(connectors) <= set(answer.json())

    try:
        wait_for_state(in_time, f"it answers that there are {connectors}")
    except WaitTimedOut as error:
        raise WaitTimedOut(f"{error}\n{worker.log_tail()}") from None
    assert sorted(worker.call("GET", "/connectors")) == connectors
