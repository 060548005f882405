"""Partitions that move between the tasks of one connector, in simulated time: kills, pauses, cut and late networks.

A broker fences by transactional id, and each task has its own. So it would write what one task has left on its way behind
the first batch of the next owner; only the worker's assignments hold that off. Membership, Supervisor and SourceTask are the
product's (landing_tasks.py); brokers, network, source, Spark and time are a model. A failed schedule is printed by
hypothesis, smaller than it was found. `MODEL_SEED` chooses the schedules, `MODEL_SCHEDULES` how many.

The last tests put faults back, or take a protection away, and show that such schedules find it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

import pytest

from mirror_connect.app.supervisor import partition_assignment
from mirror_connect.app.supervisor.partition_assignment import Landing
from mirror_connect.app.supervisor.task_run import LAST_WORDS, Partitions, TaskRun
from mirror_connect.app.supervisor.task_run import Phase as RunPhase
from mirror_connect.app.supervisor.task_runs import TaskRuns
from mirror_connect.kafka_io.producer.batch_producer import BatchProducer
from mirror_connect.kafka_io.producer.producer_identity import ProducerIdentity
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch, TargetPartition
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerIdResponse
from mirror_connect.spark_jobs.copy.source_offsets_writer import SourceOffsetsWriter
from tests.models.fence_broker import TRANSACTIONAL_ID_DENIED
from tests.models.landing_life import live
from tests.models.landing_tasks import TASKS, simulated
from tests.models.watch import BrokenPromiseError
from tests.models.worker_life import Incident, Schedule
from tests.models.worker_schedules import (
    FAULTS_SEED,
    SCHEDULES,
    Incidents,
    Live,
    explore,
    in_simulated_time,
    look_for_a_fault,
)

FAULTS_SCHEDULES = 1_000


@dataclass(frozen=True)
class Trouble(Incidents):
    kinds: tuple[str, ...] = (
        *("move",) * 4,
        "grow",
        "config",
        "late",
        "late",
        "pause",
        "pause",
        "cut",
        "deaf",
        "kill",
        "kill",
        "epoch",
        "place",
        "place",
        "restart",
        "spark",
        "forget",
    )
    whom: tuple[str, ...] = ("machine", "worker", "task", "task", "task")
    at: tuple[str, ...] = ("now", "now", "before batch", "behind batch", "behind report", "behind epoch")
    seconds: tuple[float, ...] = (1.5, 4.0, 11.0, 14.0, 28.0)
    waits: tuple[float, ...] = (0.0, 0.0, 0.3, 1.0, 2.5, 6.0, 14.0)
    tasks: tuple[int, ...] = tuple(range(len(TASKS)))
    numbers: tuple[int, ...] = tuple(range(9))
    most: int = 8


@pytest.fixture(autouse=True)
def _in_simulated_time() -> Iterator[None]:
    with in_simulated_time(), simulated():
        yield


def without_rights(schedule: Schedule) -> None:
    """A life in which nobody may use transactional ids."""
    live(schedule, fences=False)


# Two tasks that swap their partitions, and all else meets the first one's process: most of the faults below are found by
# such schedules in some tens, and by the others in some hundreds.
SWAPS = Trouble(
    ("move", "move", "late", "late", "kill", "config", "restart", "spark", "epoch", "pause"),
    ("task",),
    ("now",),
    (4.0, 14.0, 28.0),
    (0.0, 0.3, 1.0),
    tasks=(0,),
    numbers=(1, 4),
    fewest=4,
)


# The right to transactional ids is revoked and given back around what ends a process.
RIGHTS = Trouble(
    ("move", "late", "late", "kill", "kill", "restart", "epoch", "pause", "deny", "deny", "allow", "allow"),
    ("task",),
    ("now",),
    (4.0, 14.0, 28.0),
    (0.0, 0.3, 1.0, 2.5),
    tasks=(0,),
    numbers=(1, 4),
    fewest=4,
)


# Tasks move into the process that light tasks share, and out of it, while all else meets them.
PLACES = Trouble(
    (*("place",) * 6, "move", "move", "late", "kill", "kill", "config", "restart", "spark", "epoch", "pause"),
    ("task",),
    ("now", "now", "behind report"),
    (4.0, 14.0, 28.0),
    (0.0, 0.0, 0.3, 1.0, 2.5),
    tasks=(0, 1),
    numbers=(1, 4),
    fewest=4,
)


def test_what_a_former_producer_id_has_sent_is_waited_for_where_nothing_fences_it() -> None:
    """Found by chance: a sequence was refused, the task began anew with another id, and all was acknowledged then."""
    incidents = (
        Incident(0.0, "move", "task", "now", 4.0, 0, 1),
        Incident(1.0, "late", "task", "now", 14.0, 0, 1),
        Incident(1.0, "late", "task", "now", 14.0, 0, 1),
        Incident(0.3, "epoch", "task", "now", 4.0, 0, 1),
    )
    without_rights(Schedule(incidents, (1.0,), 362))


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("workers", "trouble", "life"),
    [
        pytest.param(1, PLACES, live, id="tasks_share_a_process"),
        pytest.param(1, PLACES, without_rights, id="tasks_share_a_process_without_rights"),
        pytest.param(1, Trouble(), live, id="requests_arrive_whenever"),
        pytest.param(1, SWAPS, live, id="two_tasks_swap"),
        pytest.param(1, SWAPS, without_rights, id="without_the_right_to_transactional_ids"),
        pytest.param(1, RIGHTS, live, id="rights_to_transactional_ids_come_and_go"),
        pytest.param(2, Trouble(), live, id="workers_change"),
    ],
)
def test_no_task_writes_behind_the_first_write_of_a_partitions_next_owner_and_all_goes_on(
    workers: int, trouble: Trouble, life: Live
) -> None:
    explore(life, trouble.schedules(workers), SCHEDULES // 6)


# Where the right is given back before the process dies that has lost it, the next one has a fence again.
RIGHT_LOST = tuple(
    Incident(wait, kind, "task", "now", 14.0)
    for wait, kind in ((1.0, "deny"), (2.5, "allow"), (2.5, "late"), (1.0, "kill"))
)


@pytest.mark.parametrize("net", range(3))
def test_what_a_process_wrote_without_its_fence_does_not_land_behind_a_successor_that_has_the_right_again(
    net: int,
) -> None:
    live(Schedule(RIGHT_LOST, (1.0,), net))


# Faults put back.


def nothing_is_withheld() -> AbstractContextManager[Any]:
    """As it was: who gets a partition goes on at once, whatever its former owner has left on its way."""
    return mock.patch.object(Landing, "withheld_from", return_value=frozenset())


def a_hold_that_is_short() -> AbstractContextManager[Any]:
    """Requests that come later than that are written behind the new owner's."""
    return mock.patch.object(partition_assignment, "LANDING_S", 5.0)


