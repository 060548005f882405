"""At its end a source task reports what it has not committed, and what may still be written."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.protocol.produce import Produce
from tests.fakes.source_task import SourceTaskWorld
from tests.fakes.target_cluster import lost


@pytest.mark.parametrize("end", ["in_time", "slow", "away", "request_lost"])
async def test_a_target_that_goes_away_before_the_last_commit_is_told(
    monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    world = SourceTaskWorld()
    world.source.topic("orders")
    world.target.topic("A.orders")
    world.patch(monkeypatch, pace_s=60.0)  # only at its end
    world.source.put("orders", (b"k", b"a"))
    config = {"emit.offset-syncs.enabled": "false"}
    assigned = [TaskPartition("orders", 0, "A.orders")]

    def lose(_request: Produce) -> int:
        if end == "request_lost":
            raise lost()
        return 0

    async with world.running(world.spec_of(assigned, config, commit_interval_ms=60_000)):
        await world.until(lambda: world.target.records("A.orders") != [])
        world.target.away = end == "away"
        world.target.producers.before = lose
        # Nothing else is under way: the commit may take the time of acknowledgements, too.
        world.target.producers.delay = lambda: 0.8 if end == "slow" else 0.0
        await world.finish()
    in_time = end in {"in_time", "slow"}
    assert (world.link.committed, world.target.records("connect-offsets") == []) == (in_time, not in_time)
    # Another task may have its partitions at once only if nothing is under way. To who is away nothing has been sent.
    assert world.link.settled == (end != "request_lost")
