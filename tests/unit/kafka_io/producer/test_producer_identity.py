"""When a producer id is asked for, and when the one that came may be used."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.problems import Problems
from mirror_connect.connectors.rights import MissingRight
from mirror_connect.kafka_io.producer.produce_outcome import FencedError
from mirror_connect.kafka_io.producer.producer_identity import ProducerIdentity
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch
from mirror_connect.kafka_io.protocol.codec import Writer
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId, InitProducerIdResponse
from tests.fakes.target_cluster import FakeTarget


class Coordinator(FakeTarget):
    """`lease` ends when the request has been answered, if `loses_lease`; before it is written, if `connects_late`."""

    def __init__(self) -> None:
        super().__init__()
        self.lease = True
        self.loses_lease = False
        self.connects_late = False
        self.asked = 0
        self.init_error = 0
        self.timeouts: list[int] = []

    async def send(self, node_id: int, request: Any, *, purpose: str = "control") -> Any:
        if isinstance(request, InitProducerId):
            if self.connects_late:
                self.lease, self.connects_late = False, False
            request.encode(4, Writer(flexible=True))
            self.asked += 1
            self.timeouts.append(request.transaction_timeout_ms)
            if self.init_error:
                return InitProducerIdResponse(0, self.init_error, -1, -1)
        answer = await super().send(node_id, request, purpose=purpose)
        if self.loses_lease:
            self.lease, self.loses_lease = False, False
        return answer


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


def identity(coordinator: Coordinator, transaction_timeout_ms: int | None = None) -> ProducerIdentity:
    return ProducerIdentity(
        coordinator,  # type: ignore[arg-type]
        "group-connector-0",
        lambda: coordinator.lease,
        Problems(print),
        idempotent=True,
        transaction_timeout_ms=transaction_timeout_ms,
    )


async def test_no_epoch_is_raised_without_a_lease(coordinator: Coordinator) -> None:
    coordinator.lease = False
    taking = asyncio.create_task(identity(coordinator).take())
    await asyncio.sleep(0.2)
    assert (coordinator.asked, coordinator.epoch) == (0, -1)
    coordinator.lease = True
    assert await taking == ProducerIdAndEpoch(7, 0)


async def test_a_request_that_is_about_to_be_written_when_the_lease_ends_raises_no_epoch(
    coordinator: Coordinator,
) -> None:
    coordinator.connects_late = True
    taking = asyncio.create_task(identity(coordinator).take())
    await asyncio.sleep(0.2)
    assert (coordinator.asked, coordinator.epoch, taking.done()) == (0, -1, False)
    coordinator.lease = True
    assert await taking == ProducerIdAndEpoch(7, 0)


async def test_an_epoch_that_came_when_the_lease_was_over_is_not_used(coordinator: Coordinator) -> None:
    coordinator.loses_lease = True
    taking = asyncio.create_task(identity(coordinator).take())
    await asyncio.sleep(0.2)
    assert not taking.done()
    coordinator.lease = True
    assert await taking == ProducerIdAndEpoch(7, 1)


async def test_who_took_its_epoch_without_a_lease_does_not_fence_who_came_after_it(coordinator: Coordinator) -> None:
    coordinator.loses_lease = True
    taking = asyncio.create_task(identity(coordinator).take())
    await asyncio.sleep(0.2)
    coordinator.epoch += 1  # the rightful task's
    coordinator.lease = True
    with pytest.raises(FencedError):
        await taking
    assert coordinator.epoch == 1


async def test_a_transactional_producer_does_not_begin_without_the_right_to_its_id(coordinator: Coordinator) -> None:
    coordinator.transactional_id_error = 53
    with pytest.raises(MissingRight, match="Exactly-once needs transactional id group-connector-0 on the target"):
        await identity(coordinator, transaction_timeout_ms=60_000).take()


async def test_a_timeout_that_the_target_does_not_allow_is_named(coordinator: Coordinator) -> None:
    coordinator.init_error = 50
    with pytest.raises(ConfigError) as raised:
        await identity(coordinator, transaction_timeout_ms=7_200_000).take()
    assert (raised.value.name, raised.value.value) == ("transaction.timeout.ms", "7200000")
    assert "transaction.max.timeout.ms" in str(raised.value)


async def test_the_timeout_of_transactions_is_asked_for(coordinator: Coordinator) -> None:
    assert (await identity(coordinator, transaction_timeout_ms=12_345).take()).transactional
    assert not (await identity(coordinator).take()).transactional
    assert coordinator.timeouts == [12_345, 60_000]
