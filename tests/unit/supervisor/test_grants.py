"""No partition is ever held by two runs, and none is forgotten."""

from __future__ import annotations

import random

import pytest

from mirror_connect.app.supervisor.grants import regrant
from mirror_connect.app.supervisor.run import Partitions, Phase, Run
from mirror_connect.connectors.job_contract import TaskId

T0, T1, T2 = ("t", 0), ("t", 1), ("t", 2)


def run(task: int, *wanted: tuple[str, int], attempt: str | None = "a") -> Run:
    made = Run(TaskId("c", task), {}, frozenset(wanted), since=0.0)
    if attempt is not None:
        made.begin_attempt(attempt, 0.0)
    return made


def test_free_partitions_are_granted_at_once() -> None:
    one, two = run(0, T0), run(1, T1)
    regrant([one, two])
    assert (one.granted, two.granted) == ({T0}, {T1})


def test_a_moving_partition_is_revoked_and_not_yet_granted() -> None:
    one, two = run(0, T0, T1), run(1, T2)
    regrant([one, two])
    one.wanted, two.wanted = frozenset({T0}), frozenset({T1, T2})
    regrant([one, two])
    assert (one.granted, two.granted) == ({T0}, {T2})


def test_a_moving_partition_is_granted_when_its_drain_is_confirmed() -> None:
    one, two = run(0, T0, T1), run(1, T2)
    regrant([one, two])
    one.wanted, two.wanted = frozenset({T0}), frozenset({T1, T2})
    regrant([one, two])
    assert one.confirm(one.version)
    regrant([one, two])
    assert two.granted == {T1, T2}


def test_a_confirmation_of_an_older_version_frees_nothing_newer() -> None:
    one, two = run(0, T0, T1), run(1)
    regrant([one, two])
    older = one.version
    one.wanted, two.wanted = frozenset({T0}), frozenset({T1})
    regrant([one, two])
    one.confirm(older)
    regrant([one, two])
    assert two.granted == frozenset()


def test_a_finishing_run_holds_its_partitions_until_it_has_ended() -> None:
    old = run(0, T0)
    regrant([old])
    old.ask_to_finish(1.0)
    new = run(1, T0)
    regrant([old, new])
    held_while_finishing = new.granted
    old.end()
    regrant([old, new])
    assert (held_while_finishing, new.granted) == (frozenset(), {T0})


def test_a_run_without_a_process_gives_up_a_partition_at_once() -> None:
    waiting, other = run(0, T0, T1, attempt=None), run(1)
    regrant([waiting, other])
    waiting.wanted, other.wanted = frozenset({T0}), frozenset({T1})
    regrant([waiting, other])
    assert (waiting.granted, other.granted) == ({T0}, {T1})


def test_a_new_attempt_holds_only_the_newest_grant() -> None:
    one = run(0, T0, T1)
    regrant([one])
    one.wanted = frozenset({T0})
    regrant([one])
    one.begin_attempt("b", 1.0)
    assert one.held == {T0}


def test_the_end_of_an_epoch_frees_what_was_taken_away() -> None:
    one = run(0, T0, T1)
    regrant([one])
    one.wanted = frozenset({T0})
    regrant([one])
    one.end_attempt(1.0)
    assert (one.held, one.phase, one.attempt) == ({T0}, Phase.WAITING, None)


def test_a_confirmation_of_what_never_was_keeps_the_newest_grant() -> None:
    one = run(0, T0)
    regrant([one])
    one.confirm(99)
    assert one.granted == {T0}


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
        regrant(runs)
        _held_once(runs)
    for _ in range(2):
        for one in runs:
            one.confirm(one.version)
        regrant(runs)
    assert [one.granted for one in runs] == [one.wanted for one in runs]


def _held_once(runs: list[Run]) -> None:
    held: Partitions = frozenset()
    for one in runs:
        assert not held & one.held
        held |= one.held
