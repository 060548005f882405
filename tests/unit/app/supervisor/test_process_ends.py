"""Runs on a cluster: nothing shows whether a process there lives, so its last words or its last lease decide."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable

import pytest

from mirror_connect.app.supervisor import spark_keeper
from mirror_connect.app.supervisor.idleness import UNHEARD_S
from mirror_connect.app.supervisor.other_workers import LANDING_S
from mirror_connect.app.supervisor.process_ends import CLOCK_MARGIN_S, REMOTE_LEASE_S
from mirror_connect.app.supervisor.remote_watch import FIRST_REPORT_S, GIVEN_UP, SILENT_PATIENCE_S
from mirror_connect.app.supervisor.spark_executors import SparkExecutor
from mirror_connect.app.supervisor.task_run import Phase
from mirror_connect.app.supervisor.task_runs import FINISH_PATIENCE_S
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.supervised import A, B, Process, World, eventually, light, wanted

OVER_S = REMOTE_LEASE_S + CLOCK_MARGIN_S
GIVEN_UP_S = OVER_S + SILENT_PATIENCE_S
LIGHT = TaskId("h", 0)


def executors(*names: str, slots: int = 4) -> list[SparkExecutor]:
    return [SparkExecutor(name, f"host{name}", slots) for name in names]


def tell(world: World, there: Iterable[SparkExecutor]) -> None:
    """The driver reports."""
    there = list(there)
    world.spark.driver_report(sum(each.slots for each in there), {}, None, there)


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(spark_keeper, "BACK_OFF_S", (0.01, 0.02))
    monkeypatch.setattr(spark_keeper, "WATCH_S", 1000.0)
    world = World("spark://master:7077")
    await world.start()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    tell(world, executors("1", "2"))
    yield world
    await world.stop()


def later(world: World, seconds: float) -> None:
    world.later(seconds, 0.1)


async def given_up(world: World) -> list[str]:
    found: list[str] = (await world.spark.plan(-1, 0))["given_up"]
    return found


async def planned(world: World) -> set[str]:
    return {each["run_id"] for each in (await world.spark.plan(-1, 0))["runs"]}


async def test_a_lease_there_is_short_whatever_the_worker_has(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0")})
    process = await cluster.running(A, executor="1")
    assert (await process.say("RUNNING")).lease_ms == REMOTE_LEASE_S * 1000
    cluster.lease = 2.0
    assert (await process.say("RUNNING")).lease_ms == 2000


async def test_the_next_process_waits_for_the_lease_of_the_one_before(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0")})
    lost = await cluster.running(A, executor="1")
    follows = asyncio.create_task(Process(cluster, lost.run, executor="2").ask())
    await asyncio.sleep(0.05)
    later(cluster, OVER_S - 0.2)
    await asyncio.sleep(0.05)
    assert not follows.done()
    later(cluster, 0.3)
    assert await follows is not None
    assert (await lost.say("RUNNING")).abandon
    assert cluster.application.killed == []


async def test_the_last_words_of_the_one_before_are_enough(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0")})
    orphan = await cluster.running(A, executor="1")
    follows = asyncio.create_task(Process(cluster, orphan.run, executor="2").ask())
    await asyncio.sleep(0.05)
    cluster.now += 1
    # It is to commit in what is left of its lease.
    orders = await orphan.say("RUNNING")
    assert orders.end_epoch
    assert orders.lease_ms == (REMOTE_LEASE_S - 1) * 1000
    await orphan.say("EPOCH_ENDED")
    assert await follows is not None
    assert cluster.now < 102


async def test_who_is_to_go_gets_no_further_lease_although_it_reports(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0")})
    deaf = await cluster.running(A, executor="1")
    follows = asyncio.create_task(Process(cluster, deaf.run, executor="2").ask())
    await asyncio.sleep(0.05)
    for _ in range(6):
        cluster.now += 1
        orders = await deaf.say("RUNNING")
    assert orders.lease_ms == 0
    later(cluster, CLOCK_MARGIN_S + 0.1)
    assert await follows is not None


async def test_a_process_that_hangs_is_replaced_only_if_it_goes_on_to_hang(cluster: World) -> None:
    tell(cluster, executors("1", "2"))
    cluster.supervisor.want({A: wanted("t-0")})
    process = await cluster.running(A, executor="1")
    for second in range(1, int(UNHEARD_S) + 2):
        cluster.later(1)
        await process.say("RUNNING", loop_silent_s=float(second))
    cluster.later(0.1)
    assert cluster.events.trace(A).endswith("; another one gets the task if that lasts 30 s")


async def test_one_process_may_have_the_id_of_another_elsewhere(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    one = await cluster.running(A, 77, executor="1")
    # Not the one of the same id that now works for another run.
    other = await cluster.running(B, 77, executor="2")
    follows = asyncio.create_task(Process(cluster, one.run, 78, executor="2").ask())
    await asyncio.sleep(0.05)
    assert not follows.done()
    await other.say("EPOCH_ENDED")
    await cluster.running(B, 77, executor="1")
    assert await follows is not None


async def test_a_silent_process_gives_its_task_to_a_new_query(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    frozen, neighbour = await cluster.running(A, executor="1"), await cluster.running(B, executor="1")
    for _ in range(int(GIVEN_UP_S) - 1):
        later(cluster, 1)
        await neighbour.say("RUNNING")
    assert cluster.run(A) is frozen.run
    assert frozen.run.run_id in await planned(cluster)
    later(cluster, 1.2)
    assert cluster.run(A) is not frozen.run
    assert frozen.run.run_id not in await planned(cluster)
    # Its executor works.
    assert await given_up(cluster) == []
    assert await cluster.running(A, executor="2")
    # Whatever it does when it wakes, it hears that it is over: its run is not known any more.
    assert cluster.spark.runs.find(frozen.run.run_id) is None
    assert (await frozen.say("RUNNING")).lease_ms == 0


async def test_an_executor_of_which_nothing_is_heard_is_given_up(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    await cluster.running(A, executor="1")
    other = await cluster.running(B, executor="2")
    for _ in range(int(GIVEN_UP_S) + 1):
        later(cluster, 1)
        await other.say("RUNNING")
    assert await given_up(cluster) == ["1"]
    assert "executor 1 (host1)" in (cluster.events.trace(A) or "")
    tell(cluster, executors("2", "3"))
    assert await given_up(cluster) == []


async def test_an_executor_that_says_no_last_words_is_given_up(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    frozen, deaf = await cluster.running(A, executor="1"), await cluster.running(B, executor="2")
    # Both are to end. Of one nothing is heard, the other reports and does not end.
    cluster.supervisor.restart(A)
    cluster.supervisor.restart(B)
    for _ in range(int(GIVEN_UP_S) + 1):
        later(cluster, 1)
        await deaf.say("RUNNING")
    assert cluster.run(A) is not frozen.run
    assert cluster.run(B) is not deaf.run
    assert await given_up(cluster) == ["1"]


async def test_a_run_that_no_process_has_leaves_an_executor_that_is_given_up(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    other = await cluster.running(B, executor="2")
    began, waiting = cluster.now, cluster.run(A)
    while cluster.run(A) is waiting:
        assert cluster.now - began < REMOTE_LEASE_S + 30
        frozen = SparkExecutor("1", "host1", 4, tasks=1, silent_s=cluster.now - began)
        tell(cluster, [frozen, *executors("2")])
        later(cluster, 1)
        await other.say("RUNNING")
    assert await given_up(cluster) == ["1"]
    assert waiting.run_id not in await planned(cluster)
    assert cluster.events.trace(A) == f"{GIVEN_UP[0].upper()}{GIVEN_UP[1:]}"
    # Once: its new query can't be there.
    follows = cluster.run(A)
    for _ in range(30):
        later(cluster, 1)
        await other.say("RUNNING")
    assert cluster.run(A) is follows
    assert cluster.run(B) is other.run


async def test_the_shared_process_leaves_an_executor_that_is_given_up_unless_it_was_heard(cluster: World) -> None:
    async def shared() -> str:
        found: str = next(each for each in (await cluster.spark.plan(-1, 0))["runs"] if each["shared"])["run_id"]
        return found

    cluster.supervisor.want({LIGHT: light(), A: wanted("t-0")})
    before = await shared()
    await cluster.running(A, executor="1")
    later(cluster, GIVEN_UP_S + 0.5)
    assert await given_up(cluster) == ["1"]
    after = await shared()
    assert after != before
    later(cluster, 60)
    assert await shared() == after
    # Heard, it is in another place.
    await cluster.spark.shared_runs(after, -1, 0)
    await cluster.running(A, executor="2")
    later(cluster, GIVEN_UP_S + 0.5)
    assert await given_up(cluster) == ["1", "2"]
    assert await shared() == after


async def test_a_network_that_comes_back_in_time_restarts_nothing(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0")})
    process = await cluster.running(A, executor="1")
    later(cluster, OVER_S + SILENT_PATIENCE_S - 0.5)
    assert (await process.say("RUNNING")).lease_ms == REMOTE_LEASE_S * 1000
    assert cluster.run(A) is process.run


async def test_of_a_lost_executor_spark_starts_the_task_itself(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0")})
    process = await cluster.running(A, executor="1")
    tell(cluster, executors("2"))
    later(cluster, OVER_S - 0.2)
    assert process.run.phase is Phase.RUNNING
    later(cluster, 0.4)
    assert process.run.phase is Phase.WAITING
    assert cluster.run(A) is process.run
    assert "Spark has lost executor 1 (host1)" in (cluster.events.trace(A) or "")
    await cluster.running(A, executor="2")
    assert cluster.events.of(A)[-1] == "RUNNING"


async def test_a_process_that_never_reports_has_no_lease(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0")})
    run = cluster.run(A)
    assert await Process(cluster, run, executor="1").ask() is not None
    assert await Process(cluster, run, executor="2").ask() is not None
    later(cluster, FIRST_REPORT_S + 0.2)
    assert cluster.run(A) is not run


async def test_a_loop_that_hangs_gets_no_lease_and_its_query_is_stopped(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0")})
    process = await cluster.running(A, executor="1")
    for second in range(31):
        orders = await process.say("RUNNING", loop_silent_s=float(second))
        later(cluster, 1)
    assert process.run.run_id not in await planned(cluster)
    for second in range(31, 40):
        orders = await process.say("RUNNING", loop_silent_s=float(second))
        later(cluster, 1)
    assert orders.lease_ms == 0
    assert cluster.run(A) is not process.run
    assert cluster.events.of(A)[-1] == "UNASSIGNED"


async def test_who_does_not_finish_in_time_is_stopped_through_spark_and_waited_for(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0")})
    process = await cluster.running(A, executor="1")
    cluster.supervisor.want({})
    later(cluster, FINISH_PATIENCE_S + 0.2)
    assert await planned(cluster) == set()
    assert A in cluster.supervisor.claimed_tasks()
    later(cluster, OVER_S - FINISH_PATIENCE_S - 0.4)
    assert cluster.tasks() == [A]
    later(cluster, 0.4)
    assert cluster.tasks() == []
    assert cluster.supervisor.claimed_tasks() == frozenset()
    assert process.run.phase is Phase.ENDED


async def test_who_does_not_finish_in_time_is_told_to_abandon(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0")})
    process = await cluster.running(A, executor="1")
    cluster.supervisor.want({})
    later(cluster, FINISH_PATIENCE_S + 0.2)
    assert (await process.say("RUNNING")).abandon
    await process.say("ABANDONED")
    assert cluster.tasks() == []


async def test_the_end_of_spark_here_is_not_the_end_of_its_processes_there(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    process, run = await cluster.running(A, executor="1"), cluster.run(B)
    cluster.application.die(1)
    await eventually(lambda: len(cluster.applications) == 2)
    # No process has it.
    assert cluster.run(B) is not run
    assert cluster.run(A) is process.run
    assert cluster.events.of(A)[-1] == "UNASSIGNED"
    assert (await process.say("RUNNING")).finish
    tell(cluster, executors("1"))
    # A process of the new Spark with the same names proves nothing.
    await cluster.running(B, process.pid, executor="1")
    later(cluster, OVER_S - 0.3)
    assert cluster.run(A) is process.run
    later(cluster, 0.5)
    assert cluster.run(A) is not process.run


async def test_requests_of_a_silent_process_land_after_its_lease(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0"), B: wanted()})
    await cluster.running(A, executor="1")
    await cluster.running(B, executor="2")
    began = cluster.now
    cluster.supervisor.want({B: wanted("t-0")})
    while not cluster.run(B).assigned:
        later(cluster, 0.5)
    assert cluster.now - began == pytest.approx(REMOTE_LEASE_S + LANDING_S, abs=1)


async def test_without_a_fence_the_tasks_own_next_process_waits_for_these_too(cluster: World) -> None:
    cluster.supervisor.want({A: wanted("t-0")})
    process = await cluster.running(A, executor="1")
    await process.source_offsets(fenceable=False)
    began = cluster.now
    later(cluster, GIVEN_UP_S + 0.3)
    follows = Process(cluster, cluster.run(A), executor="2")
    assert await follows.ask() is not None
    await follows.say("STARTING", 0)
    while True:
        try:
            await follows.source_offsets(fenceable=False)
            break
        except Exception:  # noqa: BLE001 — it asks again
            await follows.say("STARTING", 0)
            later(cluster, 0.5)
    assert cluster.now - began == pytest.approx(REMOTE_LEASE_S + LANDING_S, abs=1)


async def test_light_tasks_get_another_process_together(cluster: World) -> None:
    heartbeats = {LIGHT: light(), TaskId("h2", 0): light()}
    cluster.supervisor.want(heartbeats)
    before = next(each for each in (await cluster.spark.plan(-1, 0))["runs"] if each["shared"])["run_id"]
    await cluster.spark.shared_runs(before, -1, 0)
    for task in heartbeats:
        await cluster.running(task, 77, shared=True, executor="1")
    later(cluster, GIVEN_UP_S + 0.5)
    after = next(each for each in (await cluster.spark.plan(-1, 0))["runs"] if each["shared"])["run_id"]
    assert after != before
    for task in heartbeats:
        await cluster.running(task, 78, shared=True, executor="2")
    later(cluster, 1)
    again = next(each for each in (await cluster.spark.plan(-1, 0))["runs"] if each["shared"])["run_id"]
    assert again == after


async def test_the_supervisor_tells_on_which_executors_tasks_run(cluster: World) -> None:
    cluster.supervisor.want({A: wanted(), B: wanted()})
    process = await cluster.running(A, executor="2")
    await process.say("RUNNING")
    assert cluster.supervisor.places() == [(A.connector, A.task, "2", "host2")]