def any_last_word_is_believed() -> AbstractContextManager[Any]:
    """A task that has said how it ended has left nothing, whether or not it says so."""

    def unsettled(run: TaskRun) -> Partitions:
        return frozenset() if run.report is None or run.report.state in LAST_WORDS else run.owned

    return mock.patch.object(TaskRun, "unsettled", property(unsettled))


def every_end_is_settled() -> AbstractContextManager[Any]:
    """A task says at its end that nothing is under way, and does not look."""
    return mock.patch.object(BatchProducer, "settled", True)


def the_killed_leave_nothing() -> AbstractContextManager[Any]:
    """What counts of a run that ends is its last word; without one nothing does."""
    end = TaskRun.end

    def ended(run: TaskRun) -> None:
        left = run.left
        end(run)
        if run.report is None or run.report.state not in LAST_WORDS:
            run.left = left

    return mock.patch.object(TaskRun, "end", ended)


def the_replaced_leave_nothing() -> AbstractContextManager[Any]:
    """A process that Spark replaces with another one of the same run has left nothing."""
    drop = TaskRun._drop_attempt

    def dropped(run: TaskRun, now: float) -> None:
        left = run.left
        drop(run, now)
        run.left = left

    return mock.patch.object(TaskRun, "_drop_attempt", dropped)


def granted_before_it_is_given_up() -> AbstractContextManager[Any]:
    """A run holds what it is assigned now; that its process has not confirmed the loss of the rest does not matter."""
    owned = property(lambda run: frozenset() if run.phase is RunPhase.ENDED else run.assigned)
    return mock.patch.object(TaskRun, "owned", owned)


