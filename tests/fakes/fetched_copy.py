"""What a fetcher hands over of a source in memory, written down; some of it held back, if a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.consumer.fetcher import CompletedFetch, Fetcher
from tests.fakes.source_cluster import FakeSource

A0 = TopicPartition("a", 0)
A1 = TopicPartition("a", 1)
B0 = TopicPartition("b", 0)


@dataclass
class Copy:
    """What came, as (partition, fetch offset, next offset); `held` are those not released yet."""

    fetcher: Fetcher = None  # type: ignore[assignment]
    notices: list[str] = field(default_factory=list)
    came: list[tuple[TopicPartition, int, int]] = field(default_factory=list)
    held: list[CompletedFetch] = field(default_factory=list)
    holds: Callable[[TopicPartition], bool] = lambda _: False

    def take(self, fetched: CompletedFetch) -> None:
        self.came.append((fetched.partition, fetched.fetch_offset, fetched.next_offset))
        if self.holds(fetched.partition):
            self.held.append(fetched)
        else:
            fetched.release()

    def reached(self, partition: TopicPartition) -> int:
        return max((after for came, _, after in self.came if came == partition), default=-1)

    async def read_to(self, end: int) -> None:
        """Adds partition A0 from its beginning, and waits until it is read to `end`."""
        self.fetcher.add(A0, 0)
        await until(lambda: self.reached(A0) == end)


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
        problems=Problems(copy.notices.append),
        buffer_limit_bytes=limit,
        side=side,
        stop_at_new_topic=stop_at_new_topic,
    )
    async with fetching(copy.fetcher):
        yield copy
