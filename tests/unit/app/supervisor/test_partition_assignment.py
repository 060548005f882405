"""No partition is ever owned by two runs, and none is forgotten."""

from __future__ import annotations

import random
from collections.abc import Collection

import pytest

from mirror_connect.app.supervisor import partition_assignment
from mirror_connect.app.supervisor.partition_assignment import LANDING_S, Landing
from mirror_connect.app.supervisor.task_run import Partitions, Phase, TaskRun
from mirror_connect.connectors.task_protocol import EPOCH_ENDED, FAILED, FINISHED, RUNNING, TaskId, TaskReport

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def run(task: int, *wanted: tuple[str, int], attempt: str | None = "a") -> TaskRun:
    made = TaskRun(TaskId("c", task), {}, frozenset(wanted), since=0.0)
    if attempt is not None:
        made.begin_attempt(attempt, 0.0)
    return made


def reassign(runs: list[TaskRun], landing: Landing | None = None) -> None:
    partition_assignment.reassign(runs, landing or Landing(), now=0.0)


def test_free_partitions_are_granted_at_once() -> None:
    one, two = run(0, T0), run(1, T1)
    reassign([one, two])
    assert (one.assigned, two.assigned) == ({T0}, {T1})


def test_a_moving_partition_is_revoked_and_not_yet_granted() -> None:
    one, two = run(0, T0, T1), run(1, T2)
    reassign([one, two])
    one.wanted, two.wanted = frozenset({T0}), frozenset({T1, T2})
    reassign([one, two])
    assert (one.assigned, two.assigned) == ({T0}, {T2})


def test_a_moving_partition_is_granted_when_its_drain_is_confirmed() -> None:
    one, two = run(0, T0, T1), run(1, T2)
    reassign([one, two])
    one.wanted, two.wanted = frozenset({T0}), frozenset({T1, T2})
    reassign([one, two])
    assert one.confirm(one.version)
    reassign([one, two])
    assert two.assigned == {T1, T2}


def test_a_confirmation_of_an_older_version_frees_nothing_newer() -> None:
    one, two = run(0, T0, T1), run(1)
    reassign([one, two])
    older = one.version
    one.wanted, two.wanted = frozenset({T0}), frozenset({T1})
    reassign([one, two])
    one.confirm(older)
    reassign([one, two])
    assert two.assigned == frozenset()


def test_a_finishing_run_holds_its_partitions_until_it_has_ended() -> None:
    old = run(0, T0)
    reassign([old])
    old.ask_to_finish(1.0)
    new = run(1, T0)
    reassign([old, new])
    assigned_while_finishing = new.assigned
    old.end()
    reassign([old, new])
    assert (assigned_while_finishing, new.assigned) == (frozenset(), {T0})


def test_a_run_without_a_process_gives_up_a_partition_at_once() -> None:
    waiting, other = run(0, T0, T1, attempt=None), run(1)
    reassign([waiting, other])
    waiting.wanted, other.wanted = frozenset({T0}), frozenset({T1})
    reassign([waiting, other])
    assert (waiting.assigned, other.assigned) == ({T0}, {T1})


def test_a_new_attempt_holds_only_the_newest_grant() -> None:
    one = run(0, T0, T1)
    reassign([one])
    one.wanted = frozenset({T0})
    reassign([one])
    one.begin_attempt("b", 1.0)
    assert one.owned == {T0}


def test_the_end_of_an_epoch_frees_what_was_taken_away() -> None:
    one = run(0, T0, T1)
    reassign([one])
    one.wanted = frozenset({T0})
    reassign([one])
    one.end_attempt(1.0)
    assert (one.owned, one.phase, one.attempt) == ({T0}, Phase.WAITING, None)


def test_a_confirmation_of_what_never_was_keeps_the_newest_grant() -> None:
    one = run(0, T0)
    reassign([one])
    one.confirm(99)
    assert one.assigned == {T0}


# What may still be under way.


def reported(one: TaskRun, state: str, *, settled: bool) -> None:
    one.report = TaskReport("a", 1, state, settled=settled)


