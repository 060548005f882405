"""Fences producers: takes the next epoch of their transactional ids, as Kafka's Admin.fenceProducers does.

A fenced producer can neither write nor commit any more, however late its requests arrive. A transaction that it left open is
aborted, and its markers are written before this returns. So readers of committed records need not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, LeaseOver, NotAuthorized
from mirror_connect.connectors.rights import MissingRight, on_transactional_id
from mirror_connect.connectors.wording import counted
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.protocol.error_codes import COORDINATOR_MOVED, ErrorCode, reason
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId

# The former transaction is being aborted, or the coordinator is busy.
_ASK_AGAIN: Final = COORDINATOR_MOVED | {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
}
# Nobody writes with this epoch, and a target may allow no long transactions.
_TRANSACTION_TIMEOUT_MS: Final = 1000
_AT_ONCE: Final = 16
_FIRST_PAUSE_S: Final = 0.02
_LONGEST_PAUSE_S: Final = 0.5


async def fence_producers(
    cluster: Cluster,
    transactional_ids: Collection[str],
    seconds: float,
    *,
    user: str,
    before_write: Callable[[], None] | None = None,
) -> None:
    """Returns when every one is fenced. `before_write` is called before each request is written; if it raises, none is.

    MissingRight names the transactional id. ClusterUnreachable: some are not fenced in time; to repeat it does no harm.
    LeaseOver, if `before_write` raises it; NotAuthorized; ConfigError: a broker has no transactions.
    """
    room = asyncio.Semaphore(_AT_ONCE)
    reasons: dict[str, str] = {}

    async def fence(transactional_id: str) -> None:
        pause = _FIRST_PAUSE_S
        async with room:
            while (problem := await _asked(cluster, transactional_id, user, before_write)) is not None:
                reasons[transactional_id] = problem
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
        reasons.pop(transactional_id, None)

    for each in transactional_ids:
        reasons[each] = "no answer"
    try:
        async with asyncio.timeout(seconds), asyncio.TaskGroup() as together:
            for each in transactional_ids:
                together.create_task(fence(each))
    except TimeoutError:
        first = min(reasons)
        raise ClusterUnreachable(
            f"{counted(len(reasons), 'transactional id')} not fenced in {seconds:g} s, {first} among them: {reasons[first]}"
        ) from None
    except ExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _asked(
    cluster: Cluster, transactional_id: str, user: str, before_write: Callable[[], None] | None
) -> str | None:
    """Why it must be asked again; None when it is fenced."""
    request = InitProducerId(
        transactional_id, transaction_timeout_ms=_TRANSACTION_TIMEOUT_MS, before_write=before_write
    )
    try:
        answer = await cluster.send(await cluster.coordinator("transaction", transactional_id, user), request)
    except LeaseOver:
        raise
    except (ConnectionLost, ClusterUnreachable) as error:
        return str(error)
    except UnsupportedByBroker as error:
        raise ConfigError("exactly.once.source.support", "enabled", str(error)) from None
    if answer.error == ErrorCode.NONE:
        return None
    if answer.error == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        what = f"Not authorized to fence former tasks with the transactional id {transactional_id}"
        raise MissingRight(what, on_transactional_id(transactional_id), user)
    if answer.error in _ASK_AGAIN:
        return reason(answer.error, "")
    raise NotAuthorized(f"transactional id {transactional_id} can't be fenced: {reason(answer.error, '')}")
