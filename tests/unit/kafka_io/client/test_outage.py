"""What a task's status says of a cluster or broker that doesn't answer."""

from __future__ import annotations

import itertools

import pytest

from mirror_connect.kafka_io.client import outage
from mirror_connect.kafka_io.client.outage import REASON_S, SHOWN_AFTER_S, Outage, cluster_away

BEGUN = 1_700_000_000.0


class Clock:
    """Seconds since 1970 that a test moves."""

    def __init__(self) -> None:
        self.now = BEGUN

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(outage, "_begun", {})
    return Clock()


def test_a_line_says_what_since_when_and_why(clock: Clock) -> None:
    away = Outage("The source cluster can't be reached", "run", clock)
    away.lasts("Connection refused")
    clock.now += SHOWN_AFTER_S
    assert away.line == (
        "The source cluster can't be reached since 2023-11-14 22:13:20 UTC: Connection refused; "
        "it is tried again until it answers"
    )


def test_a_moment_is_no_line(clock: Clock) -> None:
    away = Outage("It is away", "run", clock)
    away.lasts("Connection refused")
    assert away.line == ""


def test_what_answers_again_has_no_line(clock: Clock) -> None:
    away = Outage("It is away", "run", clock)
    away.lasts("Connection refused")
    clock.now += SHOWN_AFTER_S
    away.over()
    assert away.line == ""


def test_the_line_stays_the_same_while_nothing_changes(clock: Clock) -> None:
    away = Outage("It is away", "run", clock)
    lines = set()
    for _ in range(100):
        away.lasts("Connection refused")
        clock.now += SHOWN_AFTER_S
        lines.add(away.line)
    assert len(lines) == 1


def test_reasons_that_alternate_change_the_line_twice_a_minute_at_most(clock: Clock) -> None:
    away = Outage("It is away", "run", clock)
    lines = []
    for number in range(60):
        away.lasts(("no connection", "no answer")[number % 2])
        clock.now += 1.0
        lines.append(away.line)
    changes = sum(one != other for one, other in itertools.pairwise(lines[2:]))
    assert changes <= 60 / REASON_S


def test_another_reason_is_told_in_the_end(clock: Clock) -> None:
    away = Outage("It is away", "run", clock)
    away.lasts("Connection refused")
    clock.now += REASON_S
    away.lasts("the name can't be resolved")
    assert ": the name can't be resolved; " in away.line


def test_the_next_epoch_in_this_process_knows_since_when(clock: Clock) -> None:
    for seconds in (0, 600):
        clock.now = BEGUN + seconds
        away = Outage("It is away", "run", clock)
        away.lasts("Connection refused")
    clock.now += SHOWN_AFTER_S
    assert " since 2023-11-14 22:13:20 UTC: " in away.line


def test_another_run_has_its_own_time(clock: Clock) -> None:
    Outage("It is away", "run", clock).lasts("Connection refused")
    clock.now += 3_600
    away = Outage("It is away", "another", clock)
    away.lasts("Connection refused")
    clock.now += SHOWN_AFTER_S
    assert " since 2023-11-14 23:13:20 UTC: " in away.line


def test_a_cluster_is_named_by_its_bootstrap_servers(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outage, "SHOWN_AFTER_S", 0.0)
    away = cluster_away("source cluster A", "a:9092,b:9092")
    away.lasts("Connection refused")
    assert away.line.startswith("The source cluster A (bootstrap.servers a:9092,b:9092) can't be reached since ")
