"""Partitions in memory as `verify --follow` samples them: they grow, and their first records go."""

from __future__ import annotations

import random
from collections.abc import Sequence

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch, whole_batches
from mirror_connect.verify.sampled_partition import SampledPartition
from tests.fakes.encoded_batches import HEADER
from tests.fakes.partition_logs import MemoryLog


class MemoryPeek:
    """A Peek. `at_once`: how many batches a fetch shows; `gone`: offsets below it are no longer there."""

    def __init__(self, role: str, batches: Sequence[bytes], *, at_once: int = 3, committed: bool = False) -> None:
        self.role = role
        self.key = TopicPartition("t", 0)
        self.committed = committed
        self.log = MemoryLog(batches)
        self.at_once = at_once
        self.gone = 0
        self.fetches = 0

    async def fetch(self, offset: int) -> CompletedFetch | None:
        self.fetches += 1
        # A broker has nothing for an offset that is out of range.
        if offset < self.gone:
            return None
        chosen = [batch for batch in self.log.batches if _last(batch) >= offset][: self.at_once]
        if not chosen:
            return None
        buffer = memoryview(b"".join(chosen))
        end = self.log.end
        return CompletedFetch(self.key, buffer, offset, whole_batches(buffer)[1], end, end, self.gone, self.log.aborted)

    async def offset_at(self, timestamp: int) -> int | None:
        found = await self.log.offset_at(timestamp)
        return None if found is None else max(found, self.gone)

    async def first(self) -> int:
        return self.gone


async def followed(
    source: Sequence[bytes] | MemoryPeek,
    target: Sequence[bytes] | MemoryPeek,
    *,
    samples: float = float("inf"),
    seed: int = 0,
    steps: Sequence[int] = (),
    guesses: tuple[int, ...] = (0,),
) -> SampledPartition:
    """A sampled partition, with so many samples per round. `steps`: `until` of each round."""

    async def still_the_same() -> bool:
        return True

    ours = source if isinstance(source, MemoryPeek) else MemoryPeek("source", source)
    theirs = target if isinstance(target, MemoryPeek) else MemoryPeek("target", target)
    partition = SampledPartition(ours, theirs, 0, rng=random.Random(seed), doubt=still_the_same)
    partition.guesses = guesses
    for until in steps or (ours.log.end,):
        partition.until = until
        partition.plan(samples)
        while await partition.step():
            pass
    return partition


def _last(batch: bytes) -> int:
    fields = HEADER.unpack_from(batch)
    return int(fields[0] + fields[6])
