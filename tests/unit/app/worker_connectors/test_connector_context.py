"""A connector's way to the herder: joined problems, hidden secrets, and nothing once another start counts."""

from __future__ import annotations

from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.verified_records import VerifiedRecords
from tests.fakes.connector_context import FakeContext


def lines(*texts: str) -> list[Problem]:
    return [Problem("topics", ProblemCode.TOPIC_NOT_COPIED, text) for text in texts]


def test_problems_of_several_sources_are_one_line_in_the_order_of_the_sources() -> None:
    context = FakeContext()
    first, second = context.source_of_problems(), context.source_of_problems()
    second(lines("no right"))
    first(lines("no answer"))
    second([])
    first([])
    shown = ["no right", "no answer; no right", "no answer", None]
    assert context.heard == [("problem", line) for line in shown]


def test_a_problem_that_lasts_is_reported_once() -> None:
    context = FakeContext()
    report = context.source_of_problems()
    report([])
    report(lines("no answer"))
    report(lines("no answer"))
    assert context.heard == [("problem", "no answer")]


def test_secrets_are_hidden_in_errors_and_problems() -> None:
    context = FakeContext()
    context.secrets = frozenset({"hunter2-hunter2"})
    context.source_of_problems()(lines("refused hunter2-hunter2"))
    context.raise_error("refused hunter2-hunter2")
    assert len(context.heard) == 2
    assert "hunter2" not in str(context.heard)


def test_a_start_that_was_verified_tells_once_that_this_has_ended() -> None:
    context = FakeContext()
    context.verified(VerifiedRecords(5))
    context.close()
    context.close()
    context.verified(VerifiedRecords(6))
    assert context.verifications == [VerifiedRecords(5), None]


def test_one_that_was_not_verified_tells_nothing_of_it() -> None:
    context = FakeContext()
    context.close()
    assert context.verifications == []


def test_nothing_of_a_closed_context_gets_through() -> None:
    context = FakeContext()
    report = context.source_of_problems()
    context.close()
    context.started()
    context.raise_error("late")
    context.request_task_reconfiguration([])
    report(lines("late"))
    assert (context.closed, context.heard) == (True, [])
