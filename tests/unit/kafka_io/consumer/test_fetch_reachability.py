"""Brokers and clusters that don't answer the fetcher: logged once each, and shown in the status meanwhile."""

from __future__ import annotations

import pytest

from mirror_connect.connectors import problems
from mirror_connect.connectors.problems import ProblemCode
from tests.fakes.fetched_copy import A0, A1, copying, until
from tests.fakes.source_cluster import FakeSource


async def test_a_broker_that_does_not_answer_is_a_line_until_it_does_and_one_that_leads_nothing_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(problems, "SHOWN_AFTER_S", 0.0)
    source = FakeSource()
    source.log("a", 0, batches=1)
    other = source.log("a", 1, batches=1, leader=2)
    source.down.add(2)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        copy.fetcher.add(A1, 0)
        await until(lambda: copy.reached(A0) == 10 and bool(copy.fetcher.unreachable()))
        (problem,) = copy.fetcher.unreachable()
        assert problem.code is ProblemCode.BROKER_UNREACHABLE
        assert problem.line.startswith("The source broker fake:2 does not answer since ")
        other.leader, other.epoch = 1, 1
        await until(lambda: copy.reached(A1) == 10)
        assert copy.fetcher.unreachable() == []


async def test_a_broker_that_is_gone_and_back_is_told_once_each() -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    async with copying(source) as copy:
        await copy.read_to(10)
        source.down.add(1)
        await until(lambda: len(copy.notices) == 1 and source.refreshes > 3)
        source.down.clear()
        log.append()
        await until(lambda: copy.reached(A0) == 20)
    assert copy.notices == [
        "The source broker fake:1 does not answer: Connection refused; it is tried again until it answers",
        "The source broker fake:1 answers again",
    ]


async def test_an_unreachable_cluster_is_told_once_and_awaited() -> None:
    source = FakeSource()
    source.log("a", batches=1)
    source.unreachable = True
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: source.refreshes > 3)
        source.unreachable = False
        await until(lambda: copy.reached(A0) == 10)
    assert [notice.split(" (")[0] for notice in copy.notices] == [
        "The source cluster",
        "The source cluster answers again",
    ]
