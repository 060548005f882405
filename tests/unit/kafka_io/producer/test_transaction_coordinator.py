"""Requests to the coordinator of a transactional id: whom they go to, when they are repeated, what stays in doubt."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problems
from mirror_connect.kafka_io.producer.produce_outcome import FenceLostError
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch
from mirror_connect.kafka_io.producer.transaction_coordinator import TransactionCoordinator
from mirror_connect.kafka_io.protocol.metadata import FindCoordinator, FindCoordinatorResponse
from mirror_connect.kafka_io.protocol.transactions import AddPartitionsToTxn, EndTxn
from tests.fakes.transaction_broker import Protocol
from tests.fakes.transactional_target import TransactionalTarget, lost, refused, served

PRODUCER = ProducerIdAndEpoch(7, 0, transactional=True)
PLACE = TopicPartition("a.orders", 0)


class Target(TransactionalTarget):
    """`answers`: of the next requests to the coordinator: a code, or `lost`. `node`: where it is."""

    def __init__(self, protocol: Protocol = Protocol.NEW) -> None:
        super().__init__(protocol)
        self.answers: list[int | Callable[[], Exception]] = []
        self.node = 1
        self.asked_nodes: list[int] = []
        self.refreshed = 0

    async def refresh(self, _topics: Any) -> None:
        self.refreshed += 1
        self.nodes[self.node] = None

    async def any_node(self, request: Any) -> Any:
        if isinstance(request, FindCoordinator):
            return FindCoordinatorResponse(0, 0, "", self.node, "localhost", 9092)
        return served(self.broker, request)

    async def send(self, node_id: int, request: Any, *, purpose: str = "control") -> Any:
        request.before_write()
        self.asked_nodes.append(node_id)
        self.requests.append(request)
        answer = self.answers.pop(0) if self.answers else 0
        if not isinstance(answer, int):
            raise answer()
        return refused(request, answer)


@pytest.fixture
async def target() -> Target:
    return Target()


def coordinator(target: Target, lease: Callable[[], bool] = lambda: True) -> TransactionCoordinator:
    return TransactionCoordinator(target, "tx", lease, Problems(print))  # type: ignore[arg-type]


async def test_a_coordinator_that_has_moved_is_looked_up_again(target: Target) -> None:
    asking = coordinator(target)
    await asking.end(PRODUCER, committed=True, gives_epoch=True)
    target.node, target.answers = 2, [16]
    await asking.end(PRODUCER, committed=True, gives_epoch=True)
    assert (target.asked_nodes, target.refreshed) == ([1, 1, 2], 1)


@pytest.mark.parametrize("first", [lost, 14, 15, 16, 7, -1], ids=lambda first: getattr(first, "__name__", str(first)))
async def test_an_end_that_may_be_executed_later_is_in_doubt(
    target: Target, first: int | Callable[[], Exception]
) -> None:
    target.answers = [first]
    asking = coordinator(target)
    assert (await asking.end(PRODUCER, committed=True, gives_epoch=True)).error == 0
    assert asking.doubtful
    assert len(target.asked(EndTxn)) == 2


@pytest.mark.parametrize("code", [0, 47, 48, 49, 59, 90, 120])
async def test_an_answer_that_decides_is_final(target: Target, code: int) -> None:
    target.answers = [51, code]
    asking = coordinator(target)
    assert (await asking.end(PRODUCER, committed=True, gives_epoch=True)).error == code
    assert not asking.doubtful


async def test_partitions_are_added_until_the_last_transaction_is_ended(target: Target) -> None:
    target.answers = [51, 51, lost, 0]
    asking = coordinator(target)
    assert await asking.add(PRODUCER, [PLACE]) == {PLACE: 0}
    assert len(target.asked(AddPartitionsToTxn)) == 4
    assert not asking.doubtful


async def test_without_the_right_to_the_id_nothing_is_asked_again(target: Target) -> None:
    target.answers = [53, 53]
    with pytest.raises(FenceLostError):
        await coordinator(target).add(PRODUCER, [PLACE])
    with pytest.raises(FenceLostError):
        await coordinator(target).end(PRODUCER, committed=True, gives_epoch=False)


async def test_nothing_is_asked_without_a_lease(target: Target) -> None:
    leased = False
    asking = asyncio.create_task(coordinator(target, lambda: leased).add(PRODUCER, [PLACE]))
    await asyncio.sleep(0.1)
    assert target.requests == []
    leased = True
    assert await asking == {PLACE: 0}


@pytest.mark.parametrize("protocol", Protocol, ids=lambda protocol: protocol.name)
async def test_the_clusters_features_say_which_transactions_it_has(protocol: Protocol) -> None:
    assert await coordinator(Target(protocol)).gives_epochs() == protocol.gives_epochs
