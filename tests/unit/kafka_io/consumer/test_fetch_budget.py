"""The limit of bytes that the caller of a fetcher has not released: which fetches wait, and which continue."""

from __future__ import annotations

import asyncio

from mirror_connect.connectors.partitions import TopicPartition
from tests.fakes.fetched_copy import A0, B0, copying, until
from tests.fakes.source_cluster import FakeSource


async def test_a_full_partition_waits_while_others_go_on() -> None:
    source = FakeSource()
    slow = source.log("a")
    quick = source.log("b")
    for _ in range(100):
        slow.append(size=1000)
        quick.append(size=1000)
    async with copying(source, limit=16_000) as copy:
        copy.holds = lambda partition: partition == A0
        copy.fetcher.add(A0, 0)
        copy.fetcher.add(B0, 0)
        await until(lambda: copy.reached(B0) == 1000)
        assert sum(len(fetched.buffer) for fetched in copy.held) <= 16_000
        assert copy.reached(A0) < 1000


async def test_freed_room_is_used_again() -> None:
    source = FakeSource()
    log = source.log("a")
    for _ in range(100):
        log.append(size=1000)
    async with copying(source, limit=8_000) as copy:
        copy.holds = lambda _: True
        copy.fetcher.add(A0, 0)
        while copy.reached(A0) < 1000:
            await until(lambda: bool(copy.held))
            copy.held.pop(0).release()


async def test_unreleased_bytes_stay_within_the_limit() -> None:
    source = FakeSource()
    for partition in range(8):
        log = source.log("a", partition, leader=1 + partition % 2)
        for _ in range(50):
            log.append(size=1000)
    async with copying(source, limit=20_000) as copy:
        copy.holds = lambda _: True
        for partition in range(8):
            copy.fetcher.add(TopicPartition("a", partition), 0)
        await until(lambda: len(copy.held) > 0)
        await asyncio.sleep(0.1)
        held = sum(len(fetched.buffer) for fetched in copy.held)
        # One batch per broker may come above the limit.
        assert 5_000 <= held <= 22_000


async def test_many_partitions_of_which_nothing_is_released_hold_little() -> None:
    source = FakeSource()
    kept = [TopicPartition("a", partition) for partition in range(12)]
    for key in kept:
        log = source.log(*key)
        for _ in range(40):
            log.append(size=100_000)
    quick = source.log("b")
    for _ in range(100):
        quick.append(size=100_000)
    async with copying(source, limit=32 << 20) as copy:
        copy.holds = lambda partition: partition in kept
        for key in (*kept, B0):
            copy.fetcher.add(key, 0)
        await until(lambda: copy.reached(B0) == 1000 and all(copy.reached(key) > 0 for key in kept))
        await asyncio.sleep(0.1)
        assert sum(len(fetched.buffer) for fetched in copy.held) <= len(kept) * (256 << 10)


async def test_releasing_twice_frees_once() -> None:
    source = FakeSource()
    source.log("a", batches=2)
    async with copying(source, max_partition_fetch_bytes="100") as copy:
        copy.holds = lambda _: True
        copy.fetcher.add(A0, 0)
        await until(lambda: len(copy.held) == 2)
        copy.held[0].release()
        used = copy.fetcher._budget.used
        copy.held[0].release()
        assert copy.fetcher._budget.used == used > 0
