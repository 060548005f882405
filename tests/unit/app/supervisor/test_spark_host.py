"""Two flows on one Spark application: equal names, one plan, shared slots and processes, one end."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from mirror_connect.app.supervisor import spark_keeper
from mirror_connect.app.supervisor.supervisor import Supervisor
from mirror_connect.app.supervisor.task_runs import FINISH_PATIENCE_S
from mirror_connect.app.supervisor.task_watch import NO_SLOT_S
from mirror_connect.connectors.log_format import LineFormatter
from tests.fakes.spark_rig import FakeEvents
from tests.fakes.supervised import A, Process, World, eventually, wanted


class Flow(World):
    """A supervisor on the Spark of another world; its task is named as the one there."""

    def __init__(self, world: World, flow: str) -> None:
        self.world = world
        self.lease = 8.0
        self.applications, self.spark, self.specs = world.applications, world.spark, world.specs
        self.events = FakeEvents()
        self.supervisor = Supervisor(
            world.spark, self.specs, lambda: self.lease, flow=flow, clock=lambda: self.world.now
        )
        self.supervisor.listen(self.events)


@pytest.fixture
async def flows(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Flow, Flow]]:
    """Two flows whose tasks run."""
    monkeypatch.setattr(spark_keeper, "BACK_OFF_S", (0.01, 0.02))
    monkeypatch.setattr(spark_keeper, "WATCH_S", 1000.0)
    world = World()
    await world.start()
    await eventually(lambda: bool(world.applications))
    world.spark.driver_report(2, {})
    there, back = Flow(world, "A->B"), Flow(world, "B->A")
    for flow in (there, back):
        flow.supervisor.want({A: wanted("t-0")})
    yield there, back
    for flow in (there, back):
        await flow.supervisor.stop(0.0)
    await world.stop()


async def test_the_plan_has_the_runs_of_all_flows_under_different_names(flows: tuple[Flow, Flow]) -> None:
    plan = await flows[0].spark.plan(-1, 0.0)
    assert [(run["run_id"], run["connector"]) for run in plan["runs"]] == [
        (flows[0].run(A).run_id, "A->B|c"),
        (flows[1].run(A).run_id, "B->A|c"),
    ]


async def test_a_change_of_any_flow_is_a_new_version_of_the_plan(flows: tuple[Flow, Flow]) -> None:
    spark = flows[0].spark
    versions = [(await spark.plan(-1, 0.0))["version"]]
    for flow in flows:
        flow.supervisor.want({})
        versions.append((await spark.plan(-1, 0.0))["version"])
    assert versions == sorted(set(versions))


async def test_the_end_of_spark_ends_the_runs_of_every_flow(flows: tuple[Flow, Flow]) -> None:
    runs = [(await flow.running(A)).run for flow in flows]
    flows[0].application.die(1)
    await eventually(lambda: len(flows[0].applications) == 2)
    assert [flow.events.of(A) for flow in flows] == [["RUNNING", "UNASSIGNED"]] * 2
    assert {flow.run(A) for flow in flows}.isdisjoint(runs)


async def test_a_report_of_a_query_goes_to_the_flow_of_its_run(flows: tuple[Flow, Flow]) -> None:
    processes = [await flow.running(A) for flow in flows]
    flows[0].application.alive.discard(processes[1].pid)
    flows[0].spark.driver_report(2, {processes[1].run.run_id: {"state": "ENDED", "error": "exit 139"}})
    assert [flow.run(A) is process.run for flow, process in zip(flows, processes, strict=True)] == [True, False]


async def test_a_bug_with_one_run_keeps_no_report_from_the_others(
    flows: tuple[Flow, Flow], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    processes = [await flow.running(A) for flow in flows]
    flows[1].application.alive.discard(processes[1].pid)

    def fail(*_: object) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(flows[0].supervisor, "query_reported", fail)
    flows[0].spark.driver_report(2, {each.run.run_id: {"state": "ENDED", "error": "exit 139"} for each in processes})
    assert flows[1].run(A) is not processes[1].run
    assert "A bug while the state of a query was reported" in caplog.text


async def test_a_process_that_works_for_another_flow_now_is_not_killed_for_its_former_one(
    flows: tuple[Flow, Flow],
) -> None:
    there, back = flows
    process = await there.running(A)
    there.supervisor.restart(A)
    # Spark has given the process to a task of the other flow, which reports.
    again = Process(back, back.run(A), pid=process.pid)
    await again.ask()
    await again.say("RUNNING")
    there.world.now += FINISH_PATIENCE_S + 0.1
    there.supervisor._watch.tick()
    assert (there.application.killed, there.run(A) is process.run) == ([], False)


async def test_the_tasks_of_all_flows_share_the_slots(flows: tuple[Flow, Flow]) -> None:
    there, back = flows
    there.spark.driver_report(1, {})
    for _ in range(int(NO_SLOT_S) + 2):
        there.world.now += 1
        back.supervisor._watch.tick()
    assert (back.events.trace(A) or "").startswith("Task c-0 has no Spark slot: 2 tasks want to run")


async def test_log_lines_name_the_flow(flows: tuple[Flow, Flow], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.app.supervisor")
    lines: list[str] = []

    class Lines(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    handler = Lines()
    handler.setFormatter(LineFormatter("%(message)s"))
    logging.getLogger("mirror_connect.app.supervisor").addHandler(handler)
    try:
        process = await flows[1].running(A)
        flows[1].application.alive.discard(process.pid)
        flows[1].spark.driver_report(2, {process.run.run_id: {"state": "ENDED", "error": "exit 139"}})
    finally:
        logging.getLogger("mirror_connect.app.supervisor").removeHandler(handler)
    assert "[B->A] Task c-0: its process died (exit 139)" in lines


async def test_levels_of_loggers_are_a_new_version_of_the_plan_and_stay(flows: tuple[Flow, Flow]) -> None:
    spark = flows[0].spark
    before = await spark.plan(-1, 0.0)
    spark.set_log_levels({"a": 10})
    spark.set_log_levels({"b": 20})
    after = await spark.plan(before["version"], 0.0)
    assert before["log_levels"] == {"version": 0, "levels": {}}
    assert (after["version"] > before["version"], after["log_levels"]) == (
        True,
        {"version": 2, "levels": {"a": 10, "b": 20}},
    )
