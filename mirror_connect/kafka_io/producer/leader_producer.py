"""Writes for the group's leader by librdkafka: a producer with a transactional id, one transaction per write.

Its records are configs, and the source offsets that clients set of connectors that copy exactly once.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from confluent_kafka import KafkaError, KafkaException, Producer

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized, OutcomeUnknown
from mirror_connect.connectors.rights import on_transactional_id
from mirror_connect.kafka_io.client.worker_lease import WorkerLease, lease_over
from mirror_connect.kafka_io.producer.leader_writer import CLAIM_S, Entry, TransactionalIdDenied

if TYPE_CHECKING:
    from mirror_connect.kafka_io.consumer.log_clients import LogClients

# After this time the broker aborts a transaction that a killed leader left open. Until then readers wait.
TRANSACTION_S: Final = 10.0
_ABORT_S: Final = 2.0


async def write_in_transaction(
    clients: LogClients, lease: WorkerLease, transactional_id: str, topic: str, entries: Sequence[Entry]
) -> None:
    """Fences the producers with this transactional id, then writes all entries or none of them.

    LeaseOver, NotAuthorized, ClusterUnreachable: nothing was written. OutcomeUnknown: the entries may be written.
    """
    if (left := lease.remaining()) <= 0:
        raise lease_over()
    producer = LeaderProducer(clients, transactional_id)
    try:
        await producer.claim(min(left, CLAIM_S))
        if (left := lease.remaining()) <= 0:
            raise lease_over()
        await producer.write(topic, entries, left)
    finally:
        producer.close()


class LeaderProducer:
    """Implements leader_writer.Transactions. Its blocking calls run in a thread of their own."""

    def __init__(self, clients: LogClients, transactional_id: str) -> None:
        self._clients = clients
        self._transactional_id = transactional_id
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="leader-writes")
        self._config = clients.librdkafka("producer", "leader") | {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(TRANSACTION_S * 1000),
            "delivery.timeout.ms": int(TRANSACTION_S * 1000),
            "socket.timeout.ms": int(TRANSACTION_S * 1000),  # librdkafka accepts no more than the transaction's
            "acks": "all",
            "enable.idempotence": True,
            "max.in.flight.requests.per.connection": 5,
            "retries": 2**31 - 1,
            "linger.ms": 0,
        }
        self._producer: Producer | None = None

    async def claim(self, seconds: float) -> None:
        """See Transactions."""
        await self._run(self._claim, seconds)

    async def write(self, topic: str, entries: Sequence[Entry], seconds: float) -> None:
        """See Transactions."""
        await self._run(lambda left: self._write(topic, entries, left), seconds)

    def close(self) -> None:
        """See Transactions."""
        # In its thread, after the call that is running: the end of a client waits for its own threads.
        self._thread.submit(self._forget)
        self._thread.shutdown(wait=False)

    async def _run(self, work: Callable[[float], None], seconds: float) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, work, seconds)

    def _forget(self) -> None:
        self._producer = None

    def _claim(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        what = f"The transactional id {self._transactional_id} was not claimed"
        self._clients.get_ready(self._config, seconds)
        try:
            self._producer = Producer(self._config)
            # The wait for a token may have used up the lease. A former leader must not begin a claim: it would fence the
            # new one.
            if (left := until - time.monotonic()) <= 0:
                raise self._clients.unreachable(what)
            self._producer.init_transactions(left)
        except KafkaException as problem:
            error: KafkaError = problem.args[0]
            right = on_transactional_id(self._transactional_id)
            if error.code() == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
                reason = error.str().rstrip(".")
                raise TransactionalIdDenied(f"{what}: {reason}", right, self._clients.user) from None
            raise self._clients.explained(what, error, right) from None

    def _write(self, topic: str, entries: Sequence[Entry], seconds: float) -> None:
        assert self._producer is not None
        until = time.monotonic() + seconds
        committing = False
        try:
            self._producer.begin_transaction()
            for key, value in entries:
                self._producer.produce(topic, value=value, key=key)
            # The commit is requested only when all of them are written.
            if self._producer.flush(seconds) == 0:
                committing = True
                self._producer.commit_transaction(max(0.0, until - time.monotonic()))
                return
            error = KafkaError(KafkaError._TIMED_OUT)
        except KafkaException as problem:
            error = problem.args[0]
        raise self._not_committed(topic, error, committing=committing)

    def _not_committed(
        self, topic: str, error: KafkaError, *, committing: bool
    ) -> OutcomeUnknown | ClusterUnreachable | NotAuthorized:
        assert self._producer is not None
        # If the transaction must be aborted, it was not committed. After other errors of the commit it may have been.
        if committing and not error.txn_requires_abort():
            return OutcomeUnknown(
                f"topic {topic}: it is not known whether the record was written: {error.str()}. Ask for it again when the "
                "group has a leader"
            )
        # Without the abort, readers would wait until the broker aborts. Either way nothing of this is ever committed.
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(_ABORT_S)
        return self._clients.not_written(topic, error)
