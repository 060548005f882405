"""What failed refreshes report: since when a cluster is unreachable, in the words of the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from mirror_connect.app.worker_connectors import scheduler
from mirror_connect.app.worker_connectors.scheduler import RefreshScheduler, problem_of
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.problems import Problem, ProblemCode
from tests.fakes.connector_context import FakeContext

WHAT, REFUSED = "The source cluster A at a:9092 can't be reached", "Connection refused"
AWAY = ClusterUnreachable(f"{WHAT}: {REFUSED}", what=WHAT, cause=REFUSED)
THE_END = Problem("end", ProblemCode.TOPIC_NOT_COPIED, "the end")
SINCE = "The source cluster A at a:9092 can't be reached since 1970-01-01 00:16:{:02} UTC: Connection refused"


@dataclass
class Round:
    problems: Sequence[Problem] = ()


async def said(
    monkeypatch: pytest.MonkeyPatch, *answers: Round | Exception, former_tasks: bool = False
) -> list[str | None]:
    """What a status shows after these rounds, which are a second apart; the first one is at 1,000 s."""
    monkeypatch.setattr(scheduler, "RETRY_S", (0.001,))
    host, found = FakeContext(former_tasks=former_tasks), iter(answers)
    now = 999.0

    def look() -> Round:
        nonlocal now
        now += 1.0
        answer = next(found, Round([THE_END]))
        if isinstance(answer, Exception):
            raise answer
        return answer

    going = RefreshScheduler(host, look, lambda _: host.request_task_reconfiguration([]), 0.001, clock=lambda: now)
    going.start()
    await host.until(lambda heard: ("problem", "the end") in heard)
    await going.stop()
    return [each[1] for each in host.heard if each[:1] == ("problem",) and each[1] != "the end"]


async def test_a_cluster_that_stays_away_is_said_to_be_so_since_it_was_noticed_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await said(monkeypatch, *[AWAY] * 3) == [SINCE.format(40)]


async def test_a_cluster_that_is_away_again_is_so_since_then(monkeypatch: pytest.MonkeyPatch) -> None:
    away = AWAY
    assert await said(monkeypatch, away, Round(), away) == [SINCE.format(40), None, SINCE.format(42)]


async def test_another_reason_does_not_change_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    other = ClusterUnreachable(f"{WHAT}: no answer", what=WHAT, cause="no answer")
    told = await said(monkeypatch, AWAY, other)
    assert told == [SINCE.format(40), SINCE.format(40).replace("Connection refused", "no answer")]


async def test_each_of_several_troubles_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = ClusterUnreachable("B does not answer (configs)", what="B does not answer", cause="configs")
    configs = problem_of(silent, "configs are not synced")
    acls = problem_of(NotAuthorized("no right"), "ACLs are not synced")
    away = problem_of(AWAY)
    told = await said(monkeypatch, Round([away]), Round([away, configs, acls]))
    not_synced = "configs are not synced: B does not answer since 1970-01-01 00:16:41 UTC: configs"
    assert told[1] == f"{SINCE.format(40)}; {not_synced}; ACLs are not synced: no right"


async def test_a_reason_of_something_else_keeps_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    told = await said(monkeypatch, Round([problem_of(AWAY, "ACLs are not synced")]))
    assert told == [f"ACLs are not synced: {SINCE.format(40)}"]


async def test_without_the_cluster_in_its_text_an_error_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await said(monkeypatch, ClusterUnreachable("no broker answers at a:1")) == ["no broker answers at a:1"]


FORMER = "its tasks still have an earlier config"


async def test_a_new_config_whose_cluster_is_away_says_that_the_tasks_are_those_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    advised = ClusterUnreachable(f"{WHAT}: {REFUSED}", what=WHAT, cause=REFUSED, advice="Look at its brokers")
    told = await said(monkeypatch, AWAY, Round(), AWAY, former_tasks=True)
    assert told == [f"{SINCE.format(40)}; {FORMER}", None, SINCE.format(42)]
    told = await said(monkeypatch, advised, former_tasks=True)
    assert told == [f"{SINCE.format(40)}; look at its brokers; {FORMER}"]


async def test_a_new_config_with_which_a_connector_fails_says_the_same() -> None:
    host = FakeContext(former_tasks=True)

    def look() -> Round:
        raise NotAuthorized("Cluster A refuses the login")

    going: RefreshScheduler[Round] = RefreshScheduler(host, look, lambda _: None, 1.0)
    going.start()
    await host.until(lambda heard: heard)
    await going.stop()
    assert host.heard == [("failed", f"Cluster A refuses the login; {FORMER}")]
