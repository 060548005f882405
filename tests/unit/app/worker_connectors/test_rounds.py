"""What rounds that fail say of it: since when a cluster is away, in the words of the tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from mirror_connect.app.worker_connectors import rounds
from mirror_connect.app.worker_connectors.rounds import Rounds
from mirror_connect.connectors.errors import ClusterUnreachable
from tests.fakes.part_host import FakeHost

AWAY = "The source cluster A at a:9092 can't be reached: Connection refused"
SINCE = "The source cluster A at a:9092 can't be reached since 1970-01-01 00:16:{:02} UTC: Connection refused"


@dataclass
class Round:
    troubles: Sequence[str] = ()


async def said(monkeypatch: pytest.MonkeyPatch, *answers: Round | Exception) -> list[str | None]:
    """What a status shows after these rounds, which are a second apart; the first one is at 1,000 s."""
    monkeypatch.setattr(rounds, "RETRY_S", (0.001,))
    host, found = FakeHost(), iter(answers)
    now = 999.0

    def look() -> Round:
        nonlocal now
        now += 1.0
        answer = next(found, Round(["the end"]))
        if isinstance(answer, Exception):
            raise answer
        return answer

    going = Rounds("c", host, look, lambda _: None, 0.001, clock=lambda: now)
    going.start()
    await host.until(lambda heard: ("troubled", "the end") in heard)
    await going.stop()
    return [each[1] for each in host.heard if each[0] == "troubled" and each[1] != "the end"]


async def test_a_cluster_that_stays_away_is_said_to_be_so_since_it_was_noticed_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert await said(monkeypatch, *[ClusterUnreachable(AWAY)] * 3) == [SINCE.format(40)]


async def test_a_cluster_that_is_away_again_is_so_since_then(monkeypatch: pytest.MonkeyPatch) -> None:
    away = ClusterUnreachable(AWAY)
    assert await said(monkeypatch, away, Round(), away) == [SINCE.format(40), None, SINCE.format(42)]


async def test_another_reason_does_not_change_since_when(monkeypatch: pytest.MonkeyPatch) -> None:
    other = AWAY.replace("Connection refused", "no answer")
    told = await said(monkeypatch, ClusterUnreachable(AWAY), ClusterUnreachable(other))
    assert told == [SINCE.format(40), SINCE.format(40).replace("Connection refused", "no answer")]


async def test_each_of_several_troubles_has_its_own_time(monkeypatch: pytest.MonkeyPatch) -> None:
    configs, acls = "configs are not synced: B at b:1 does not answer (configs)", "ACLs are not synced: no right"
    told = await said(monkeypatch, Round([AWAY]), Round([AWAY, configs, acls]))
    assert told[1] == f"{SINCE.format(40)}; {configs.replace(' (', ' since 1970-01-01 00:16:41 UTC (')}; {acls}"
