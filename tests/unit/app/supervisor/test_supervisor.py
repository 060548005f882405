"""What the supervisor does when tasks, processes and Spark itself come, speak, fall silent and die."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from unittest.mock import ANY

import pytest

from mirror_connect.app.supervisor import spark_keeper
from mirror_connect.app.supervisor.grants import LANDING_S
from mirror_connect.app.supervisor.idleness import FIRST_PROCESS_S, TASK_SILENT_S
from mirror_connect.app.supervisor.incidents import LONGEST_LINE
from mirror_connect.app.supervisor.interfaces import ASSIGNED, WantedTask
from mirror_connect.app.supervisor.run import Run
from mirror_connect.app.supervisor.supervisor import (
    FENCED_PAUSES_S,
    FINISH_PATIENCE_S,
    NO_SLOT_S,
    NOT_COMMITTED,
    ROOM_RETRY_S,
    STEADY_S,
    Supervisor,
)
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.task_protocol import PartitionPosition, TaskId, TaskOrders, TaskReport, TaskSpec
from tests.fakes.spark_rig import SECRET, FakeEvents, FakeSpecs

A, B = TaskId("c", 0), TaskId("c", 1)
UTC = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC"


class FakeApplication:
    """A Spark whose processes are numbers. `sticky`: processes that don't die at once when they are killed."""

    def __init__(self) -> None:
        self.alive: set[int] = set()
        self.sticky: set[int] = set()
        self.killed: list[int] = []
        self.last_words = "no room"
        self.ended = False
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def start(self, url: str, token: str) -> None: ...

    async def exited(self) -> int:
        return await asyncio.shield(self._exit)

    async def end(self, patience_s: float) -> None:
        self.ended = True
        self.die(0)

    def die(self, code: int) -> None:
        self.alive.clear()
        if not self._exit.done():
            self._exit.set_result(code)

    def kill_task(self, pid: int) -> bool:
        if pid not in self.alive:
            return False
        self.killed.append(pid)
        if pid not in self.sticky:
            self.alive.discard(pid)
        return True

    def owns(self, pid: int) -> bool:
        return pid in self.alive


class Specs(FakeSpecs):
    def __init__(self) -> None:
        self.failure: Exception | None = None
        self.provided: dict[str, str] = {}
        self.no_positions: Exception | None = None
        self.kept: frozenset[TaskId] = frozenset()
        # Specs are built, and positions read, while it is set.
        self.building = asyncio.Event()
        self.building.set()

    async def resolve(self, run_id: str, task: TaskId, config: Mapping[str, str]) -> Mapping[str, str]:
        return {**await super().resolve(run_id, task, config), **self.provided}

    async def build(
        self, run_id: str, task: TaskId, config: Mapping[str, str], resolved: Mapping[str, str], version: int
    ) -> TaskSpec:
        failure = self.failure
        await self.building.wait()
        if failure is not None:
            raise failure
        return await super().build(run_id, task, config, resolved, version)

    async def positions(self, spec: TaskSpec, partitions: Sequence[tuple[str, int]]) -> list[PartitionPosition]:
        failure = self.no_positions
        await self.building.wait()
        if failure is not None:
            raise failure
        return [PartitionPosition(topic, partition, 7) for topic, partition in partitions]

    def keep(self, tasks: Collection[TaskId]) -> None:
        self.kept = frozenset(tasks)


class Process:
    """One task process at work on a run."""

    _pids = itertools.count(1000)

    def __init__(self, world: World, run: Run, pid: int | None = None) -> None:
        self.world, self.run = world, run
        self.pid = pid or next(self._pids)
        self.attempt = f"attempt of {self.pid} {next(self._pids)}"
        world.application.alive.add(self.pid)

    async def ask(self) -> TaskSpec | None:
        return await self.world.supervisor.spec(self.run, self.attempt)

    async def positions(self, *, fenceable: bool = True) -> list[PartitionPosition] | None:
        return await self.world.supervisor.positions(self.run, self.attempt, [("t", 0)], fenceable=fenceable)

    async def say(self, state: str, version: int | None = None, *, hold: float = 0.0, **more: object) -> TaskOrders:
        report = TaskReport.from_json(
            {
                "attempt": self.attempt,
                "pid": self.pid,
                "state": state,
                "assignment_version": self.run.version if version is None else version,
                "topics": [],
                "notices": [],
                "settled": True,
                **more,
            }
        )
        known = self.run.version
        return await self.world.supervisor.report(self.run, report, hold_s=hold, known_version=known)


