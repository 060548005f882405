"""Where a producer's id and epoch come from: InitProducerId, with the transactional id as the fence around a task.

With a transactional id the coordinator raises the epoch at every start, and a target partition refuses the former owner
after the new one's first batch there. No transaction is needed for that: the batches don't carry the transactional bit.

Who has no lease must not raise the epoch: a task that was suspended at this step wakes when another has its place, and
would fence that one. So the lease is looked at when the request is written to the connection, and again when the answer is
there. A process that stops in between can't be kept from it: it goes without the epoch that it took, and if the rightful
task meets it, FencedError has that one started anew, with a newer epoch and with its positions read again.

Who has no right to the transactional id begins without the fence, and tells its worker so before it writes. Who loses the
right later stops: its worker counts on the fence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.rights import IDEMPOTENT_WRITE, PRODUCING_USER, MissingRight, on_transactional_id
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.producer.produce_outcome import (
    CLUSTER_AUTHORIZATION_FAILED,
    COORDINATOR_BUSY,
    FENCED,
    NO_ERROR,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    FencedError,
    FenceLostError,
)
from mirror_connect.kafka_io.producer.target_partition import ProducerId
from mirror_connect.kafka_io.producer.task_lease import LeaseLostError
from mirror_connect.kafka_io.protocol.wire_codec import Writer
from mirror_connect.kafka_io.protocol.wire_control import FindCoordinator, InitProducerId, ProducerIdResponse

_FIRST_WAIT_S: Final = 0.02
_LONGEST_WAIT_S: Final = 1.0
_LEASE_POLL_S: Final = 0.05
_QUIET_TRIES: Final = 8
_TRANSACTION: Final = 1


class _LeasedInit(InitProducerId):
    """Looks at the lease when it is written, which may be long after it was asked for (a connection to be made)."""

    def __init__(self, transactional_id: str, known: ProducerId, lease: Callable[[], bool]) -> None:
        super().__init__(transactional_id, producer_id=known.producer_id, producer_epoch=known.epoch)
        object.__setattr__(self, "_lease", lease)

    def encode(self, version: int, writer: Writer) -> None:
        lease: Callable[[], bool] = object.__getattribute__(self, "_lease")
        if not lease():
            raise LeaseLostError
        super().encode(version, writer)


class ProducerIdentity:
    """Takes producer ids. `fenced_by_others`: whether an epoch error means another owner rather than our own past.

    `trouble`: one line for the status, while the transactional id may not be used; "" otherwise.
    """

    def __init__(
        self,
        cluster: Cluster,
        transactional_id: str,
        lease: Callable[[], bool],
        notice: Callable[[str], None],
        *,
        idempotent: bool,
    ) -> None:
        self._cluster = cluster
        self._transactional_id: str | None = transactional_id
        self._lease = lease
        self._notice = notice
        self._idempotent = idempotent
        self.trouble = ""

    @property
    def fenced_by_others(self) -> bool:
        """True with a transactional id: nobody raises its epoch but another owner."""
        return self._idempotent and self._transactional_id is not None

    async def take(self, current: ProducerId | None = None) -> ProducerId:
        """A first id, or after `current` the next epoch. Waits for cluster and lease; raises NotAuthorized, FencedError."""
        if not self._idempotent:
            return ProducerId()
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
                        # Another may have the task by now. Should this one have it still, it takes the epoch after its own.
                        current = taken
                        continue
                problem = "the coordinator of transactional ids is not available"
            tries += 1
            if tries == _QUIET_TRIES:
                self._notice(f"No producer id from the target yet: {problem}; it is asked again")
            await asyncio.sleep(wait)
            wait = min(wait * 2, _LONGEST_WAIT_S)

    async def _ask(self, current: ProducerId | None) -> ProducerIdResponse | None:
        if self._transactional_id is None:
            return await self._cluster.any_node(InitProducerId())
        found = await self._cluster.any_node(FindCoordinator(self._transactional_id, _TRANSACTION))
        if found.error == TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            return ProducerIdResponse(0, found.error, -1, -1)
        if found.error != NO_ERROR:
            return None
        request = _LeasedInit(self._transactional_id, current or ProducerId(), self._lease)
        return await self._cluster.send(found.node_id, request)

    async def _leased(self) -> None:
        while not self._lease():
            await asyncio.sleep(_LEASE_POLL_S)

    def _judge(self, answer: ProducerIdResponse, current: ProducerId | None) -> ProducerId | None:
        if answer.error == NO_ERROR:
            return ProducerId(answer.producer_id, answer.producer_epoch)
        if answer.error in COORDINATOR_BUSY:
            return None
        if answer.error in FENCED and current is not None:
            raise FencedError(self._transactional_id or "")
        if answer.error == TRANSACTIONAL_ID_AUTHORIZATION_FAILED and self._transactional_id is not None:
            if current is not None:
                raise FenceLostError(self._transactional_id)
            what = f"Not authorized to use the transactional id {self._transactional_id} on the target"
            denied = MissingRight(what, on_transactional_id(self._transactional_id), PRODUCING_USER)
            self.trouble = (
                f"{denied}, and restart the task; the lease alone holds off one that was replaced while it hung"
            )
            self._notice(self.trouble)
            self._transactional_id = None
            return None
        if answer.error == CLUSTER_AUTHORIZATION_FAILED:
            raise MissingRight(
                "the target gives no producer id (it isn't asked for one with producer.override.enable.idempotence=false)",
                IDEMPOTENT_WRITE,
                PRODUCING_USER,
            )
        raise NotAuthorized(f"the target gives no producer id: error code {answer.error}")
