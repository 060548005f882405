"""Brokers and clusters that don't answer the fetcher: told once each, and a line of the status meanwhile."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.client import outage
from tests.fakes.fetched_copy import A0, A1, copying, until
from tests.fakes.source_cluster import FakeSource


async def test_a_broker_that_does_not_answer_is_a_line_until_it_does_and_one_that_leads_nothing_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outage, "SHOWN_AFTER_S", 0.0)
    source = FakeSource()
    source.log("a", 0, batches=1)
    other = source.log("a", 1, batches=1, leader=2)
    source.down.add(2)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        copy.fetcher.add(A1, 0)
        await until(lambda: copy.reached(A0) == 10 and bool(copy.fetcher.outages()))
        (line,) = copy.fetcher.outages()
        assert line.startswith("The source broker fake:2 can't be read from since ")
        other.leader, other.epoch = 1, 1
        await until(lambda: copy.reached(A1) == 10)
        assert copy.fetcher.outages() == []


async def test_a_broker_that_is_gone_and_back_is_told_once_each() -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 10)
        source.down.add(1)
        await until(lambda: len(copy.notices) == 1 and source.refreshes > 3)
        source.down.clear()
        log.append()
        await until(lambda: copy.reached(A0) == 20)
    assert copy.notices == [
        "source broker fake:1: Connection refused; tried again until it answers",
        "source broker fake:1: answers again",
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
    assert [notice.split(":")[0] for notice in copy.notices] == ["source cluster"] * 2
