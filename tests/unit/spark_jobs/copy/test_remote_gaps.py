"""Whether offsets between our batches on the target are records of somebody else, or markers of transactions."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.spark_jobs.copy.remote_gaps import RemoteGaps
from tests.fakes.encoded_batches import Plain, encode
from tests.fakes.source_cluster import FakeSource

COPIED = TaskPartition("orders", 0, "A.orders")
CONTROL, TRANSACTIONAL = 0x20, 0x10
DENIED = 29


class Target:
    """A target partition of batches of ten records each, or of markers."""

    def __init__(self, *kinds: str) -> None:
        self.told: list[tuple[TaskPartition, int, int]] = []
        self.cluster = FakeSource()
        log = self.cluster.log("A.orders")
        for kind in kinds:
            count, at = (1, CONTROL | TRANSACTIONAL) if kind == "marker" else (10, 0)
            records = [Plain(log.end + n, 0, None, b"", ()) for n in range(count)]
            log.batches.append((log.end, count, encode(records, 0, base=log.end, attributes=at)))
        self.gaps = RemoteGaps(
            cast("Cluster", self.cluster), lambda partition, offset, count: self.told.append((partition, offset, count))
        )

    async def look(self, offset: int, count: int) -> None:
        await self.cluster.refresh({"A.orders"})
        self.gaps.found(COPIED, offset, count)
        for _ in range(100):
            await asyncio.sleep(0.001)
            if self.told:
                break
        await self.gaps.close()


@pytest.mark.parametrize(
    ("kinds", "gap", "told"),
    [
        pytest.param(("ours", "marker", "ours"), (10, 1), [], id="a_marker"),
        pytest.param(("ours", "marker", "marker", "ours"), (10, 2), [], id="two_markers"),
        pytest.param(("ours", "theirs", "ours"), (10, 10), [(COPIED, 10, 10)], id="records"),
        pytest.param(("ours", "marker", "theirs", "ours"), (10, 11), [(COPIED, 11, 10)], id="records_behind_a_marker"),
        pytest.param(
            ("ours", "theirs", "marker", "ours"), (10, 11), [(COPIED, 10, 11)], id="records_with_their_marker"
        ),
    ],
)
async def test_markers_are_nobodys_records(
    kinds: tuple[str, ...], gap: tuple[int, int], told: list[tuple[TaskPartition, int, int]]
) -> None:
    target = Target(*kinds)
    await target.look(*gap)
    assert target.told == told


@pytest.mark.parametrize(
    ("count", "told"),
    [
        pytest.param(1, [], id="one_offset_may_be_a_marker"),
        pytest.param(2, [(COPIED, 10, 2)], id="several_are_rather_records"),
    ],
)
async def test_where_the_topic_cant_be_read_the_number_of_offsets_decides(
    count: int, told: list[tuple[TaskPartition, int, int]]
) -> None:
    target = Target("ours", "theirs")
    target.cluster.logs["A.orders", 0].errors = [DENIED]
    await target.look(10, count)
    assert target.told == told


async def test_of_many_gaps_one_is_looked_at() -> None:
    target = Target("ours", "marker", "ours")
    await target.cluster.refresh({"A.orders"})
    for _ in range(100):
        target.gaps.found(COPIED, 10, 1)
        await asyncio.sleep(0)
    await target.gaps.close()
    assert len(target.cluster.fetches) == 1