def test_what_ended_unsettled_keeps_its_partitions_from_other_tasks_until_its_requests_cannot_land_any_more() -> None:
    landing = Landing()
    old = run(0, T0, T1)
    reassign([old])
    reported(old, FINISHED, settled=False)
    old.end()
    landing.take_over(old, now=0.0)
    same, other = run(0, T0), run(1, T1)
    reassign([same, other], landing)
    before = (same.assigned, other.assigned)
    freed = (landing.over(LANDING_S - 0.1), landing.over(LANDING_S), landing.over(LANDING_S + 0.1))
    reassign([same, other], landing)
    # The task itself is fenced by its own epoch: it goes on at once.
    assert (before, freed) == (({T0}, frozenset()), (set(), {"c"}, set()))
    assert other.assigned == {T1}


@pytest.mark.parametrize(
    ("before", "now", "waits"), [(True, True, False), (True, False, True), (False, True, True), (False, False, True)]
)
def test_what_a_task_left_is_in_its_own_way_unless_both_processes_write_by_the_transactional_id(
    before: bool, now: bool, waits: bool
) -> None:
    landing = Landing()
    one = run(0, T0, T1)
    reassign([one])
    one.fenceable = before
    reported(one, RUNNING, settled=True)
    one.begin_attempt("b", now=0.0)
    reassign([one], landing)
    one.fenceable = now
    in_the_way = [landing.in_the_way(one, [partition]) for partition in (T0, ("t", 7))]
    landing.over(LANDING_S)
    # Another run of the task has the partitions all the same; it is not told where to begin.
    assert (in_the_way, landing.in_the_way(one, [T0]), one.assigned) == ([waits, False], False, {T0, T1})


def test_what_two_runs_of_a_task_left_is_held_for_the_later_one() -> None:
    landing = Landing()
    for now, left in ((0.0, frozenset({T0})), (10.0, frozenset({T0, T1}))):
        ended = run(0)
        ended.left = left
        landing.take_over(ended, now)
    landing.over(LANDING_S + 5.0)
    assert (landing.withheld_from(TaskId("c", 1)), landing.withheld_from(TaskId("d", 1))) == ({T0, T1}, frozenset())


@pytest.mark.parametrize(
    ("state", "settled", "left"),
    [
        pytest.param(FINISHED, True, frozenset(), id="acknowledged_what_it_sent"),
        pytest.param(EPOCH_ENDED, True, frozenset(), id="acknowledged_what_it_sent_at_its_epochs_end"),
        pytest.param(FINISHED, False, {T0}, id="told_to_finish_before_an_answer_came"),
        pytest.param(FAILED, False, {T0}, id="failed_before_an_answer_came"),
        pytest.param(RUNNING, True, {T0}, id="died_without_a_word"),
    ],
)
def test_only_the_last_word_of_a_task_says_that_nothing_is_under_way(
    state: str, settled: bool, left: Collection[tuple[str, int]]
) -> None:
    one = run(0, T0)
    reassign([one])
    reported(one, state, settled=settled)
    assert one.unsettled == left


def test_who_never_had_a_lease_left_nothing() -> None:
    one = run(0, T0)
    reassign([one])
    assert one.unsettled == frozenset()


@pytest.mark.parametrize("seed", range(20))
def test_whatever_happens_no_partition_is_held_twice_and_all_settle(seed: int) -> None:
    dice = random.Random(seed)
    partitions = [("t", number) for number in range(8)]
    runs = [run(task, attempt=None) for task in range(3)]
    for step in range(200):
        deal = {partition: dice.randrange(3) for partition in partitions}
        each = dice.choice(runs)
        match dice.randrange(5):
            case 0:
                for number, one in enumerate(runs):
                    one.wanted = frozenset(p for p, owner in deal.items() if owner == number)
            case 1:
                each.begin_attempt(f"attempt {step}", 0.0)
            case 2:
                each.confirm(each.version)
            case 3:
                each.end_attempt(0.0)
            case 4:
                each.confirm(dice.randint(1, each.version))
        reassign(runs)
        _owned_once(runs)
    for _ in range(2):
        for one in runs:
            one.confirm(one.version)
        reassign(runs)
    assert [one.assigned for one in runs] == [one.wanted for one in runs]


def _owned_once(runs: list[TaskRun]) -> None:
    owned: Partitions = frozenset()
    for one in runs:
        assert not owned & one.owned
        owned |= one.owned
