"""Whether a source task has committed all that was acknowledged is told at its end, and not taken for granted."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.job_contract import TaskPartition
from tests.fakes.source_task import SourceTaskWorld


@pytest.mark.parametrize("away", [False, True])
async def test_a_target_that_goes_away_before_the_last_commit_is_told(
    monkeypatch: pytest.MonkeyPatch, away: bool
) -> None:
    world = SourceTaskWorld()
    world.source.topic("orders")
    world.target.topic("A.orders")
    world.patch(monkeypatch, pace_s=60.0)  # only at its end
    world.source.put("orders", (b"k", b"a"))
    config = {"emit.offset-syncs.enabled": "false"}
    assigned = [TaskPartition("orders", 0, "A.orders")]
    async with world.running(world.spec_of(assigned, config, commit_interval_ms=60_000)):
        await world.until(lambda: world.target.records("A.orders") != [])
        world.target.away = away
        await world.finish()
    assert (world.link.committed, world.target.records("connect-offsets") == []) == (not away, away)
