"""The Spark application for statements: when it is there, which runs are its own, and what its end ends."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.app.exposition.measured import JvmFigures, together
from mirror_connect.app.supervisor import spark_keeper, spark_on_demand
from mirror_connect.app.supervisor.interfaces import WantedTask
from mirror_connect.app.supervisor.spark_questions import SparkAway
from mirror_connect.connectors.mirror.transform_sql import SQL
from mirror_connect.connectors.task_protocol import SourceRange
from tests.fakes.supervised import A, B, FakeApplication, World, eventually, wanted

STATEMENT = WantedTask(
    {**wanted("t-1").identity, "connector.class": "MirrorSourceConnector", SQL: "SELECT * FROM records"}
)


@pytest.fixture
async def computing(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world with a task that copies, and one with a statement."""
    monkeypatch.setattr(spark_on_demand, "LOOK_S", 0.001)
    world.supervisor.want({A: wanted("t-0"), B: STATEMENT})
    await eventually(lambda: len(world.applications) == 2)
    return world


async def plan_of(world: World, token: str) -> list[str]:
    """The runs in the plan of the application whose driver shows this token."""
    (spark,) = [each for each in world.spark.applications if each.token == token]
    return [run["run_id"] for run in (await world.spark.plan(-1, 0.0, spark))["runs"]]


async def test_without_a_statement_there_is_none(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    await asyncio.sleep(0.05)
    assert len(world.applications) == 1
    assert world.spark.measured().up


async def test_it_starts_with_the_first_statement_and_each_run_is_in_one_plan(computing: World) -> None:
    spark = computing.spark
    assert spark.copying.token != spark.computing.token
    assert await plan_of(computing, spark.copying.token) == [computing.run(A).run_id]
    assert await plan_of(computing, spark.computing.token) == [computing.run(B).run_id]


async def test_a_run_waits_for_its_own_application(computing: World) -> None:
    await computing.running(A)
    assert (computing.events.trace(B) or "").startswith("Waiting for Spark for statements")
    computing.spark.driver_report(3, {}, spark=computing.spark.computing)
    assert computing.events.trace(B) == "It is being started on Spark."
    await computing.running(B)
    assert computing.events.of(A) == ["RUNNING"]


async def test_its_death_ends_its_own_runs_alone(computing: World) -> None:
    computing.spark.driver_report(3, {}, spark=computing.spark.computing)
    copies, computes = computing.run(A), computing.run(B)
    await computing.running(B)
    computing.applications[1].die(1)
    await eventually(lambda: len(computing.applications) == 3)
    assert computing.run(A) is copies
    assert computing.run(B) is not computes
    assert (computing.events.trace(B) or "").startswith("Spark for statements ended: no room; it starts again")
    assert computing.spark.copying.slots == 2


FULL = "the heap of its JVM is full"
RECORD = SourceRange("t", 1, 7, 7)


async def dies_of_its_heap(world: World, held: tuple[SourceRange, ...]) -> None:
    """The task with the statement waits for these records, when its application tells that the heap is full, and ends."""
    spark, there = world.spark.computing, len(world.applications)
    await eventually(lambda: world.run(B).spec is None)
    world.spark.driver_report(3, {}, spark=spark)
    process = await world.running(B)
    await process.say("RUNNING", held=held)
    world.spark.heap_filled(spark, FULL)
    world.applications[-1].die(1)
    await eventually(lambda: len(world.applications) == there + 1)


async def test_a_record_that_a_statement_holds_while_the_heap_is_full_fails_its_task(computing: World) -> None:
    copies = computing.run(A)
    await dies_of_its_heap(computing, (RECORD,))
    assert computing.events.states[-1] == (B, "FAILED", f"TransformationError: {RECORD}: {FULL}. Then restart the task")
    assert computing.run(A) is copies


async def test_records_that_a_statement_holds_while_the_heap_is_full_are_suspected(computing: World) -> None:
    several = (SourceRange("t", 1, 0, 9),)
    await dies_of_its_heap(computing, several)
    await eventually(lambda: computing.run(B).spec is None)
    computing.spark.driver_report(3, {}, spark=computing.spark.computing)
    spec = (await computing.running(B)).run.spec
    assert spec is not None
    assert spec.suspects == several


async def test_a_task_whose_records_are_never_found_is_failed_in_the_end(computing: World) -> None:
    for _ in range(3):
        await dies_of_its_heap(computing, (SourceRange("t", 1, 0, 9),))
    assert computing.events.of(B)[-1] == "FAILED"
    assert f"t, partition 1, offsets 0 to 9: {FULL}" in (computing.events.trace(B) or "")


async def test_a_task_that_gets_records_back_is_not_suspected_of_a_full_heap(computing: World) -> None:
    for _ in range(5):
        await dies_of_its_heap(computing, ())
    assert "FAILED" not in computing.events.of(B)


async def test_a_heap_that_was_full_before_is_not_the_reason_of_another_end(computing: World) -> None:
    await dies_of_its_heap(computing, (SourceRange("t", 1, 0, 9),))
    for _ in range(4):
        await eventually(lambda: computing.run(B).spec is None)
        computing.spark.driver_report(3, {}, spark=computing.spark.computing)
        await computing.running(B)
        dead = computing.applications[-1]
        dead.die(1)
        await eventually(lambda dead=dead: computing.applications[-1] is not dead)  # type: ignore[misc]
    assert "FAILED" not in computing.events.of(B)


async def test_the_death_of_the_other_one_leaves_its_runs(computing: World) -> None:
    computing.spark.driver_report(3, {}, spark=computing.spark.computing)
    copies, computes = computing.run(A), computing.run(B)
    computing.applications[0].die(1)
    await eventually(lambda: len(computing.applications) == 3)
    assert computing.run(A) is not copies
    assert computing.run(B) is computes


async def test_a_process_is_killed_in_its_own_application(computing: World) -> None:
    computing.spark.driver_report(3, {}, spark=computing.spark.computing)
    process = await computing.running(B)
    assert process.pid in computing.applications[1].alive
    computing.supervisor.want({A: wanted("t-0")})
    computing.later(5)
    assert computing.applications[1].killed == [process.pid]
    assert [run.task for run in computing.supervisor.runs] == [A]


async def test_slots_are_each_ones_own_and_metrics_show_both_together(computing: World) -> None:
    computing.spark.driver_report(0, {}, spark=computing.spark.computing)
    assert computing.spark.has_no_slot(computing.run(B))
    assert not computing.spark.has_no_slot(computing.run(A))
    shown = computing.spark.measured()
    assert (shown.up, shown.slots, shown.wanted) == (True, 2, 2)


async def test_it_ends_when_there_was_nothing_for_it_for_a_while_and_starts_again(computing: World) -> None:
    second = computing.applications[1]
    computing.supervisor.want({A: wanted("t-0")})
    await asyncio.sleep(0.05)
    assert not second.ended
    computing.now += spark_on_demand.IDLE_S
    await eventually(lambda: second.ended)
    await eventually(lambda: not computing.spark.computing.wanted)
    shown = computing.spark.measured()
    assert (computing.spark.computing.slots, shown.up, shown.slots) == (None, True, 2)
    computing.supervisor.want({A: wanted("t-0"), B: STATEMENT})
    await eventually(lambda: len(computing.applications) == 3)


async def test_a_long_life_with_a_statement_does_not_end_it(computing: World) -> None:
    computing.now += 10 * spark_on_demand.IDLE_S
    await asyncio.sleep(0.05)
    assert not computing.applications[1].ended


async def test_a_statement_that_is_expected_starts_it_and_it_ends_if_none_comes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_on_demand, "LOOK_S", 0.001)
    await eventually(lambda: len(world.applications) == 1)
    world.spark.expect([wanted("t-0").identity])
    await asyncio.sleep(0.05)
    assert len(world.applications) == 1
    world.spark.expect([wanted("t-0").identity, STATEMENT.identity])
    await eventually(lambda: len(world.applications) == 2)
    world.now += spark_on_demand.IDLE_S
    await eventually(lambda: world.applications[1].ended)