def given_up_with_requests_under_way() -> AbstractContextManager[Any]:
    """As it was: a task gives a partition up when it has settled, and doesn't wait for what was lost."""

    async def release(self: BatchProducer, targets: Iterable[TargetPartition], seconds: float) -> None:
        waited = list(targets)
        await self.settle(waited, seconds)
        for target in waited:
            target.given_up = True
            target.abandon()

    return mock.patch.object(BatchProducer, "release", release)


def a_commit_that_is_not_withdrawn() -> AbstractContextManager[Any]:
    """As it was: positions that were not committed in time are left under way when their partition is given up."""
    return mock.patch.object(SourceOffsetsWriter, "withdraw", mock.AsyncMock())


def a_hold_against_the_task_itself() -> AbstractContextManager[Any]:
    """The next run of a task waits, too, although the broker fences off what the one before has left."""
    return mock.patch.object(
        Landing, "withheld_from", lambda self, _: frozenset().union(*(left for left in self._until.values()))
    )


def a_fence_that_nobody_is_told_of() -> AbstractContextManager[Any]:
    """A task that has the right to its transactional id says that it has not."""
    return mock.patch.object(BatchProducer, "fenceable", False)


def a_hold_whose_end_nobody_hears_of() -> AbstractContextManager[Any]:
    """What can't land any more is free, and is assigned when something else happens."""
    over = Landing.over

    def silent(self: Landing, now: float) -> set[str]:
        over(self, now)
        return set()

    return mock.patch.object(Landing, "over", silent)


@contextmanager
def what_the_dead_had_not_given_up() -> Iterator[None]:
    """As it was: what a process had not given up when it died is assigned when something else happens."""
    begin, reassign = TaskRun.begin_attempt, TaskRuns.reassign
    begun: list[TaskRun] = []

    def beginning(run: TaskRun, attempt: str, now: float, *, shared: bool) -> None:
        begin(run, attempt, now, shared=shared)
        begun.append(run)

    def once_less(self: TaskRuns, connector: str) -> None:
        if begun:
            begun.clear()
        else:
            reassign(self, connector)

    with mock.patch.object(TaskRun, "begin_attempt", beginning), mock.patch.object(TaskRuns, "reassign", once_less):
        yield


def a_move_that_nobody_is_told_of() -> AbstractContextManager[Any]:
    """A run that is to move stays where it is until its epoch ends by itself."""
    return mock.patch.object(TaskRun, "moves", False)


BEHIND = "wrote behind the first write of its successor"
STOPS = "the connector does not go on"
WAITS = "which is nobody else's"


def _swaps(*kinds: str, waits: tuple[float, ...] = (0.0, 1.0), fewest: int = 4) -> Trouble:
    """Two tasks that swap their partitions; all else meets the first one's process."""
    return Trouble(kinds, ("task",), ("now",), (14.0, 28.0), waits, tasks=(0,), numbers=(1, 4), fewest=fewest)


ENDS = _swaps("late", "config", waits=(0.0, 0.3, 1.0))
MOVES = _swaps("late", "move", waits=(0.0, 0.3, 1.0, 2.5))
SPARK = _swaps("late", "spark", "move")
KILLS = _swaps("late", "kill", "move", fewest=6)
SHARES = _swaps(*("place",) * 3, "late", "move", "config", "restart", waits=(0.0, 1.0, 2.5), fewest=6)

FAULTS: dict[Callable[[], AbstractContextManager[Any]], tuple[Trouble, str]] = {
    nothing_is_withheld: (ENDS, BEHIND),
    a_hold_that_is_short: (ENDS, BEHIND),
    any_last_word_is_believed: (ENDS, BEHIND),
    every_end_is_settled: (ENDS, BEHIND),
    the_killed_leave_nothing: (SPARK, BEHIND),
    the_replaced_leave_nothing: (KILLS, BEHIND),
    granted_before_it_is_given_up: (MOVES, BEHIND),
    given_up_with_requests_under_way: (MOVES, BEHIND),
    a_commit_that_is_not_withdrawn: (MOVES, f"position of partition .* {BEHIND}"),
    a_hold_against_the_task_itself: (_swaps("late", "restart"), WAITS),
    a_fence_that_nobody_is_told_of: (_swaps("kill", "restart"), "waits for its own past"),
    a_hold_whose_end_nobody_hears_of: (KILLS, STOPS),
    what_the_dead_had_not_given_up: (_swaps("kill", "move"), STOPS),
    a_move_that_nobody_is_told_of: (SHARES, STOPS),
}


