"""The leader's writes: only with a claim and a lease, plainly where the transactional id is denied."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable, LeaseOver, OutcomeUnknown
from mirror_connect.connectors.rights import WORKER_USER, on_transactional_id
from mirror_connect.kafka_io.client.worker_lease import WorkerLease
from mirror_connect.kafka_io.producer.leader_writer import CLAIM_S, Entry, LeaderWriter, TransactionalIdDenied

ID = "connect-cluster-g"
ENTRIES: list[Entry] = [(b"connector-a", b"{}"), (b"commit-a", None)]


class FakeTransactions:
    """A producer with the id. `claim_takes_s`: of the lease."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.closed = False

    async def claim(self, seconds: float) -> None:
        self._world.claim_limits.append(seconds)
        self._world.remaining_s -= self._world.claim_takes_s
        if self._world.claim_error is not None:
            raise self._world.claim_error

    async def write(self, topic: str, entries: Sequence[Entry], seconds: float) -> None:
        assert not self.closed
        self._world.written.append((topic, list(entries), seconds))
        if self._world.write_error is not None:
            raise self._world.write_error

    def close(self) -> None:
        self.closed = True


class World:
    """A leader's lease and the producers that it has had."""

    def __init__(self) -> None:
        self.remaining_s = 6.0
        self.claim_takes_s = 0.0
        self.claim_error: Exception | None = None
        self.write_error: Exception | None = None
        self.claim_limits: list[float] = []
        self.written: list[tuple[str, list[Entry], float]] = []
        self.plain: list[tuple[str, list[Entry]]] = []
        self.producers: list[FakeTransactions] = []
        self.leader = LeaderWriter(ID, self._new, self, WorkerLease(lambda: self.remaining_s, 10.0))

    def _new(self) -> FakeTransactions:
        self.producers.append(FakeTransactions(self))
        return self.producers[-1]

    async def write(self, topic: str, entries: Sequence[Entry]) -> None:
        """As the plain writer."""
        self.plain.append((topic, list(entries)))

    @property
    def open(self) -> int:
        return sum(not each.closed for each in self.producers)


@pytest.fixture
def world() -> World:
    return World()


def denied() -> TransactionalIdDenied:
    return TransactionalIdDenied("the transactional id was not claimed", on_transactional_id(ID), WORKER_USER)


async def test_a_write_is_one_transaction_with_the_lease_as_its_limit(world: World) -> None:
    await world.leader.claim()
    await world.leader.write("configs", ENTRIES)
    assert (world.written, world.plain) == ([("configs", ENTRIES, 6.0)], [])


async def test_without_a_claim_nothing_is_written(world: World) -> None:
    with pytest.raises(LeaseOver):
        await world.leader.write("configs", ENTRIES)
    assert (world.leader.claimed, world.written, world.plain) == (False, [], [])


@pytest.mark.parametrize(("lease_s", "limit_s"), [(6.0, 6.0), (60.0, CLAIM_S)], ids=["the_lease", "a_limit_of_its_own"])
async def test_a_claim_takes_no_longer_than(world: World, lease_s: float, limit_s: float) -> None:
    world.remaining_s = lease_s
    await world.leader.claim()
    assert world.claim_limits == [limit_s]


async def test_without_a_lease_no_claim_begins_that_would_fence_the_new_leader(world: World) -> None:
    world.remaining_s = 0.0
    with pytest.raises(LeaseOver):
        await world.leader.claim()
    assert (world.producers, world.leader.claimed) == ([], False)


async def test_a_claim_that_outlasts_the_lease_is_none(world: World) -> None:
    world.claim_takes_s = 6.0
    with pytest.raises(LeaseOver):
        await world.leader.claim()
    assert (world.leader.claimed, world.open) == (False, 0)


async def test_a_failed_claim_is_none_and_its_producer_is_closed(world: World) -> None:
    world.claim_error = ClusterUnreachable("no coordinator")
    with pytest.raises(ClusterUnreachable):
        await world.leader.claim()
    assert (world.leader.claimed, world.open) == (False, 0)


async def test_a_lease_that_ended_after_the_claim_stops_the_write(world: World) -> None:
    await world.leader.claim()
    world.remaining_s = 0.0
    with pytest.raises(LeaseOver):
        await world.leader.write("configs", ENTRIES)
    assert (world.written, world.leader.claimed, world.open) == ([], False, 0)


async def test_after_a_failed_write_a_new_claim_with_a_new_producer_is_needed(world: World) -> None:
    await world.leader.claim()
    world.write_error = OutcomeUnknown("nobody knows")
    with pytest.raises(OutcomeUnknown):
        await world.leader.write("configs", ENTRIES)
    with pytest.raises(LeaseOver):
        await world.leader.write("configs", ENTRIES)
    assert (world.leader.claimed, world.open) == (False, 0)
    world.write_error = None
    await world.leader.claim()
    await world.leader.write("configs", ENTRIES)
    assert (len(world.producers), len(world.written)) == (2, 2)


async def test_a_second_claim_closes_the_producer_of_the_first(world: World) -> None:
    await world.leader.claim()
    await world.leader.claim()
    assert [each.closed for each in world.producers] == [True, False]


async def test_who_relinquishes_writes_nothing_until_the_next_claim(world: World) -> None:
    await world.leader.claim()
    world.leader.relinquish()
    with pytest.raises(LeaseOver):
        await world.leader.write("configs", ENTRIES)
    assert (world.leader.claimed, world.open) == (False, 0)


async def test_without_the_right_to_the_id_the_leader_writes_plainly_and_logs_that_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.claim_error = denied()
    with caplog.at_level(logging.WARNING):
        await world.leader.claim()
        await world.leader.claim()
    await world.leader.write("configs", ENTRIES)
    assert (world.plain, world.written, world.open) == ([("configs", ENTRIES)], [], 0)
    assert [record.getMessage() for record in caplog.records] == [
        f"{denied()}. Without it only the lease stops a replaced leader from writing configs"
    ]


async def test_a_right_that_was_granted_meanwhile_is_used_after_the_next_claim(world: World) -> None:
    world.claim_error = denied()
    await world.leader.claim()
    world.claim_error = None
    await world.leader.claim()
    await world.leader.write("configs", ENTRIES)
    assert (world.plain, len(world.written)) == ([], 1)
