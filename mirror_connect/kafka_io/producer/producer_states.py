"""Asks leaders for the last sequence that they have of this producer (DescribeProducers).

A broker recognises only the last five batches of a producer when they come again. So no more than five may be in flight,
unless the leader can be asked which of them it has. It is asked before a partition of a far broker gets more, as the user
may lack the right to read the topic; and it is asked again after a failure, see LeaderState. Before Kafka 4.0 a
broker that leads no more answers, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Final, Protocol

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.producer.target_broker import TargetBroker
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch, TargetPartition
from mirror_connect.kafka_io.producer.write_problems import NOT_ANSWERED
from mirror_connect.kafka_io.protocol.error_codes import Retry, retry
from mirror_connect.kafka_io.protocol.producer_states import DescribeProducers, ProducersOfPartition

_ASKED: Final = "it is asked which batches it has, and answers DescribeProducers with this error"
_NOT_IN_ANSWER = ProducersOfPartition(NOT_ANSWERED, [])


class AskingSender(Protocol):
    """What asking needs of the sender."""

    producer: ProducerIdAndEpoch

    def wake(self, target: TargetPartition) -> None:
        """The partition may have something to send."""

    def retry(self, target: TargetPartition, code: int, message: str, *, elsewhere: bool) -> None:
        """Tries the partition again later."""

    def not_answered(self, node: TargetBroker, target: TargetPartition, lost: str, waited_s: float) -> None:
        """The broker has not answered; the partition is tried again later."""

    def not_told(self, target: TargetPartition, code: int) -> None:
        """The leader does not tell what it has of the partition; `code`: why, 0 if it knows no producer like this."""

    def spawn(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Runs this until the sender is closed."""


class ProducerStates:
    """Asks with one request for all partitions of a broker that are to be asked for in a turn of the event loop."""

    def __init__(self, target: Cluster, sender: AskingSender) -> None:
        self._target = target
        self._sender = sender
        self._waiting: dict[TargetBroker, dict[TargetPartition, None]] = {}
        self._asked: set[TargetPartition] = set()

    def ask(self, node: TargetBroker, target: TargetPartition) -> None:
        """Asks the partition's leader. Then `wide` is known, and the partition resumes if it is unclear."""
        target.leader.asked = True
        if target in self._asked:
            return
        self._asked.add(target)
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._send)
        self._waiting.setdefault(node, {})[target] = None

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for node, targets in waiting.items():
            self._sender.spawn(self._exchange(node, list(targets)))

    async def _exchange(self, node: TargetBroker, targets: list[TargetPartition]) -> None:
        producer = self._sender.producer
        unclear = {target for target in targets if target.leader.unclear}
        answer: dict[TopicPartition, ProducersOfPartition] = {}
        lost = ""
        try:
            wanted = [TopicPartition(target.topic, target.partition) for target in targets]
            answer = await self._target.send(node.node_id, DescribeProducers(wanted))
        except (ClusterUnreachable, ConnectionLost) as error:
            lost = str(error)
        except (NotAuthorized, UnsupportedByBroker):
            pass  # as without an answer for the partition: it is never asked for again
        self._asked.difference_update(targets)
        for target in targets:
            if lost:
                self._lost(node, target, lost)
            elif producer != self._sender.producer or (target.leader.unclear and target not in unclear):
                target.leader.asked = False  # it has become another question meanwhile
            else:
                found = answer.get(TopicPartition(target.topic, target.partition), _NOT_IN_ANSWER)
                self._take(node, target, found, producer)
            self._sender.wake(target)

    def _lost(self, node: TargetBroker, target: TargetPartition, lost: str) -> None:
        target.leader.asked = False
        if target.must_ask:
            self._sender.not_answered(node, target, lost, 0.0)

    def _take(
        self, node: TargetBroker, target: TargetPartition, found: ProducersOfPartition, producer: ProducerIdAndEpoch
    ) -> None:
        if retry(found.error) is not Retry.NEVER:
            target.leader.asked = False
            if target.must_ask and target.leader.in_vain(asyncio.get_running_loop().time()):
                target.resume(None)
            elif target.must_ask:
                self._sender.retry(target, found.error, _ASKED, elsewhere=True)
            return
        mine = (each for each in found.producers if each[:2] == (producer.producer_id, producer.epoch))
        last = next((each.last_sequence for each in mine), None)
        if target.leader.unclear:
            # Without an answer to this question there will be none to the next one.
            target.leader.wide = target.leader.wide and found.error == 0
            target.resume(last)
        else:
            # Some brokers tell of transactional producers alone.
            target.leader.wide = last is not None
            if last is None:
                self._sender.not_told(target, found.error)
