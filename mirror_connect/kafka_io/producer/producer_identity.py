"""Gets a producer's id and epoch by InitProducerId. The transactional id fences off the task's former owner.

With a transactional id the coordinator raises the epoch at every start, and a target partition refuses the former owner
after the new one's first batch there. No transaction is needed for that: the batches don't carry the transactional bit.

A task without a lease must not raise the epoch. If a process is suspended at this step, another task may have its place
when it continues, and a new epoch would fence that task. So the lease is checked when the request is written to the
connection, and again when the answer comes. If the process is suspended in between, the epoch is raised all the same. Then
it does not use that epoch. If the rightful task was fenced, FencedError makes its worker start it again, with a newer epoch
and with its source offsets read again.

A task without the right to the transactional id begins without the fence, and reports that to its worker before it writes.
A task that loses the right later stops, because its worker relies on the fence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.connectors.rights import IDEMPOTENT_WRITE, PRODUCING_USER, MissingRight, on_transactional_id
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.client.copier_settings import TRANSACTION_TIMEOUT
from mirror_connect.kafka_io.producer.produce_outcome import (
    COORDINATOR_BUSY,
    FENCED,
    FencedError,
    FenceLostError,
)
from mirror_connect.kafka_io.producer.target_partition import ProducerIdAndEpoch
from mirror_connect.kafka_io.producer.task_lease import LeaseCheck, LeaseLostError
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from mirror_connect.kafka_io.protocol.metadata import FindCoordinator
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId, InitProducerIdResponse

_FIRST_WAIT_S: Final = 0.02
_LONGEST_WAIT_S: Final = 1.0
_LEASE_POLL_S: Final = 0.05
_QUIET_TRIES: Final = 8
_TRANSACTION: Final = 1
# Without transactions the timeout has no effect. But the target refuses one that is longer than it allows.
FENCE_TIMEOUT_MS: Final = 60_000
RESTART_TASK: Final = "restart the task"


class ProducerIdentity:
    """Requests producer ids. `fenced_by_others`: whether an epoch error means another owner, not an earlier epoch of ours.

    `transaction_timeout_ms`: the producer's batches are in transactions, so it can't do without the transactional id.
    None: they are not, and the id only fences.

    `problem`: set if the right to use the transactional id is missing. `restart`: how a user then restarts its owner.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        lease: Callable[[], bool],
        problems: Problems,
        *,
        idempotent: bool,
        restart: str = RESTART_TASK,
        transaction_timeout_ms: int | None = None,
    ) -> None:
        self._cluster = cluster
        self._transactional_id: str | None = transactional_id or None
        self._lease = lease
        self._problems = problems
        self._idempotent = idempotent
        self._restart = restart
        self._transaction_timeout_ms = transaction_timeout_ms
        self.problem: Problem | None = None

    @property
    def fenced_by_others(self) -> bool:
        """True with a transactional id: only another owner raises its epoch."""
        return self._idempotent and self._transactional_id is not None

    def fenced(self) -> FencedError:
        """The error to raise when another owner of the transactional id has fenced this one off."""
        return FencedError(self._transactional_id or "")

    async def take(self, current: ProducerIdAndEpoch | None = None) -> ProducerIdAndEpoch:
        """A first id, or after `current` the next epoch; what was open in a transaction is aborted then.

        Waits for cluster and lease; raises NotAuthorized, FencedError, ConfigError.
        """
        if not self._idempotent:
            return ProducerIdAndEpoch()
        wait, tries = _FIRST_WAIT_S, 0
        while True:
            await self._leased()
            try:
                answer = await self._ask(current)
            except LeaseLostError:
                continue
            except (ClusterUnreachable, ConnectionLost) as error:
                problem = str(error)
            else:
                if answer is not None:
                    taken = self._judge(answer, current)
                    if taken is not None and self._lease():
                        return taken
                    if taken is not None:
                        # Another process may have the task by now. If this one still has it, it takes the next epoch.
                        current = taken
                        continue
                problem = "the coordinator of transactional ids is not available"
            tries += 1
            if tries == _QUIET_TRIES:
                owner = f" for transactional id {self._transactional_id}" if self._transactional_id else ""
                self._problems.log(f"No producer id{owner} from the target yet: {problem}; it is tried again")
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT_S)

    async def _ask(self, current: ProducerIdAndEpoch | None) -> InitProducerIdResponse | None:
        if self._transactional_id is None:
            return await self._cluster.any_node(InitProducerId())
        found = await self._cluster.any_node(FindCoordinator(self._transactional_id, _TRANSACTION))
        if found.error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return InitProducerIdResponse(0, found.error, -1, -1)
        if found.error != ErrorCode.NONE:
            return None
        known = current or ProducerIdAndEpoch()
        request = InitProducerId(
            self._transactional_id,
            self._transaction_timeout_ms or FENCE_TIMEOUT_MS,
            producer_id=known.producer_id,
            producer_epoch=known.epoch,
            before_write=LeaseCheck(self._lease),
        )
        return await self._cluster.send(found.node_id, request)

    async def _leased(self) -> None:
        while not self._lease():
            await asyncio.sleep(_LEASE_POLL_S)

    def _judge(self, answer: InitProducerIdResponse, current: ProducerIdAndEpoch | None) -> ProducerIdAndEpoch | None:
        if answer.error == ErrorCode.NONE:
            transactional = self._transaction_timeout_ms is not None
            return ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch, transactional)
        if answer.error in COORDINATOR_BUSY:
            return None
        if answer.error in FENCED and current is not None:
            raise self.fenced()
        if answer.error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED and self._transactional_id is not None:
            if current is not None:
                raise FenceLostError(self._transactional_id)
            if self._transaction_timeout_ms is not None:
                right = on_transactional_id(self._transactional_id)
                raise MissingRight(
                    f"Exactly-once needs transactional id {self._transactional_id} on the target, and its use is denied",
                    right,
                    PRODUCING_USER,
                )
            what = f"Not authorized to use the transactional id {self._transactional_id} on the target"
            grant = on_transactional_id(self._transactional_id).grant(PRODUCING_USER)
            self.problem = Problem(
                f"transactional id {self._transactional_id}",
                ProblemCode.TRANSACTIONAL_ID_DENIED,
                what,
                advice=f"{grant}, and {self._restart}. Until then only the lease stops a replaced task from writing",
            )
            self._problems.report(self.problem)
            self._transactional_id = None
            return None
        if answer.error == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise ConfigError(
                TRANSACTION_TIMEOUT,
                str(self._transaction_timeout_ms or FENCE_TIMEOUT_MS),
                "the target allows no more than its transaction.max.timeout.ms",
            )
        if answer.error == ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
            raise MissingRight(
                "the target gives no producer id (it isn't asked for one with producer.override.enable.idempotence=false)",
                IDEMPOTENT_WRITE,
                PRODUCING_USER,
            )
        raise NotAuthorized(f"the target gives no producer id: error code {answer.error}")