def _met(*incidents: tuple[float, str, float, int], rate: float, net: int) -> Schedule:
    """After so many seconds, what happens to task 0, for how long, and how."""
    made = tuple(Incident(wait, kind, "task", "now", seconds, 0, number) for wait, kind, seconds, number in incidents)
    return Schedule(made, (rate,), net)


# Of faults that take some tens of schedules, one that has found them.
FOUND_BY: Final = {
    the_killed_leave_nothing: _met(
        *((1.0, "late", 14.0, 4), (1.0, "late", 28.0, 4), (1.0, "spark", 14.0, 4), (0.0, "move", 14.0, 4)),
        *((1.0, "late", 28.0, 1), (0.0, "late", 28.0, 1), (1.0, "spark", 28.0, 1), (1.0, "late", 28.0, 4)),
        rate=1.02,
        net=484,
    ),
    the_replaced_leave_nothing: _met(
        *((1.0, "late", 28.0, 1), (0.0, "kill", 28.0, 4), (1.0, "late", 28.0, 1), (1.0, "move", 28.0, 4)),
        *((1.0, "late", 28.0, 1), (0.0, "kill", 28.0, 1), (1.0, "late", 28.0, 4), (0.0, "kill", 14.0, 4)),
        rate=0.98,
        net=804,
    ),
}
# Of another one, a seed with which some ten do.
SEEDS: Final = {a_commit_that_is_not_withdrawn: 3}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_that_is_put_back_is_found(fault: Callable[[], AbstractContextManager[Any]]) -> None:
    trouble, found = FAULTS[fault]
    seed, known = SEEDS.get(fault, FAULTS_SEED), FOUND_BY.get(fault)
    with fault(), pytest.raises(BrokenPromiseError, match=found):
        look_for_a_fault(live, trouble.schedules(1), FAULTS_SCHEDULES, seed, known)


def what_no_fence_holds_off_is_passed_over() -> AbstractContextManager[Any]:
    """As it was: the next run of a task went on at once, whether or not anything fences off what the one before has left."""
    return mock.patch.object(BatchProducer, "fenceable", True)


def positions_are_told_at_once() -> AbstractContextManager[Any]:
    """As it was: who has no fence begins at once, whatever its last process has left on its way."""
    return mock.patch.object(Landing, "in_the_way", return_value=False)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("fault", "kinds", "found"),
    [
        pytest.param(
            what_no_fence_holds_off_is_passed_over, ("late", "restart"), BEHIND, id="passed_over_at_a_restart"
        ),
        pytest.param(what_no_fence_holds_off_is_passed_over, ("late", "kill"), BEHIND, id="passed_over_behind_a_kill"),
        pytest.param(positions_are_told_at_once, ("late", "kill"), BEHIND, id="told_at_once"),
        pytest.param(a_hold_against_the_task_itself, ("late", "restart"), WAITS, id="withheld_from_the_task_itself"),
    ],
)
def test_a_fault_beside_missing_rights_to_transactional_ids_is_found(
    fault: Callable[[], AbstractContextManager[Any]], kinds: tuple[str, ...], found: str
) -> None:
    with fault(), pytest.raises(BrokenPromiseError, match=found):
        look_for_a_fault(without_rights, _swaps(*kinds).schedules(1), FAULTS_SCHEDULES)


@contextmanager
def a_lost_right_is_passed_over() -> Iterator[None]:
    """As it was: who loses the right to its transactional id goes on without it, and its worker counts on the fence."""
    judge = ProducerIdentity._judge

    def judged(
        self: ProducerIdentity, answer: InitProducerIdResponse, current: ProducerIdAndEpoch | None
    ) -> ProducerIdAndEpoch | None:
        return judge(self, answer, None if answer.error == TRANSACTIONAL_ID_DENIED else current)

    with mock.patch.object(ProducerIdentity, "_judge", judged):
        yield


def test_a_lost_right_that_is_passed_over_is_found() -> None:
    with a_lost_right_is_passed_over(), pytest.raises(BrokenPromiseError, match=BEHIND):
        live(Schedule(RIGHT_LOST, (1.0,), 0))