class World:
    def __init__(self) -> None:
        self.now = 100.0
        self.lease = 8.0
        self.applications: list[FakeApplication] = []
        self.specs, self.events = Specs(), FakeEvents()
        self.supervisor = Supervisor(
            {"spark.master": "local[2,4]"},
            self.specs,
            lambda: self.lease,
            new_application=self._new_application,
            clock=lambda: self.now,
        )
        self.supervisor.listen(self.events)

    def _new_application(self, _: Mapping[str, str]) -> FakeApplication:
        self.applications.append(FakeApplication())
        return self.applications[-1]

    @property
    def application(self) -> FakeApplication:
        return self.applications[-1]

    def run(self, task: TaskId) -> Run:
        return next(run for run in self.supervisor._runs.values() if run.task == task)

    def tasks(self) -> list[TaskId]:
        return [run.task for run in self.supervisor._runs.values()]

    def later(self, seconds: float, step: float = 1.0) -> None:
        """Time passes, and the supervisor looks around."""
        until = self.now + seconds
        while self.now < until:
            self.now = min(until, self.now + step)
            self.supervisor.tick()

    async def running(self, task: TaskId) -> Process:
        process = Process(self, self.run(task))
        await process.ask()
        await process.say("STARTING", 0)
        await process.say("RUNNING")
        return process


