"""A record for which a statement overflows the stack or the heap: it is named, and other connectors go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from deploy.local import LocalCluster
from tests.e2e.ends import end_offsets, wait_ends
from tests.e2e.identity_topics import produce
from tests.e2e.numbered import Writer
from tests.e2e.product import JVM, Product, mirror_config
from tests.e2e.reading import records
from tests.waiting import WaitTimedOut, wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

RECORDS, POISON = 3_000, 1_234
# Java's regular expressions recurse for each repetition of such a group.
PATTERN: Final = "SELECT * FROM records WHERE CAST(value AS STRING) rlike '^(a|b)*$'"
TOO_LONG: Final = b"ab" * 400_000
STACK: Final = "more stack than Spark has (StackOverflowError)"


def values() -> list[bytes]:
    return [TOO_LONG if number == POISON else b"ab" * (number % 7) for number in range(RECORDS)]


def write(cluster: LocalCluster, topic: str) -> None:
    cluster.create_topic(topic, 1)
    produce(cluster, topic, ({"value": value, "key": b"%d" % n, "partition": 0} for n, value in enumerate(values())))


def put_first(product: Product, name: str, config: dict[str, str]) -> None:
    """On a busy machine Spark may take longer to start than the check of a statement waits."""
    path = f"/connectors/{name}/config"
    wait_for_state(lambda: product.rest.put(path, json=config).is_success, "Spark checks the statement")
    product.wait_running(name)


def wait_trace(product: Product, name: str, wanted: str) -> str:
    def trace() -> str:
        return str(next((task.get("trace") or "" for task in product.status(name).get("tasks", [])), ""))

    try:
        wait_for_state(lambda: wanted in trace(), f"the trace of {name} has {wanted}")
    except WaitTimedOut as error:
        raise WaitTimedOut(f"{error}; it is {product.status(name)}\n{product.log_tail(60)}") from None
    return trace()


def test_a_record_that_overflows_the_stack_is_named_and_others_go_on(
    source_cluster: LocalCluster, target_cluster: LocalCluster, product: Product, topic_name: Callable[[str], str]
) -> None:
    good, poisoned = topic_name("sql-good"), topic_name("sql-stack")
    source_cluster.create_topic(good, 1)
    write(source_cluster, poisoned)
    put_first(
        product,
        good,
        {**mirror_config(source_cluster, target_cluster, good), "spark.transform.sql": "SELECT * FROM records"},
    )
    jvms = product.pids(JVM)
    config = {**mirror_config(source_cluster, target_cluster, poisoned), "spark.transform.sql": PATTERN}
    with Writer(source_cluster, good, 1, 200) as writer:
        product.put(poisoned, config)
        trace = wait_trace(product, poisoned, STACK)
        product.wait_states(poisoned, ["RUNNING", "FAILED"])
        assert trace.startswith(f"TransformationError: {poisoned}, partition 0, offset {POISON}: ")
        # All before it, and nothing behind it.
        wait_ends(target_cluster, f"A.{poisoned}", {0: POISON})
        product.put(poisoned, {**config, "errors.tolerance": "all", "errors.log.enable": "true"})
        wait_ends(target_cluster, f"A.{poisoned}", {0: RECORDS - 1})
        product.wait_running(poisoned)
    wait_ends(target_cluster, f"A.{good}", writer.counts)
    keys = [each.key for each in records(target_cluster, f"A.{poisoned}", 0)]
    assert keys == [b"%d" % number for number in range(RECORDS) if number != POISON]
    assert product.states(good) == ["RUNNING", "RUNNING"]
    assert product.pids(JVM) == jvms
    assert f"{poisoned}, partition 0, offset {POISON}: " in product.log_text()
    for name in (good, poisoned):
        product.delete(name)


# More than the heap has, in one piece.
FILLS: Final = "SELECT repeat('x', CAST(CAST(value AS STRING) AS INT)) AS value FROM records"
HUGE: Final = 40


@pytest.mark.parametrize("tolerance", ["none", "all"])
def test_a_record_that_fills_the_memory_is_named_and_others_go_on(
    tolerance: str,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    product: Product,
    topic_name: Callable[[str], str],
) -> None:
    good, filling = topic_name("sql-small"), topic_name("sql-fills")
    source_cluster.create_topic(good, 1)
    source_cluster.create_topic(filling, 1)
    rows = [{"value": b"2000000000" if n == HUGE else b"3", "key": b"%d" % n, "partition": 0} for n in range(100)]
    produce(source_cluster, filling, rows)
    put_first(
        product,
        good,
        {**mirror_config(source_cluster, target_cluster, good), "spark.transform.sql": "SELECT * FROM records"},
    )
    config = {**mirror_config(source_cluster, target_cluster, filling), "spark.transform.sql": FILLS}
    with Writer(source_cluster, good, 1, 50) as writer:
        product.put(filling, {**config, "errors.tolerance": tolerance})
        trace = wait_trace(product, filling, "(OutOfMemoryError)")
        product.wait_states(filling, ["RUNNING", "FAILED"])
        assert f"{filling}, partition 0, offset {HUGE}: Spark has not enough memory" in trace
        # Nothing behind it is copied, and it is not skipped.
        assert sum(end_offsets(target_cluster, f"A.{filling}").values()) <= HUGE
        product.wait_going_on(good, target_cluster, f"A.{good}")
    wait_ends(target_cluster, f"A.{good}", writer.counts)
    product.wait_running(good)
    for name in (good, filling):
        product.delete(name)
