"""Present problems: their beginning, and no secrets."""

from __future__ import annotations

from mirror_connect.app.metrics.shown_problem import LONGEST_LINE, PresentProblems
from mirror_connect.connectors.problems import Problem, ProblemCode

GONE = Problem("orders-0", ProblemCode.PARTITION_UNREADABLE, "It can't be read")


def test_a_problem_keeps_its_beginning_while_it_lasts() -> None:
    present = PresentProblems()
    present.replace([GONE], 0, (), 1_000)
    present.replace([GONE.because("no leader")], 3, (), 2_000, 7)
    assert [(each.since_ms, each.line, each.task) for each in present.shown] == [
        (1_000, "It can't be read: no leader", 7)
    ]
    assert present.more == 3
    present.replace([], 0, (), 3_000)
    present.replace([GONE], 0, (), 4_000)
    assert present.shown[0].since_ms == 4_000


def test_the_task_knows_better_since_when_unless_it_has_begun_anew() -> None:
    present = PresentProblems()
    earlier = Problem("a", ProblemCode.BROKER_UNREACHABLE, "away", since=1.5)
    present.replace([earlier], 0, (), 9_000)
    assert present.shown[0].since_ms == 1_500
    present.replace([Problem("a", ProblemCode.BROKER_UNREACHABLE, "away", since=8.0)], 0, (), 9_500)
    assert present.shown[0].since_ms == 1_500


def test_two_problems_of_a_subject_are_two() -> None:
    present = PresentProblems()
    present.replace([GONE, Problem("orders-0", ProblemCode.PARTITION_UNWRITABLE, "no")], 0, (), 1_000)
    assert [each.code for each in present.shown] == ["PARTITION_UNREADABLE", "PARTITION_UNWRITABLE"]


def test_secrets_are_hidden_in_subject_and_line_also_where_the_line_is_cut() -> None:
    secret = "correct-horse-battery-staple"
    long = "x" * (LONGEST_LINE - 10)
    present = PresentProblems()
    problem = Problem(f"group {secret}", ProblemCode.GROUP_UNREADABLE, long, secret)
    present.replace([problem], 0, {secret}, 1_000)
    assert present.shown[0].subject == "group [hidden]"
    assert "correct" not in present.shown[0].line
    assert len(present.shown[0].line) <= LONGEST_LINE


def test_a_secret_that_becomes_known_later_is_hidden_from_then_on() -> None:
    present = PresentProblems()
    problem = Problem("a", ProblemCode.CLUSTER_REFUSES, "login with hunter2-hunter2 refused")
    present.replace([problem], 0, (), 1_000)
    present.replace([problem], 0, {"hunter2-hunter2"}, 2_000)
    assert "hunter2" not in present.shown[0].line
    assert present.shown[0].since_ms == 1_000
