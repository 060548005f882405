"""Which tasks share a process: by their connector, by what they copy, and after a death."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from mirror_connect.app.supervisor.task_placement import (
    ALONE_S,
    DEATH_S,
    HEAVY_AFTER_S,
    HEAVY_BYTES,
    HEAVY_TOGETHER,
    LIGHT_AFTER_S,
    LIGHT_BYTES,
    MOST_SUSPECTS,
    TaskPlacement,
    statement_of,
)
from mirror_connect.app.supervisor.task_run import Phase, TaskRun
from mirror_connect.connectors.task_protocol import RUNNING, TaskId, TaskReport

A, B = TaskId("a", 0), TaskId("b", 0)
SOURCE, CHECKPOINT, HEARTBEAT = (f"Mirror{kind}Connector" for kind in ("Source", "Checkpoint", "Heartbeat"))


@dataclass
class World:
    now: float = 1000.0
    copied: dict[TaskId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.placement = TaskPlacement(lambda: self.now)

    def begin(self, task: TaskId = A, connector: str = SOURCE) -> TaskRun:
        run = TaskRun(task, {"connector.class": connector}, frozenset(), since=self.now)
        self.placement.begin(run)
        return run

    def works(self, run: TaskRun, *, shared: bool | None = None) -> TaskRun:
        """A process has it, and says RUNNING."""
        attempt = f"{run.task} {self.now}"
        run.begin_attempt(attempt, self.now, shared=run.light if shared is None else shared)
        run.phase = Phase.RUNNING
        self.copied[run.task] = 0
        return run

    def copies(self, run: TaskRun, rate: float, seconds: float, *, others: bool = True) -> None:
        """Reports each second, until the run moves."""
        for _ in range(int(seconds)):
            self.now += 1
            self.copied[run.task] += int(rate)
            counters = {"bytes": self.copied[run.task]}
            run.report = TaskReport(run.attempt or "", 1, RUNNING, counters=counters, settled=False)
            self.placement.look(run, lambda _: others)


@pytest.fixture
def world() -> World:
    return World()


def death(world: World, tasks: int, free_slots: int) -> list[bool]:
    """Which of the tasks of a shared process get their own when it dies."""
    runs = [world.works(world.begin(TaskId(f"beats-{number}", 0), HEARTBEAT)) for number in range(tasks)]
    for run in runs:
        world.placement.lost_process(run, free_slots)
    return [not run.light for run in runs]


@pytest.mark.parametrize(("tasks", "free_slots", "alone"), [(3, 9, 3), (3, 2, 2), (3, 0, 0), (20, 60, MOST_SUSPECTS)])
def test_not_all_get_their_own_process_after_a_death(world: World, tasks: int, free_slots: int, alone: int) -> None:
    assert death(world, tasks, free_slots).count(True) == alone


def test_after_the_next_death_others_get_theirs(world: World) -> None:
    first = death(world, MOST_SUSPECTS + 3, 60)
    world.now += DEATH_S + 1
    assert first == [True] * MOST_SUSPECTS + [False] * 3
    assert all(death(world, MOST_SUSPECTS + 3, 60))


@pytest.mark.parametrize(("connector", "joins"), [(HEARTBEAT, True), (SOURCE, False)])
def test_a_light_task_that_finds_no_slot_shares_again(world: World, connector: str, *, joins: bool) -> None:
    run = world.begin(connector=connector)
    run.place(light=True)
    world.works(run)
    world.placement.lost_process(run, 9)
    run.end_attempt(world.now)
    assert (world.placement.return_to_shared(run), run.light) == (joins, joins)


def test_many_that_copy_a_little_more_together_than_one_process_should_move_out(world: World) -> None:
    runs = [world.begin(TaskId(f"c{number}", 0)) for number in range(20)]
    for run in runs:
        run.place(light=True)
        world.works(run)
    for _ in range(int(3 * HEAVY_AFTER_S)):
        for run in runs:
            world.now += 1 / len(runs)
            world.copied[run.task] += int(HEAVY_BYTES * 0.9)
            counters = {"bytes": world.copied[run.task]}
            run.report = TaskReport(run.attempt or "", 1, RUNNING, counters=counters, settled=False)
            world.placement.look(run, lambda _: True)
    staying = [run for run in runs if not run.moves]
    assert 0 < len(staying) * HEAVY_BYTES * 0.9 <= HEAVY_TOGETHER


def test_a_task_with_a_users_policy_never_shares_a_process(world: World) -> None:
    config = {"connector.class": CHECKPOINT, "replication.policy.class": "python:package:Policy"}
    run = TaskRun(A, config, frozenset(), since=world.now)
    world.placement.begin(run)
    world.copies(world.works(run), 0, 3 * LIGHT_AFTER_S)
    assert not run.light


@pytest.mark.parametrize(
    ("connector", "light"),
    [(SOURCE, False), (CHECKPOINT, True), (HEARTBEAT, True), ("X", False), ("${file:f:class}", False)],
)
def test_tasks_that_write_a_few_records_of_their_own_begin_in_the_shared_process(
    world: World, connector: str, *, light: bool
) -> None:
    assert world.begin(connector=connector).light is light


def test_a_source_task_that_has_copied_little_for_a_while_moves_in(world: World) -> None:
    run = world.works(world.begin())
    world.copies(run, LIGHT_BYTES * 0.9, LIGHT_AFTER_S - 1)
    before = run.moves
    world.copies(run, LIGHT_BYTES * 0.9, 3)
    assert (before, run.moves) == (False, True)


@pytest.mark.parametrize("rate", [LIGHT_BYTES * 1.1, HEAVY_BYTES * 2])
def test_one_that_copies_more_stays(world: World, rate: float) -> None:
    run = world.works(world.begin())
    world.copies(run, rate, 5 * LIGHT_AFTER_S)
    assert not run.moves


def test_what_was_copied_first_does_not_count_for_ever(world: World) -> None:
    run = world.works(world.begin())
    world.copies(run, HEAVY_BYTES * 100, LIGHT_AFTER_S)
    world.copies(run, 0, 2 * LIGHT_AFTER_S + 2)
    assert run.moves


def test_the_only_light_task_stays_where_it_is(world: World) -> None:
    run = world.works(world.begin())
    world.copies(run, 0, 5 * LIGHT_AFTER_S, others=False)
    assert not run.moves


def test_two_light_source_tasks_move_together(world: World) -> None:
    first, second = world.works(world.begin(A)), world.works(world.begin(B))
    for _ in range(int(2 * LIGHT_AFTER_S + 5)):
        world.copies(first, 0, 1, others=False)
        world.copies(second, 0, 1, others=False)
    assert (first.moves, second.moves) == (True, True)


def test_one_that_copies_much_moves_out_and_stays_out_for_a_while(world: World) -> None:
    run = world.begin()
    run.place(light=True)
    world.works(run)
    world.copies(run, HEAVY_BYTES * 1.1, HEAVY_AFTER_S - 1)
    before = run.moves
    world.copies(run, HEAVY_BYTES * 1.1, 3)
    assert (before, run.moves) == (False, True)
    run.end_attempt(world.now)
    world.works(run)
    world.copies(run, 0, ALONE_S - LIGHT_AFTER_S)
    early = run.moves
    world.copies(run, 0, 2 * LIGHT_AFTER_S)
    assert (early, run.moves) == (False, True)


def test_a_shared_task_that_copies_a_little_more_than_a_light_one_stays(world: World) -> None:
    run = world.begin()
    run.place(light=True)
    world.works(run)
    world.copies(run, HEAVY_BYTES * 0.9, 5 * LIGHT_AFTER_S)
    assert not run.moves


@pytest.mark.parametrize("connector", [HEARTBEAT, SOURCE])
def test_when_the_shared_process_has_died_its_tasks_are_alone_for_a_while(world: World, connector: str) -> None:
    run = world.begin(connector=connector)
    run.place(light=True)
    world.works(run)
    world.placement.lost_process(run, 9)
    world.works(run, shared=True)
    assert run.moves
    following = world.begin(connector=connector)
    assert not following.light
    world.works(following)
    world.copies(following, 0, ALONE_S - LIGHT_AFTER_S)
    early = following.moves
    world.copies(following, 0, 2 * LIGHT_AFTER_S)
    assert (early, following.moves) == (False, True)


def test_the_death_of_a_process_of_its_own_moves_nothing(world: World) -> None:
    run = world.works(world.begin(connector=HEARTBEAT), shared=False)
    world.placement.lost_process(run, 9)
    assert run.light


def test_of_tasks_that_are_gone_nothing_is_kept(world: World) -> None:
    run = world.begin(connector=HEARTBEAT)
    world.works(run)
    world.placement.lost_process(run, 9)
    world.placement.keep([])
    assert world.begin(connector=HEARTBEAT).light


def test_each_attempt_is_measured_anew(world: World) -> None:
    run = world.works(world.begin())
    world.copies(run, HEAVY_BYTES, LIGHT_AFTER_S / 2)
    run.end_attempt(world.now)
    world.works(run)
    world.copies(run, 0, LIGHT_AFTER_S + 2)
    assert run.moves


def test_a_task_whose_records_spark_transforms_never_shares_a_process(world: World) -> None:
    run = TaskRun(A, {"connector.class": SOURCE, "spark.transform.sql": "SELECT * FROM records"}, frozenset(), since=0)
    world.placement.begin(run)
    assert not run.light
    world.copies(world.works(run), 0, LIGHT_AFTER_S * 3)
    assert not run.light
    assert not world.placement.return_to_shared(run)


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"connector.class": SOURCE, "spark.transform.sql": "SELECT * FROM records"}, True),
        ({"connector.class": SOURCE}, False),
        ({"connector.class": SOURCE, "spark.transform.sql": " "}, False),
        ({"connector.class": CHECKPOINT, "spark.transform.sql": "SELECT * FROM records"}, False),
    ],
)
def test_a_statement_is_one_of_a_source_connector(config: dict[str, str], found: bool) -> None:
    assert (statement_of(TaskRun(A, config, frozenset(), since=0)) is not None) is found
