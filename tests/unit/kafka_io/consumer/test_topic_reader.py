"""Internal topics read from a cluster in memory: the log line names the missing right and the cluster."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.connectors.rights import MissingRight
from mirror_connect.spark_jobs.mapping import offset_ranges_reader
from tests.fakes.whole_cluster import FakeBroker, FakeClusters

RANGES = "mm2-offset-runs.A.internal"


async def test_ranges_that_may_not_be_read_are_a_matter_of_the_targets_user(monkeypatch: pytest.MonkeyPatch) -> None:
    target, notices = FakeBroker(), list[str]()
    target.topic(RANGES).errors = [29] * 1000
    monkeypatch.setattr(offset_ranges_reader, "Cluster", FakeClusters({"b": target}))
    monkeypatch.setattr(offset_ranges_reader, "_topics", {})
    properties = {"bootstrap.servers": "b", "retry.backoff.ms": "2", "fetch.max.wait.ms": "10"}
    async with asyncio.timeout(30):
        with pytest.raises(MissingRight, match=f"grant READ on topic {RANGES} to the target user$"):
            await offset_ranges_reader.read_newest(properties, "client", RANGES, set(), notices.append)
    assert notices == [
        f"Reading topics: target partition {RANGES}-0 can't be read: not authorized; "
        f"grant READ on topic {RANGES} to the target user"
    ]
