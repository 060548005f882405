"""Which broker a partition is read from: its leader, or the replica that the leader prefers for a while."""

from __future__ import annotations

from tests.fakes.fetched_copy import A0, copying, until
from tests.fakes.source_cluster import FakeSource


async def test_a_partition_follows_its_leader_to_another_broker() -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    async with copying(source) as copy:
        await copy.read_to(10)
        log.leader, log.epoch = 2, 1
        log.append()
        await until(lambda: copy.reached(A0) == 20)
    node, request = source.fetches[-1]
    assert (node, [p.leader_epoch for p in request.partitions]) in ((2, [1]), (2, []))


async def test_the_preferred_replica_is_read_instead_of_the_leader() -> None:
    source = FakeSource()
    source.log("a", batches=1, preferred=2)
    async with copying(source) as copy:
        await copy.read_to(10)
    assert source.fetches[-1][0] == 2


async def test_a_preferred_replica_that_is_gone_gives_way_to_the_leader() -> None:
    source = FakeSource()
    log = source.log("a", batches=1, preferred=2)
    async with copying(source) as copy:
        await copy.read_to(10)
        source.down.add(2)
        log.preferred = -1
        log.append()
        await until(lambda: copy.reached(A0) == 20)
    assert source.fetches[-1][0] == 1


async def test_a_preferred_replica_is_forgotten_after_metadata_max_age() -> None:
    source = FakeSource()
    log = source.log("a", batches=1, preferred=2)
    async with copying(source, metadata_max_age_ms="30") as copy:
        await copy.read_to(10)
        log.preferred = -1
        log.errors.clear()
        seen = len(source.fetches)
        await until(lambda: any(node == 1 for node, _ in source.fetches[seen:]))
