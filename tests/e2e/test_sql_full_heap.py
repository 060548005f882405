"""A record that fills the heap with small objects, for which no OutOfMemoryError comes: it is named, and others go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.product import Product, mirror_config
from tests.waiting import WaitTimedOut, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

# More small objects stay than the old part of a heap of 512 MiB has room for, of about 77 bytes. Each step makes others that
# are free again at once: 10 GB in all.
CROWDS: Final = (
    "SELECT CAST(aggregate(transform(sequence(1, CAST(CAST(value AS STRING) AS INT)), x -> CAST(x AS STRING)), 0L, "
    "(a, x) -> a + length(repeat(x, 300))) AS STRING) AS value FROM records"
)
RECORDS, CROWDING = 50, 30
# Two lives of Spark: each fills its heap, is watched for 20 s, and starts again.
PATIENCE_S: Final = 400.0
MANY: Final = b"5250000"


@pytest.fixture
def small(target_cluster: LocalCluster) -> Iterator[Product]:
    """A worker whose statements have a small heap."""
    properties = {"spark.transform.driver.memory": "512m"}
    with Product(target_cluster, group="small-heap", properties=properties) as worker:
        yield worker


def test_a_record_that_crowds_the_heap_is_named_and_others_go_on(
    source_cluster: LocalCluster, target_cluster: LocalCluster, small: Product, topic_name: Callable[[str], str]
) -> None:
    good, crowding = topic_name("sql-beside"), topic_name("sql-crowds")
    for topic in (good, crowding):
        source_cluster.create_topic(topic, 1)
        rows = [{"value": b"3", "key": b"%d" % n, "partition": 0} for n in range(RECORDS)]
        if topic == crowding:
            rows[CROWDING]["value"] = MANY
        produce(source_cluster, topic, rows)
        config = mirror_config(source_cluster, target_cluster, topic) | {"spark.transform.sql": CROWDS}
        path = f"/connectors/{topic}/config"
        wait_for_state(
            lambda path=path, config=config: small.rest.put(path, json=config).is_success, "Spark checks the statement"
        )
        if topic == good:
            small.wait_running(good)
            wait_ends(target_cluster, f"A.{good}", {0: RECORDS})

    def trace() -> str:
        return str(next((task.get("trace") or "" for task in small.status(crowding).get("tasks", [])), ""))

    try:
        wait_for_state(lambda: trace().startswith("TransformationError: "), "the record is named", PATIENCE_S)
    except WaitTimedOut as error:
        raise WaitTimedOut(f"{error}; it is {small.status(crowding)}\n{small.log_tail(60)}") from None
    assert trace().startswith(
        f"TransformationError: {crowding}, partition 0, offset {CROWDING}: the heap of its JVM is full: "
    )
    assert "Raise spark.transform.driver.memory, or make the statement smaller" in trace()
    small.wait_states(crowding, ["RUNNING", "FAILED"])
    # Nothing behind it is copied, and it is not left out.
    assert sum(end_offsets(target_cluster, f"A.{crowding}").values()) <= CROWDING
    assert "Spark for statements ended: the heap of its JVM is full: " in small.log_text()
    produce(source_cluster, good, [{"value": b"4", "key": b"last", "partition": 0}])
    wait_ends(target_cluster, f"A.{good}", {0: RECORDS + 1})
    small.wait_running(good)
