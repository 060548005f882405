"""A worker's Spark application on a standalone cluster: executors that are killed, frozen or drained; tasks without Kafka.

All tests share one cluster of two Spark workers, in the order written.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio

from deploy.local.spark_cluster import SparkCluster
from deploy.local.spark_executor import Executor, resume
from mirror_connect.app.supervisor.process_ends import REMOTE_LEASE_S
from mirror_connect.app.supervisor.remote_watch import GIVEN_UP
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.spark_rig import FAKE_TASKS, SparkRig, spark_rig, wanted
from tests.waiting import wait_for_state

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long,
    pytest.mark.soak,
    pytest.mark.asyncio(loop_scope="module"),
]

SLOTS = 4
# Of a Spark worker that dies.
LARGE = 48
TASKS = [TaskId("c", number) for number in range(4)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(workers=2, slots=SLOTS) as started:
        yield started


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(cluster: SparkCluster) -> AsyncIterator[SparkRig]:
    paths = {"spark.executorEnv.PYTHONPATH": str(FAKE_TASKS)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FAKE_TASKS))
        async with spark_rig({**cluster.properties, **paths}) as rig:
            await rig.until(lambda: bool(rig.spark.copying.executors), "an executor is there")
            # Also of one that has just come, of which Spark does not know the port.
            there = [line for line in rig.notices.lines if line.startswith("Spark has ") and " now: " in line]
            assert there
            assert all(" on 127.0.0.1: 4 slots" in line for line in there)
            yield rig


@pytest_asyncio.fixture(loop_scope="module")
async def rig(shared: SparkRig) -> AsyncIterator[SparkRig]:
    shared.notices.lines.clear()
    await shared.until(lambda: len(shared.spark.copying.executors) == 2, "two executors are there")
    shared.supervisor.want({task: wanted("obedient", f"t-{task.task}") for task in TASKS})
    await shared.runs(*TASKS)
    yield shared
    shared.supervisor.want({})
    await shared.until(lambda: not list(shared.supervisor.runs), "every run has ended")


def place(rig: SparkRig, task: TaskId) -> str:
    return rig.run(task).executor


def spread(rig: SparkRig) -> Counter[str]:
    return Counter(place(rig, task) for task in TASKS)


def executor_of(cluster: SparkCluster, rig: SparkRig, task: TaskId) -> Executor:
    return next(each for each in cluster.executors if each.id == place(rig, task))


async def test_tasks_of_a_connector_are_spread(rig: SparkRig) -> None:
    assert sorted(spread(rig).values()) == [2, 2]


async def test_a_killed_executor_is_no_wait_for_its_lease_if_its_tasks_can_say_so(
    cluster: SparkCluster, rig: SparkRig
) -> None:
    doomed = executor_of(cluster, rig, TASKS[0])
    when = time.monotonic()
    doomed.process.send_signal(signal.SIGKILL)
    await rig.until(lambda: place(rig, TASKS[0]) not in {"", doomed.id} and rig.is_running(TASKS[0]), "it runs again")
    took = time.monotonic() - when
    print(f"JVM killed: {took:.1f} s")
    assert took < REMOTE_LEASE_S


async def test_a_lost_host_costs_the_lease(cluster: SparkCluster, rig: SparkRig) -> None:
    doomed = executor_of(cluster, rig, TASKS[0])
    when = time.monotonic()
    await asyncio.to_thread(doomed.kill)
    await rig.until(lambda: place(rig, TASKS[0]) not in {"", doomed.id} and rig.is_running(TASKS[0]), "it runs again")
    took = time.monotonic() - when
    print(f"all killed: {took:.1f} s")
    assert took < 10


async def test_a_frozen_executor_is_replaced(cluster: SparkCluster, rig: SparkRig) -> None:
    frozen = executor_of(cluster, rig, TASKS[0])
    theirs = [task for task in TASKS if place(rig, task) == frozen.id]
    when = time.monotonic()
    await asyncio.to_thread(frozen.suspend)
    await rig.until(
        lambda: all(place(rig, task) not in {"", frozen.id} and rig.is_running(task) for task in theirs),
        "they run again",
    )
    took = time.monotonic() - when
    print(f"frozen: {took:.1f} s")
    assert took < REMOTE_LEASE_S + 30
    await rig.until(lambda: not frozen.alive, "Spark has ended it")
    print(f"frozen one ended: {time.monotonic() - when:.1f} s")


async def test_a_drained_executor_hands_over_without_waiting(cluster: SparkCluster, rig: SparkRig) -> None:
    drained = executor_of(cluster, rig, TASKS[0])
    theirs = [task for task in TASKS if place(rig, task) == drained.id]
    when = time.monotonic()
    drained.process.send_signal(signal.SIGPWR)
    await rig.until(
        lambda: all(place(rig, task) not in {"", drained.id} and rig.is_running(task) for task in theirs), "they moved"
    )
    took = time.monotonic() - when
    print(f"drained: {took:.1f} s")
    assert took < REMOTE_LEASE_S
    assert "no more time" not in "\n".join(rig.notices.lines)
    await rig.until(lambda: not drained.alive, "it has ended")


async def test_tasks_leave_a_host_that_froze_before_any_task_was_heard_there(
    cluster: SparkCluster, rig: SparkRig
) -> None:
    before = {each.id for each in cluster.executors}
    rig.supervisor.want({})
    await rig.until(lambda: not list(rig.supervisor.runs), "every run has ended")
    await asyncio.to_thread(cluster.executors[0].kill)
    await rig.until(lambda: len({*rig.spark.executors.known} - before) == 1, "another executor is there")
    (new,) = [each for each in cluster.executors if each.id not in before]
    # With the Spark worker, which would kill it.
    host = cluster.worker_of(new)
    host.suspend()
    frozen = await asyncio.to_thread(new.suspend)
    try:
        rig.supervisor.want({task: wanted("obedient", f"t-{task.task}") for task in TASKS})
        when = time.monotonic()
        while not rig.spark.executors.known[new.id].tasks:
            assert time.monotonic() - when < 60
            await asyncio.sleep(2)
            rig.supervisor.restart(TASKS[0])
        when = time.monotonic()
        await rig.until(
            lambda: all(rig.is_running(task) and place(rig, task) != new.id for task in TASKS), "they run elsewhere"
        )
        took = time.monotonic() - when
        print(f"frozen before its first task: {took:.1f} s")
        assert took < REMOTE_LEASE_S + 30
        assert any(GIVEN_UP in line for line in rig.notices.lines)
        assert new.id in rig.spark.executors.given_up
    finally:
        resume(frozen)
        host.resume()


async def test_an_executor_larger_than_any_living_spark_worker_is_named(cluster: SparkCluster) -> None:
    dead = cluster.add_worker(LARGE)
    cluster.wait_workers(len(cluster.workers))
    cluster.remove_worker(dead)
    # The master keeps it in its list for a quarter of an hour.
    wait_for_state(lambda: (LARGE, "DEAD") in _spark_workers(cluster), "the master knows that it is dead", 120)
    async with spark_rig({**cluster.properties, "spark.executor.cores": "64"}) as rig:
        says = f"spark.executor.cores=64 is too large: no Spark worker has more than {SLOTS}."
        await rig.until(lambda: says in (rig.spark.copying.absence or ""), "the line says what is too large")


def _spark_workers(cluster: SparkCluster) -> set[tuple[int, str]]:
    return {(each["cores"], each["state"]) for each in cluster.state().get("workers", ())}