async def test_a_statement_that_comes_as_expected_finds_it(world: World) -> None:
    world.spark.expect([STATEMENT.identity])
    await eventually(lambda: len(world.applications) == 2)
    world.spark.driver_report(3, {}, spark=world.spark.computing)
    world.supervisor.want({B: STATEMENT})
    await world.running(B)
    assert (len(world.applications), world.events.of(B)) == (2, ["RUNNING"])


async def test_a_question_starts_it(world: World) -> None:
    with pytest.raises(SparkAway, match="Waiting for Spark for statements"):
        await world.spark.questions.ask("statement", {}, patience_s=0.05)
    assert len(world.applications) == 2


async def test_the_end_of_the_worker_ends_both(computing: World) -> None:
    await computing.spark.end()
    assert [each.ended for each in computing.applications] == [True, True]
    computing.spark.change_plan()
    computing.spark.expect([STATEMENT.identity])
    await asyncio.sleep(0)
    assert len(computing.applications) == 2


async def test_on_a_cluster_there_is_one_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_keeper, "WATCH_S", 1000.0)
    world = World("spark://m:7077")
    told: list[bool] = []

    def made(_: object, *, statements: bool) -> FakeApplication:
        told.append(statements)
        return FakeApplication()

    monkeypatch.setattr(world, "_new_application", made)
    world.spark = type(world.spark)({"spark.master": "spark://m:7077"}, new_application=made, clock=lambda: world.now)
    await world.spark.start("http://127.0.0.1:1")
    await eventually(lambda: bool(told))
    assert (world.spark.computing is world.spark.copying, told) == (True, [True])
    await world.spark.end()


def test_figures_of_two_jvms_are_added() -> None:
    one = JvmFigures({"heap": 5, "nonheap": 1}, 3, {"Copy": (2, 0.5)})
    assert together([]) is None
    assert together([one]) == one
    assert together([one, JvmFigures({"heap": 7}, None, {"Copy": (1, 0.25), "Old": (1, 1.0)})]) == JvmFigures(
        {"heap": 12, "nonheap": 1}, 3, {"Copy": (3, 0.75), "Old": (1, 1.0)}
    )