@pytest.fixture
async def world(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[World]:
    monkeypatch.setattr(spark_keeper, "BACK_OFF_S", (0.01, 0.02))
    # The clock of the tests moves in leaps; here these are no sign of a suspended worker.
    monkeypatch.setattr(spark_keeper, "WATCH_S", 1000.0)
    world = World()
    await world.supervisor.start("http://127.0.0.1:1")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    world.supervisor._ticking.cancel() if world.supervisor._ticking else None
    world.supervisor.driver_report(2, {})
    yield world
    await world.supervisor.stop(0.0)


def wanted(*partitions: str, **more: str) -> WantedTask:
    return WantedTask({"connector.class": "X", **more, ASSIGNED: ",".join(partitions)})


# --- wanting --------------------------------------------------------------------------------------------------------


async def test_a_wanted_task_is_in_the_plan(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    plan = await world.supervisor.plan(-1, 0.0)
    assert [(run["connector"], run["task"]) for run in plan["runs"]] == [("c", 0)]


async def test_a_plan_that_is_known_is_held_until_it_changes(world: World) -> None:
    known = (await world.supervisor.plan(-1, 0.0))["version"]
    asking = asyncio.create_task(world.supervisor.plan(known, 10.0))
    await asyncio.sleep(0)
    world.supervisor.want({A: wanted("t-0")})
    assert (await asking)["version"] > known


async def test_a_task_runs_when_it_says_so_itself(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = Process(world, world.run(A))
    await process.ask()
    await process.say("STARTING", 0)
    silent = world.events.of(A)
    await process.say("RUNNING")
    assert (silent, world.events.of(A)) == ([], ["RUNNING"])


async def test_an_unwanted_task_is_told_to_finish_and_is_over_when_it_has(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({})
    orders = await process.say("RUNNING")
    before = list(world.events.ended)
    await process.say("FINISHED")
    assert (orders.finish, orders.abandon, before, world.events.ended) == (True, False, [], [A])


async def test_of_an_unwanted_task_nothing_is_remembered_once_it_is_over(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    process = await world.running(A)
    world.supervisor.want({B: wanted("t-1")})
    while_it_ends = world.specs.kept
    await process.say("FINISHED")
    assert (while_it_ends, world.specs.kept) == ({A, B}, {B})


async def test_an_unwanted_task_that_no_process_has_is_over_at_once(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    world.supervisor.want({})
    assert (world.tasks(), world.events.ended) == ([], [A])


async def test_another_config_waits_for_the_end_of_the_run_before(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({A: wanted("t-0", more="1")})
    old = world.run(A)
    await process.say("FINISHED")
    assert old.is_over
    assert world.run(A).identity["more"] == "1"


async def test_other_partitions_keep_the_run_and_are_told_as_a_new_version(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({A: wanted("t-0", "t-1")})
    orders = await process.say("RUNNING", 2)
    spec = await process.ask()
    assert orders.assignment_version == 3
    assert spec is not None
    assert [each.partition for each in spec.assigned] == [0, 1]


async def test_a_partition_that_moves_is_granted_after_it_was_drained(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", "t-1"), B: wanted("u-0")})
    one, two = await world.running(A), await world.running(B)
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1", "u-0")})
    before = (await two.say("RUNNING")).assignment_version
    await one.say("RUNNING")
    after = await two.ask()
    assert after is not None
    assert (after.assignment_version > before, len(after.assigned)) == (True, 2)


async def test_another_task_gets_partitions_of_one_that_was_killed_when_its_requests_cannot_land_any_more(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    both = {A: wanted("t-0"), B: wanted("t-1")}
    world.supervisor.want(both)
    first, second = await world.running(A), await world.running(B)
    # Regrouped with another config: both end, the first one settled, the second one not in time.
    world.supervisor.want({A: wanted("t-1", more="config"), B: wanted("t-0", more="config")})
    await first.say("FINISHED")
    await second.say("RUNNING")
    world.later(FINISH_PATIENCE_S + 0.1, 0.1)
    assert (world.run(B).granted, world.run(A).granted) == ({("t", 0)}, set())
    process = await world.running(A)
    world.later(LANDING_S - 1)
    early = world.run(A).granted
    world.later(1.2, 0.1)
    assert (early, world.run(A).granted) == (set(), {("t", 1)})
    assert (await process.say("RUNNING")).assignment_version == world.run(A).version
    lines = [r.getMessage() for r in caplog.records if "may still be written" in r.getMessage()]
    assert lines == [
        "Task c-0 waits for 1 partition, 30 s at most: another task has ended with requests under way there, which may "
        "still be written"
    ]


async def test_a_process_that_was_replaced_leaves_requests_to_which_no_other_task_gets_its_partitions(
    world: World,
) -> None:
    world.supervisor.want({A: wanted("t-0", "t-1"), B: wanted("t-2")})
    first, _ = await world.running(A), await world.running(B)
    world.application.alive.discard(first.pid)
    again = Process(world, world.run(A))
    await again.ask()
    # It drains at once what it has never had time to send anything of.
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-2", "t-1")})
    await again.say("RUNNING", world.run(A).version)
    early = world.run(B).granted
    world.later(LANDING_S + 1)
    assert (early, world.run(B).granted) == ({("t", 2)}, {("t", 1), ("t", 2)})


async def test_another_task_gets_a_partition_whose_owner_died_before_it_gave_it_up(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", "t-1"), B: wanted("t-2")})
    first, _ = await world.running(A), await world.running(B)
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-2", "t-1")})
    world.application.alive.discard(first.pid)
    # Spark runs the task again, which never had the partition: nothing is given up any more.
    await world.running(A)
    early = world.run(B).granted
    world.later(LANDING_S + 1)
    assert (early, world.run(B).granted) == ({("t", 2)}, {("t", 1), ("t", 2)})


async def test_a_task_that_nothing_fences_off_is_told_its_positions_when_nothing_of_its_past_may_land(
    world: World,
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    first = await world.running(A)
    await first.positions(fenceable=False)
    world.application.alive.discard(first.pid)
    following = Process(world, world.run(A))
    await following.ask()
    with pytest.raises(ClusterUnreachable, match="its last process ended with requests under way"):
        await following.positions(fenceable=False)
    assert world.events.trace(A).startswith(f"Waits for {LANDING_S:g} s at most")
    for _ in range(int(LANDING_S) + 1):
        world.later(1.0)
        await following.say("STARTING", 0)
    assert await following.positions(fenceable=False) == [PartitionPosition("t", 0, 7)]


async def test_a_process_that_was_replaced_does_not_say_whether_its_successor_is_fenced_off(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    first, second = Process(world, world.run(A)), Process(world, world.run(A))
    await first.ask()
    await second.ask()
    await second.positions(fenceable=False)
    replaced = await first.positions(fenceable=True)
    await second.say("RUNNING")
    world.application.alive.discard(second.pid)
    third = Process(world, first.run)
    await third.ask()
    with pytest.raises(ClusterUnreachable, match="its last process ended with requests under way"):
        await third.positions(fenceable=True)
    assert replaced is None


@pytest.mark.parametrize("failure", [None, ClusterUnreachable("away")])
async def test_who_is_replaced_while_its_positions_are_read_is_told_none_and_its_failure_is_nobodys(
    world: World, failure: Exception | None
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    first, second = Process(world, world.run(A)), Process(world, world.run(A))
    await first.ask()
    world.specs.no_positions = failure
    world.specs.building.clear()
    asking = asyncio.create_task(first.positions())
    await asyncio.sleep(0)
    world.specs.building.set()
    await second.ask()
    assert (await asking, world.events.states) == (None, [])


async def test_another_task_gets_what_a_process_that_does_not_come_up_never_had(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    first, other = await world.running(A), await world.running(B)
    world.supervisor.want({A: wanted(), B: wanted("t-0", "t-1")})
    world.application.alive.discard(first.pid)
    coming = Process(world, world.run(A))
    await coming.ask()
    for _ in range(int(LANDING_S) + 1):
        world.later(1.0)
        await coming.say("STARTING", 0)
        await other.say("RUNNING")
    assert world.run(B).granted == {("t", 0), ("t", 1)}


async def test_a_restart_ends_the_run_and_begins_another(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.restart(A)
    assert (await process.say("RUNNING")).finish
    await process.say("FINISHED")
    assert world.run(A) is not process.run
    assert world.events.ended == []


# --- failing --------------------------------------------------------------------------------------------------------


async def test_a_failed_task_stays_failed_while_nothing_changes(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("FAILED", trace="ValueError: no")
    world.supervisor.want({A: wanted("t-0")})
    assert (world.tasks(), world.events.states[-1]) == ([], (A, "FAILED", "ValueError: no"))


@pytest.mark.parametrize("how", ["restart", "config", "partitions"])
async def test_a_failed_task_is_tried_again_when_it_is_asked_for(world: World, how: str) -> None:
    world.supervisor.want({A: wanted("t-0")})
    await (await world.running(A)).say("FAILED", trace="no")
    match how:
        case "restart":
            world.supervisor.restart(A)
        case "config":
            world.supervisor.want({A: wanted("t-0", more="1")})
        case "partitions":
            world.supervisor.want({A: wanted("t-1")})
    assert world.tasks() == [A]


async def test_a_failure_of_the_old_config_is_not_one_of_the_new(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({A: wanted("t-0", more="1")})
    await process.say("FAILED", trace="no")
    assert world.events.of(A) == ["RUNNING"]
    assert world.run(A).identity["more"] == "1"


async def test_one_failing_task_leaves_its_sibling_alone(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    one, two = await world.running(A), await world.running(B)
    await one.say("FAILED", trace="no")
    assert not (await two.say("RUNNING")).finish


async def test_a_trace_hides_what_the_config_keeps_secret(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", **{"a.password": "${file:/secrets:password}"})})
    await (await world.running(A)).say("FAILED", trace=f"ValueError: {SECRET}")
    assert world.events.trace(A) == "ValueError: [hidden]"


async def test_an_error_in_a_first_spec_hides_what_a_provider_gave(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", **{"offset.lag.max": "${file:/secrets:lag}"})})
    # As a file has it that ends with a line break.
    world.specs.provided = {"offset.lag.max": "from-the-file\n"}
    world.specs.failure = ConfigError("offset.lag.max", "from-the-file", "Not a number of type INT")
    await Process(world, world.run(A)).ask()
    assert world.events.trace(A) == (
        "ConfigError: Invalid value [hidden] for configuration offset.lag.max: Not a number of type INT"
    )


async def test_the_trace_of_a_spec_that_met_a_mistake_of_ours_hides_what_a_provider_gave(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    # The handler's own net is not on this log.
    world.specs.failure = KeyError(SECRET)
    world.supervisor.want({A: wanted("t-0")})
    await Process(world, world.run(A)).ask()
    (record,) = [each for each in caplog.records if "can't be started" in each.getMessage()]
    told = logging.Formatter().format(record)
    assert "KeyError: '[hidden]'" in told
    assert "in build" in told
    assert SECRET not in told


async def test_an_error_in_a_later_spec_hides_what_has_changed_since(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", **{"offset.lag.max": "${file:/secrets:lag}"})})
    world.specs.provided = {"offset.lag.max": "100"}
    process = await world.running(A)
    await process.say("EPOCH_ENDED")
    world.specs.provided = {"offset.lag.max": "from-the-file"}
    world.specs.failure = ConfigError("offset.lag.max", "from-the-file", "Not a number of type INT")
    await Process(world, world.run(A)).ask()
    assert world.events.trace(A) == (
        "ConfigError: Invalid value [hidden] for configuration offset.lag.max: Not a number of type INT"
    )


async def test_what_a_task_waits_for_hides_what_a_provider_gave(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", **{"bootstrap.servers": "${file:/secrets:servers}"})})
    world.specs.provided = {"bootstrap.servers": "inner.example:9092"}
    world.specs.failure = ClusterUnreachable("No broker of inner.example:9092 answered")
    process = Process(world, world.run(A))
    with pytest.raises(ClusterUnreachable):
        await process.ask()
    before = world.events.trace(A)
    world.specs.failure, world.specs.no_positions = None, NotAuthorized("inner.example:9092 refused")
    await process.ask()
    with pytest.raises(NotAuthorized):
        await process.positions()
    assert (before, world.events.trace(A)) == (
        "No broker of [hidden] answered",
        "Its positions can't be read: [hidden] refused",
    )


async def test_a_runs_secrets_are_in_use_until_its_end(world: World) -> None:
    world.supervisor.want({A: wanted("t-0", **{"a.password": "${file:/secrets:password}"})})
    process = await world.running(A)
    world.supervisor.want({})
    ending = world.supervisor.secrets()
    await process.say("FINISHED")
    assert (SECRET in ending, world.supervisor.secrets()) == (True, frozenset())


async def test_a_task_that_cannot_be_built_has_failed_with_one_line(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    world.specs.failure = NotAuthorized("The target cluster refused the credentials")
    assert await Process(world, world.run(A)).ask() is None
    assert world.events.trace(A) == "NotAuthorized: The target cluster refused the credentials"


async def test_a_task_whose_target_is_away_says_what_it_waits_for_once(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = Process(world, world.run(A))
    world.specs.failure = ClusterUnreachable("The target cluster can't be reached")
    for _ in range(3):
        with pytest.raises(ClusterUnreachable):
            await process.ask()
    assert world.events.states == [(A, "UNASSIGNED", "The target cluster can't be reached")]


async def test_what_a_task_waits_for_positions_for_is_said_once(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = Process(world, world.run(A))
    await process.ask()
    world.specs.no_positions = ClusterUnreachable("topic offsets: an open transaction")
    for _ in range(2):
        with pytest.raises(ClusterUnreachable):
            await process.positions()
    assert world.events.states == [(A, "UNASSIGNED", "Its positions can't be read: topic offsets: an open transaction")]


async def test_a_task_that_dies_is_tried_again_twice_and_then_failed(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for _ in range(3):
        process = await world.running(A)
        world.application.alive.discard(process.pid)
        world.supervisor.driver_report(2, {process.run.run_id: {"state": "ENDED", "error": "exit 139"}})
    assert world.events.of(A) == ["RUNNING", "UNASSIGNED", "RUNNING", "UNASSIGNED", "RUNNING", "FAILED"]
    assert re.fullmatch(
        rf"Its process died at {UTC} \(exit 139\); it is started again", world.events.states[1][2] or ""
    )


FENCED_TRACE = "FencedError: Another task took over the transactional id g-c-0.\n"


async def test_a_task_that_was_fenced_is_started_anew_and_not_failed(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("FENCED", trace=FENCED_TRACE)
    assert world.run(A) is not process.run
    assert world.events.states[-1] == (
        A,
        "UNASSIGNED",
        f"{FENCED_TRACE.strip()} It is started anew in {FENCED_PAUSES_S[0]:g} s.",
    )
    assert await world.supervisor.plan(-1, 0) == {"version": ANY, "runs": []}
    world.later(FENCED_PAUSES_S[0] + 1)
    await world.running(A)
    assert world.events.of(A) == ["RUNNING", "UNASSIGNED", "RUNNING"]


async def test_a_task_that_is_fenced_again_and_again_is_failed_and_says_why(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for pause in (*FENCED_PAUSES_S, 0.0):
        await (await world.running(A)).say("FENCED", trace=FENCED_TRACE)
        world.later(pause + 1)
    assert world.events.states[-1] == (A, "FAILED", FENCED_TRACE)


async def test_a_task_that_was_fenced_rarely_is_never_failed(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for _ in range(2 * len(FENCED_PAUSES_S)):
        process = await world.running(A)
        for _ in range(int(STEADY_S) // 10 + 1):
            await process.say("RUNNING")
            world.later(10)
        await process.say("FENCED", trace=FENCED_TRACE)
        world.later(FENCED_PAUSES_S[0] + 1)
    assert "FAILED" not in world.events.of(A)


FULL = "StreamingQueryException: java.io.IOException: No space left on device"


async def planned(world: World) -> list[str]:
    return [run["run_id"] for run in (await world.supervisor.plan(-1, 0.0))["runs"]]


async def test_a_task_for_which_spark_has_no_room_is_tried_for_ever_and_says_so_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for _ in range(5):
        assert await planned(world) == [world.run(A).run_id]
        world.supervisor.driver_report(2, {world.run(A).run_id: {"state": "ENDED", "error": FULL}})
        assert await planned(world) == []
        world.later(ROOM_RETRY_S)
    (state,) = world.events.states
    assert state[:2] == (A, "UNASSIGNED")
    assert state[2] is not None
    assert "is full: free some space there" in state[2]
    assert len([line for line in caplog.messages if "is full" in line]) == 1
    await world.running(A)
    assert world.events.of(A) == ["UNASSIGNED", "RUNNING"]


async def test_a_query_that_ended_before_its_process_frees_nothing_until_that_is_gone(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.application.sticky.add(process.pid)
    ended = {process.run.run_id: {"state": "ENDED", "error": "no room"}}
    world.supervisor.driver_report(2, ended)
    held = world.run(A) is process.run
    world.application.alive.discard(process.pid)
    world.supervisor.driver_report(2, ended)
    assert (held, world.run(A) is process.run) == (True, False)


async def test_a_run_that_dies_while_it_finishes_does_not_count_as_a_death(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    for _ in range(4):
        process = await world.running(A)
        world.supervisor.restart(A)
        world.application.alive.discard(process.pid)
        world.supervisor.driver_report(2, {process.run.run_id: {"state": "ENDED", "error": "exit 9"}})
    assert "FAILED" not in world.events.of(A)


# --- processes ------------------------------------------------------------------------------------------------------


async def test_a_predecessor_is_gone_before_a_new_attempt_gets_its_spec(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    world.application.sticky.add(old.pid)
    asking = asyncio.create_task(Process(world, old.run).ask())
    await asyncio.sleep(0.05)
    waited = not asking.done()
    world.application.alive.discard(old.pid)
    assert await asking is not None
    assert (waited, world.application.killed) == (True, [old.pid])


async def test_of_two_processes_that_wait_for_their_predecessors_end_the_one_that_asked_last_gets_the_spec(
    world: World,
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    world.application.sticky.add(old.pid)
    first, second = Process(world, old.run), Process(world, old.run)
    asking = [asyncio.create_task(each.ask()) for each in (first, second, first)]
    await asyncio.sleep(0.05)
    waited = not asking[1].done()
    world.application.alive.discard(old.pid)
    specs = await asyncio.gather(*asking)
    assert (waited, [spec is not None for spec in specs]) == (True, [False, True, False])
    orders = [await each.say("RUNNING") for each in (first, second)]
    assert [(each.abandon, each.lease_ms) for each in orders] == [(True, 0), (False, 8000)]


async def test_a_process_that_asks_again_for_its_spec_does_not_displace_the_one_that_waits_for_its_end(
    world: World,
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    world.application.sticky.add(old.pid)
    new = Process(world, old.run)
    asking = [asyncio.create_task(new.ask()) for _ in range(2)]
    await asyncio.sleep(0.05)
    before = await old.ask()
    world.application.alive.discard(old.pid)
    specs = await asyncio.gather(*asking)
    assert None not in (before, *specs)
    assert not (await new.say("RUNNING")).abandon


@pytest.mark.parametrize("failure", [None, ConfigError("a", "b", "no"), ClusterUnreachable("away")])
async def test_who_is_replaced_while_its_spec_is_built_gets_none_and_its_failure_is_nobodys(
    world: World, failure: Exception | None
) -> None:
    world.supervisor.want({A: wanted("t-0")})
    first, second = Process(world, world.run(A)), Process(world, world.run(A))
    world.specs.failure = failure
    world.specs.building.clear()
    early = asyncio.create_task(first.ask())
    await asyncio.sleep(0)
    world.specs.failure = None
    late = asyncio.create_task(second.ask())
    await asyncio.sleep(0)
    world.specs.building.set()
    assert [spec is not None for spec in await asyncio.gather(early, late)] == [False, True]
    await second.say("RUNNING")
    assert world.events.of(A) == ["RUNNING"]


async def test_a_process_whose_run_ends_while_its_spec_is_built_gets_none(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.specs.building.clear()
    asking = asyncio.create_task(process.ask())
    await asyncio.sleep(0)
    world.supervisor.want({})
    await process.say("FINISHED")
    world.specs.building.set()
    assert await asking is None


async def test_a_report_that_was_held_while_its_run_ended_gets_no_lease(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    held = asyncio.create_task(process.say("RUNNING", hold=10.0))
    await asyncio.sleep(0)
    world.specs.failure = ConfigError("a", "b", "no")
    await process.ask()
    assert await held == TaskOrders(lease_ms=0, finish=True, abandon=True)


async def test_reports_of_an_old_attempt_are_told_to_abandon(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    await Process(world, old.run).ask()
    assert await old.say("RUNNING") == TaskOrders(lease_ms=0, finish=True, abandon=True)


async def test_a_report_that_was_held_while_its_attempt_was_replaced_gets_no_lease(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    held = asyncio.create_task(old.say("RUNNING", hold=10.0))
    await asyncio.sleep(0)
    await Process(world, old.run).ask()
    assert (await held).abandon


async def test_an_old_attempt_that_asks_again_does_not_displace_the_new_one(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    old = await world.running(A)
    new = Process(world, old.run)
    await new.ask()
    assert await old.ask() is None
    assert not (await new.say("RUNNING")).abandon


async def test_a_process_that_works_for_another_run_by_now_is_left_alone(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    one = await world.running(A)
    other = Process(world, world.run(B), pid=one.pid)
    await other.ask()
    await other.say("RUNNING")
    await Process(world, one.run).ask()
    assert world.application.killed == []


async def test_an_epoch_that_ends_leaves_the_task_running_and_its_process_alone(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("EPOCH_ENDED")
    next_epoch = Process(world, process.run, pid=process.pid)
    assert await next_epoch.ask() is not None
    assert (world.events.of(A), world.application.killed) == (["RUNNING"], [])


async def test_a_silent_task_is_killed_and_keeps_its_run(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.later(TASK_SILENT_S + 1)
    assert (world.application.killed, world.run(A) is process.run) == ([process.pid], True)


async def test_tasks_are_not_taken_for_silent_when_this_worker_was_suspended(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    await world.running(A)
    world.later(60, step=60)
    assert world.application.killed == []


async def test_a_task_that_does_not_finish_in_time_is_killed_and_then_over(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({})
    world.later(FINISH_PATIENCE_S - 0.1, step=0.1)
    patient = list(world.application.killed)
    world.later(0.3, step=0.1)
    assert (patient, world.application.killed, world.events.ended) == ([], [process.pid], [A])


async def test_a_killed_task_is_over_only_when_its_process_is_gone(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.application.sticky.add(process.pid)
    world.supervisor.want({})
    world.later(FINISH_PATIENCE_S + 1, step=0.1)
    assert (world.events.ended, world.application.killed) == ([], [process.pid])


# --- slots, leases, Spark -------------------------------------------------------------------------------------------


async def test_a_task_without_a_slot_is_unassigned_and_says_how_many_there_are(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1"), TaskId("c", 2): wanted("t-2")})
    await world.running(A)
    await world.running(B)
    world.later(NO_SLOT_S + 1)
    assert world.events.trace(TaskId("c", 2)) == (
        "Task c-2 has no Spark slot: 3 tasks want to run and spark.master=local[2,4] has 2 slots. "
        "Raise the slots or lower tasks.max."
    )


async def test_a_task_that_lost_its_slot_between_two_epochs_is_unassigned(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1"), TaskId("c", 2): wanted("t-2")})
    process = await world.running(A)
    await process.say("EPOCH_ENDED")
    world.later(NO_SLOT_S + 1)
    assert world.events.of(A) == ["RUNNING", "UNASSIGNED"]


async def test_a_waiting_task_with_slots_enough_says_nothing_for_a_while(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    world.later(FIRST_PROCESS_S)
    assert world.events.states == []


@pytest.mark.parametrize(("lease", "milliseconds"), [(8.0, 8000), (-1.0, 0)])
async def test_orders_carry_the_lease_that_is_left(world: World, lease: float, milliseconds: int) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.lease = lease
    assert (await process.say("RUNNING")).lease_ms == milliseconds


async def test_what_ran_in_a_leadership_that_is_over_has_no_lease_in_the_next_one(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.lease = 0.0
    world.supervisor.retire()
    # It leads again before the task has heard of anything.
    world.lease = 8.0
    world.supervisor.want({A: wanted("t-0")})
    orders = await process.say("RUNNING")
    assert (orders.finish, orders.lease_ms) == (True, 0)
    await process.say("FINISHED")
    following = await world.running(A)
    assert (await following.say("RUNNING")).lease_ms == 8000


async def test_a_task_that_is_to_finish_may_still_write(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    world.supervisor.want({})
    orders = await process.say("RUNNING")
    assert (orders.finish, orders.lease_ms) == (True, 8000)


async def test_a_held_report_is_answered_when_the_task_is_to_finish(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    held = asyncio.create_task(process.say("RUNNING", hold=10.0))
    await asyncio.sleep(0)
    world.supervisor.want({})
    assert (await held).finish


async def test_the_death_of_spark_begins_every_run_anew_and_says_why(world: World) -> None:
    world.supervisor.want({A: wanted("t-0"), B: wanted("t-1")})
    runs = {(await world.running(task)).run for task in (A, B)}
    world.application.die(1)
    await eventually(lambda: len(world.applications) == 2)
    assert world.events.of(A) == ["RUNNING", "UNASSIGNED"]
    assert (world.events.trace(A) or "").startswith("Spark ended: no room; it starts again")
    assert {world.run(A), world.run(B)}.isdisjoint(runs)


async def test_a_task_that_is_wanted_while_spark_starts_says_that_it_waits_for_it_until_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spark_keeper, "WATCH_S", 1000.0)
    world = World()
    await world.supervisor.start("http://127.0.0.1:1")
    await eventually(lambda: bool(world.applications))
    world.supervisor.want({A: wanted("t-0")})
    line = world.events.trace(A) or ""
    world.supervisor.driver_report(2, {})
    await world.running(A)
    await world.supervisor.stop(0.0)
    assert re.fullmatch(r"Waits for Spark, which was started at \d\d:\d\d:\d\d and takes some ten seconds\.", line)
    assert world.events.states[1:] == [(A, "UNASSIGNED", "It is being started on Spark."), (A, "RUNNING", None)]


@pytest.mark.parametrize(
    ("code", "words", "end"),
    [
        (1, "its JVM was ended by signal 9 (SIGKILL)", "Spark ended: its JVM was ended by signal 9 (SIGKILL)"),
        (-9, "no", "Spark's driver was ended by signal 9 (SIGKILL), as the kernel does it when memory is short"),
        (-15, "", "Spark's driver was ended by signal 15 (SIGTERM)"),
        (3, "", "Spark ended with exit code 3"),
    ],
)
def test_an_end_of_spark_is_told_as_it_was(code: int, words: str, end: str) -> None:
    assert spark_keeper.described_end(code, words) == end


async def test_the_log_follows_spark_and_its_tasks(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.app.supervisor")
    world.supervisor.want({A: wanted("t-0", "t-1")})
    process = await world.running(A)
    await process.say("EPOCH_ENDED")
    again = Process(world, process.run, pid=process.pid)
    await again.ask()
    await again.say("RUNNING")
    world.supervisor.want({A: wanted("t-0")})
    await again.say("RUNNING")
    world.supervisor.want({})
    await again.say("FINISHED")
    world.application.die(-9)
    await eventually(lambda: len(world.applications) == 2)
    world.supervisor.driver_report(2, {})
    await world.supervisor.stop(0.0)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "Task c-0 is RUNNING with 2 partitions"),
        ("INFO", "Task c-0 copies 1 partition now"),
        ("INFO", "Task c-0 has ended; what it copied is committed"),
        (
            "ERROR",
            "Spark's driver was ended by signal 9 (SIGKILL), as the kernel does it when memory is short; "
            "it starts again after 0.01 s, and its tasks with it.",
        ),
        ("INFO", "Spark is starting"),
        ("INFO", "Spark is ready after 0.0 s: slots for 2 tasks"),
        ("INFO", "Spark has ended"),
    ]


@pytest.mark.parametrize(
    ("state", "line"),
    [
        ("FINISHED", f"Task c-0 has ended; {NOT_COMMITTED}"),
        ("EPOCH_ENDED", f"Task c-0: {NOT_COMMITTED}"),
    ],
)
async def test_what_is_not_committed_at_the_end_is_not_told_as_committed(
    world: World, caplog: pytest.LogCaptureFixture, state: str, line: str
) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.app.supervisor")
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say(state, committed=False)
    assert line in caplog.messages
    assert not [each for each in caplog.messages if "is committed" in each]


async def test_a_task_that_is_wanted_while_spark_is_away_says_why_it_waits(world: World) -> None:
    world.application.die(1)
    await eventually(lambda: world.supervisor._keeper.trouble is not None)
    world.supervisor.want({A: wanted("t-0")})
    assert world.events.of(A) == ["UNASSIGNED"]


async def test_spark_that_cannot_be_started_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def impossible(self: FakeApplication, url: str, token: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(FakeApplication, "start", impossible)
    world.application.die(1)
    await eventually(lambda: len(world.applications) >= 4)
    assert "No space left on device" in (world.supervisor._keeper.trouble or "")


async def test_a_silent_driver_is_replaced(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_keeper, "WATCH_S", 0.01)
    monkeypatch.setattr(spark_keeper, "DRIVER_SILENT_S", 0.0)
    world.application.die(1)
    await eventually(lambda: len(world.applications) == 2)
    world.now += 0.01
    await eventually(lambda: world.applications[1].ended)


async def test_stop_lets_tasks_finish_and_ends_spark(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    stopping = asyncio.create_task(world.supervisor.stop(5.0))
    await asyncio.sleep(0)
    told = await process.say("RUNNING")
    await process.say("FINISHED")
    await stopping
    assert (told.finish, world.application.ended) == (True, True)


async def test_nothing_is_wanted_any_more_once_it_stops(world: World) -> None:
    await world.supervisor.stop(0.0)
    world.supervisor.want({A: wanted("t-0")})
    assert world.tasks() == []


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def test_partitions_that_stand_still_are_the_trace_of_a_running_task_until_they_move(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("RUNNING", standing=["t-0 stops at offset 3", "t-1 stops at offset 4"])
    await process.say("RUNNING", standing=["t-0 stops at offset 3", "t-1 stops at offset 4"])
    await process.say("RUNNING")
    both = "t-0 stops at offset 3\nt-1 stops at offset 4"
    assert world.events.states == [(A, "RUNNING", None), (A, "RUNNING", both), (A, "RUNNING", None)]


async def test_secrets_are_kept_out_of_what_is_said_of_partitions(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("RUNNING", standing=[f"t-0 {SECRET}"])
    assert SECRET not in str(world.events.states)


async def test_a_line_has_an_end_and_no_half_of_a_secret_stands_there(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    line = "x" * (LONGEST_LINE - 6) + SECRET + "y" * LONGEST_LINE
    await process.say("RUNNING", standing=[line], incidents=[line])
    told = world.events.states[-1][2]
    assert told is not None
    assert (SECRET[:6] in told, max(map(len, told.split("\n"))) < 1.1 * LONGEST_LINE) == (False, True)


async def test_what_has_happened_stays_in_the_trace_until_the_task_is_started_anew(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("RUNNING", incidents=["t-0: offsets 3 to 5 are gone"])
    await process.say("RUNNING", standing=["t-1 stops at offset 4"])
    await process.say("RUNNING")
    first, second, third = [trace.split("\n") for _, _, trace in world.events.states[1:]]
    assert first[0] == "Has happened, until the task is restarted:"
    assert first[1].endswith(" UTC t-0: offsets 3 to 5 are gone")
    assert (second, third) == (["t-1 stops at offset 4", *first], first)


async def test_what_has_happened_is_told_with_a_failure_that_follows(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("RUNNING", incidents=["t-0: offsets 3 to 5 are gone"])
    await process.say("FAILED", trace="ConfigError: no")
    task, state, trace = world.events.states[-1]
    assert (task, state, trace.splitlines()[0]) == (A, "FAILED", "ConfigError: no")
    assert trace.endswith(" UTC t-0: offsets 3 to 5 are gone")


async def test_what_has_happened_outlives_an_epoch(world: World) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("EPOCH_ENDED", incidents=["t-0: offsets 3 to 5 are gone"])
    process = await world.running(A)
    assert "t-0: offsets 3 to 5 are gone" in str(world.events.states[-1])


async def test_secrets_are_kept_out_of_what_has_happened(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.supervisor.want({A: wanted("t-0")})
    process = await world.running(A)
    await process.say("RUNNING", incidents=[f"t-0 {SECRET}"])
    assert "t-0" in str(world.events.states)
    assert SECRET not in str(world.events.states) + caplog.text
