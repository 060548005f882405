"""Asks the coordinator of a transactional id: adds partitions to the transaction, ends it.

The third request to it, InitProducerId, is in producer_identity.py.

The coordinator may be another broker at any time, so it is looked up again after errors that say so, and after a lost
connection. A request is repeated until it has an answer that says something. It is written only with a lease.

An EndTxn whose answer was lost may have been executed. The same request again tells: the coordinator answers a repetition
like the first one. But the lost one may also arrive later, in the next transaction. `doubtful` says so; the producer then
takes a new epoch first. The same holds for answers that leave it open, such as those of a coordinator that is about to move.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.producer.produce_outcome import COORDINATOR_BUSY, FENCED, FenceLostError
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch
from mirror_connect.kafka_io.producer.task_lease import LeaseCheck, LeaseLostError
from mirror_connect.kafka_io.protocol.codec import Request
from mirror_connect.kafka_io.protocol.error_codes import COORDINATOR_MOVED, ErrorCode, reason
from mirror_connect.kafka_io.protocol.features import NEW_TRANSACTIONS, TRANSACTION_VERSION, FinalizedFeatures
from mirror_connect.kafka_io.protocol.metadata import FindCoordinator
from mirror_connect.kafka_io.protocol.transactions import AddPartitionsToTxn, EndTxn, EndTxnResponse

T = TypeVar("T")

TRANSACTION: Final = 1
LEASE_POLL_S: Final = 0.05
# The last transaction is being completed: that takes some milliseconds.
_SOON_S: Final = 0.003
_FIRST_WAIT_S: Final = 0.02
_LONGEST_WAIT_S: Final = 1.0
_QUIET_S: Final = 5.0
# Answers that decide about an EndTxn. After any other it is asked again.
_DECIDES: Final = FENCED | {
    ErrorCode.NONE,
    ErrorCode.INVALID_TXN_STATE,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.UNKNOWN_PRODUCER_ID,
    ErrorCode.TRANSACTION_ABORTABLE,
}


class TransactionCoordinator:
    """The coordinator of one transactional id. `doubtful`: an EndTxn may still be executed; its user clears it.

    `problem`: set while it has not answered as it should for a while.
    """

    def __init__(self, cluster: Cluster, transactional_id: str, lease: Callable[[], bool], problems: Problems) -> None:
        self._cluster = cluster
        self._transactional_id = transactional_id
        self._lease = lease
        self._problems = problems
        self._node: int | None = None
        self.doubtful = False
        self.problem: Problem | None = None

    async def gives_epochs(self) -> bool:
        """Whether the cluster has the transactions of KIP-890. Waits until a broker tells."""
        while True:
            try:
                features = await self._cluster.any_node(FinalizedFeatures())
            except (ClusterUnreachable, ConnectionLost):
                await asyncio.sleep(_FIRST_WAIT_S)
            else:
                return features.get(TRANSACTION_VERSION, 0) >= NEW_TRANSACTIONS

    async def add(
        self, producer: ProducerIdAndEpoch, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, int]:
        """Adds partitions to the transaction; returns an error code for each of them. FenceLostError."""
        identity = self._transactional_id, producer.producer_id, producer.epoch

        def busy(errors: Mapping[TopicPartition, int]) -> int | None:
            return next((code for code in errors.values() if code in COORDINATOR_BUSY), None)

        def request(check: LeaseCheck) -> AddPartitionsToTxn:
            return AddPartitionsToTxn(*identity, partitions, before_write=check)

        answer = await self._ask(request, lambda answer: busy(answer.errors), decides=False)
        if ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED in answer.errors.values():
            raise FenceLostError(self._transactional_id)
        return answer.errors

    async def end(self, producer: ProducerIdAndEpoch, *, committed: bool, gives_epoch: bool) -> EndTxnResponse:
        """Commits or aborts; returns an answer that decides. FenceLostError."""
        identity = self._transactional_id, producer.producer_id, producer.epoch

        def undecided(answer: EndTxnResponse) -> int | None:
            if answer.error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise FenceLostError(self._transactional_id)
            return None if answer.error in _DECIDES else answer.error

        def request(check: LeaseCheck) -> EndTxn:
            return EndTxn(*identity, committed=committed, gives_epoch=gives_epoch, before_write=check)

        return await self._ask(request, undecided, decides=True)

    async def _ask(
        self, make: Callable[[LeaseCheck], Request[T]], busy: Callable[[T], int | None], *, decides: bool
    ) -> T:
        """`busy`: the code in an answer that says only to ask again. `decides`: the request ends the transaction."""
        loop = asyncio.get_running_loop()
        wait, soon, began = _FIRST_WAIT_S, _SOON_S, loop.time()
        subject = f"transactional id {self._transactional_id}"
        while True:
            while not self._lease():
                await asyncio.sleep(LEASE_POLL_S)
            check = LeaseCheck(self._lease)
            pause, code = wait, None
            try:
                answer = await self._send(make(check))
            except LeaseLostError:
                continue
            except (ClusterUnreachable, ConnectionLost) as error:
                self._node = None
                why = str(error)
                doubtful = check.passed
            else:
                code = busy(answer) if answer is not None else ErrorCode.COORDINATOR_NOT_AVAILABLE
                if answer is not None and code is None:
                    if self.problem is not None:
                        self.problem = None
                        self._problems.resolve(subject, ProblemCode.COORDINATOR_UNREACHABLE)
                    return answer
                why, doubtful = reason(code or 0, ""), answer is not None
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                # The coordinator has decided, and waits for the partitions. Or it ends a transaction that timed out.
                pause, soon = soon, min(soon * 2, _LONGEST_WAIT_S)
            else:
                self.doubtful = self.doubtful or (decides and doubtful)
                wait = min(wait * 2, _LONGEST_WAIT_S)
            if code is None or code in COORDINATOR_MOVED:
                self._node = None
            if loop.time() - began > _QUIET_S:
                self.problem = unreachable(subject, why)
                self._problems.report(self.problem)
            await asyncio.sleep(pause)

    async def _send(self, request: Request[T]) -> T | None:
        if self._node is None:
            found = await self._cluster.any_node(FindCoordinator(self._transactional_id, TRANSACTION))
            if found.error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                raise FenceLostError(self._transactional_id)
            if found.error != ErrorCode.NONE:
                return None
            self._node = found.node_id
        if self._node not in self._cluster.nodes:
            await self._cluster.refresh(())
        return await self._cluster.send(self._node, request)


def unreachable(subject: str, cause: str) -> Problem:
    """The problem that the coordinator does not answer as it should, for a while."""
    return Problem(
        subject,
        ProblemCode.COORDINATOR_UNREACHABLE,
        f"The coordinator of {subject} on the target does not end or begin transactions at present",
        cause,
        "it is tried again until it answers",
    )
