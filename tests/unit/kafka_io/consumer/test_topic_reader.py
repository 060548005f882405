"""Internal topics read from a cluster in memory: what is told when that isn't allowed, and of which cluster."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.connectors.rights import MissingRight
from mirror_connect.spark_jobs.mapping import offset_runs_reader
from tests.fakes.whole_cluster import FakeBroker, FakeClusters

RUNS = "mm2-offset-runs.A.internal"


async def test_runs_that_may_not_be_read_are_a_matter_of_the_targets_user(monkeypatch: pytest.MonkeyPatch) -> None:
    target, notices = FakeBroker(), list[str]()
    target.topic(RUNS).errors = [29] * 1000
    monkeypatch.setattr(offset_runs_reader, "Cluster", FakeClusters({"b": target}))
    properties = {"bootstrap.servers": "b", "retry.backoff.ms": "2", "fetch.max.wait.ms": "10"}
    async with asyncio.timeout(30):
        with pytest.raises(MissingRight, match=f"grant READ on topic {RUNS} to the target user$"):
            await offset_runs_reader.read_newest(properties, "client", RUNS, set(), notices.append)
    assert notices == [
        f"Reading topics: target partition {RUNS}-0 may not be read: grant READ on topic {RUNS} to the target user"
    ]
