"""librdkafka's part of the leader's writes: a producer with a transactional id, one transaction for each write."""

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
from mirror_connect.kafka_io.producer.leader_writer import Entry, TransactionalIdDenied

if TYPE_CHECKING:
    from mirror_connect.kafka_io.consumer.topic_log_io import LogClients

# The broker aborts what a killed leader left open after this: until then readers wait.
TRANSACTION_S: Final = 10.0
_ABORT_S: Final = 2.0


class LeaderProducer:
    """See leader_writer.Transactions. Its blocking calls have a thread of their own."""

    def __init__(self, clients: LogClients, transactional_id: str) -> None:
        self._clients = clients
        self._transactional_id = transactional_id
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="leader-writes")
        self._config = clients.librdkafka("producer", "leader") | {
            "transactional.id": transactional_id,
            "transaction.timeout.ms": int(TRANSACTION_S * 1000),
            "delivery.timeout.ms": int(TRANSACTION_S * 1000),
            "socket.timeout.ms": int(TRANSACTION_S * 1000),  # librdkafka takes none above the transaction's
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
        # In its thread, behind what is under way: ending a client waits for its own threads.
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
            # A token may have taken all of the lease; who leads no more must not begin what fences another one.
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
            # Fails where one of them was not written, before it asks for the commit.
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
        # A commit that was refused so that it has to be aborted is none; of other errors nobody knows.
        if committing and not error.txn_requires_abort():
            return OutcomeUnknown(
                f"topic {topic}: it is not known whether the record was written: {error.str()}. Ask for it again when the "
                "group has a leader"
            )
        # Without it, readers would wait until the broker does it. Either way nothing of this is ever committed.
        with contextlib.suppress(KafkaException):
            self._producer.abort_transaction(_ABORT_S)
        return self._clients.not_written(topic, error)
