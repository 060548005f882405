"""What a fetcher hands over of a source in memory, written down; some of it held back, if a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mirror_connect.kafka_io.consumer.fetcher import Fetched, Fetcher, SourcePartition
from tests.fakes.source_cluster import FakeSource

A0 = SourcePartition("a", 0)
A1 = SourcePartition("a", 1)
B0 = SourcePartition("b", 0)


@dataclass
class Copy:
    """What came, as (partition, fetch offset, next offset); `held` are those not released yet."""

    fetcher: Fetcher = None  # type: ignore[assignment]
    notices: list[str] = field(default_factory=list)
    came: list[tuple[SourcePartition, int, int]] = field(default_factory=list)
    held: list[Fetched] = field(default_factory=list)
    holds: Callable[[SourcePartition], bool] = lambda _: False

    def take(self, fetched: Fetched) -> None:
        self.came.append((fetched.partition, fetched.fetch_offset, fetched.next_offset))
        if self.holds(fetched.partition):
            self.held.append(fetched)
        else:
            fetched.release()

    def reached(self, partition: SourcePartition) -> int:
        return max((after for came, _, after in self.came if came == partition), default=-1)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def fetching(fetcher: Fetcher) -> AsyncIterator[None]:
    """It runs meanwhile, and nothing may end it before."""
    running = asyncio.create_task(fetcher.run())
    try:
        yield
        assert not running.done(), running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@asynccontextmanager
async def copying(
    source: FakeSource,
    limit: int = 1 << 20,
    stop_at_new_topic: str | None = None,
    side: str = "source",
    **settings: str,
) -> AsyncIterator[Copy]:
    copy = Copy()
    quick = {"retry.backoff.ms": "2", "retry.backoff.max.ms": "10", "fetch.max.wait.ms": "20"}
    named = {name.replace("_", "."): value for name, value in settings.items()}
    copy.fetcher = Fetcher(
        source,
        {**quick, **named},
        on_records=copy.take,
        on_notice=copy.notices.append,
        buffer_limit_bytes=limit,
        side=side,
        stop_at_new_topic=stop_at_new_topic,
    )
    async with fetching(copy.fetcher):
        yield copy
