"""librdkafka's clients for the worker's internal topics: one admin client and one idempotent producer for each cluster.

They write everything to internal topics, with acknowledgement, except the leader's transactions (leader_producer.py).
topic_tail.py reads those topics.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import (
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized, OutcomeUnknown
from mirror_connect.connectors.rights import IDEMPOTENT_WRITE, WORKER_USER, MissingRight, Right, on_topic
from mirror_connect.kafka_io.client.client_keys import Kind
from mirror_connect.kafka_io.client.client_settings import librdkafka_config
from mirror_connect.kafka_io.client.librdkafka_tokens import LibrdkafkaTokens, first_token, tokens_of
from mirror_connect.kafka_io.client.worker_lease import WorkerLease
from mirror_connect.kafka_io.client.wrong_protocol import NO_LOGIN, no_login

log = logging.getLogger(__name__)

WRITE_S: Final = 30.0

_POLL_SECONDS: Final = 0.5
# A token endpoint has this long for the first token of a client.
_FIRST_TOKEN_S: Final = 10.0
_AUTHENTICATION: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
# The error of a record that waits while its producer ends for another reason, or that comes after that end.
_ENDED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL})
_DENIED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)


class LogClients:
    """The clients of one cluster that internal topics share. `settings` are Java client properties.

    `lease`: every write must keep within it; None: nobody else writes these records. `user`: who logs in.
    """

    def __init__(
        self, settings: Mapping[str, str], client_id: str, lease: WorkerLease | None = None, user: str = WORKER_USER
    ) -> None:
        self.settings = settings
        self.user = user
        self.client_id = client_id
        self._lease = lease
        self._message_timeout_s = min(WRITE_S, lease.message_timeout_s) if lease else WRITE_S
        # What a connection reported last.
        self._last_error: KafkaError | None = None
        self._has_answered = False
        # The fatal error that ended the last producer.
        self._fatal: KafkaError | None = None
        self._closed = threading.Event()
        # One for all clients, so that they request a token once.
        self._tokens: LibrdkafkaTokens | None = None
        self._lock = threading.Lock()
        # Held while a client is created, which may take seconds: never on the event loop.
        self._creating = threading.Lock()
        self._write_turn = asyncio.Lock()
        self._admin: AdminClient | None = None
        self._producer: Producer | None = None
        self._poller: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"LogClients({self.settings.get('bootstrap.servers')})"

    @property
    def admin(self) -> AdminClient:
        """The admin client, created at first use; call off the event loop. NotAuthorized, ClusterUnreachable: no token."""
        return self._running_admin()

    def librdkafka(self, kind: Kind, name: str) -> dict[str, Any]:
        """The configuration of one client; ConfigError where the settings are wrong."""
        # Errors come by callbacks and results. librdkafka's own lines would repeat them, so only the gravest are logged.
        # Without a logger they would go to standard error.
        client_id = f"{self.client_id}-{name}"
        config = librdkafka_config(self.settings, kind, client_id)
        own = {"log_level": 2, "error_cb": self.note_error, "logger": log}
        with self._lock:
            self._tokens = self._tokens or tokens_of(config)
            return config | own | ({"oauth_cb": self._tokens} if self._tokens is not None else {})

    def get_ready(self, config: Mapping[str, Any], seconds: float) -> None:
        """Gets a first token where logins need one: before a client is created. NotAuthorized, ClusterUnreachable."""
        try:
            first_token(config, seconds)
        except (NotAuthorized, ClusterUnreachable) as problem:
            raise type(problem)(self._no_login(problem)) from None

    async def end_offsets(
        self, topic: str, partitions: Iterable[int], timeout: float, *, last_stable: bool = False
    ) -> dict[int, int]:
        """The high watermark of each partition, as its leader has it now; `last_stable`: the last stable offset instead.

        Raises ClusterUnreachable (also while a partition has no leader), NotAuthorized.
        """
        level = IsolationLevel.READ_COMMITTED if last_stable else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
        admin: AdminClient = self._admin or await asyncio.to_thread(self._running_admin)
        try:
            futures = admin.list_offsets(asked, isolation_level=level, request_timeout=min(timeout, 10.0))
            answers = await asyncio.gather(*map(asyncio.wrap_future, futures.values()))
        except KafkaException as problem:
            # librdkafka's admin client keeps using the leader epoch it once learnt, also when brokers refuse it. After a
            # broker's restart they would refuse it for ever. A new client learns the epoch again.
            with self._lock:
                if self._admin is admin:
                    self._admin = None
            what, right = f"topic {topic}: its end is unknown", on_topic("DESCRIBE", topic)
            raise self.explained(what, problem.args[0], right) from None
        return {asked_for.partition: answer.offset for asked_for, answer in zip(futures, answers, strict=True)}

    async def write(self, topic: str, entries: Sequence[tuple[bytes, bytes | None]], *, leased: bool = True) -> None:
        """Writes records in order, by Java's partitioner; returns when all in-sync replicas have every one.

        Raises LeaseOver before anything is written; OutcomeUnknown without an acknowledgement within 30 s, or within the
        time that the lease gives a message; ClusterUnreachable, NotAuthorized. `leased` False: any member may write it.
        """
        # One at a time keeps the order of records while the producer is created. The lease is checked afterwards, because
        # creation takes a part of it.
        async with self._write_turn:
            if self._producer is None:
                await asyncio.to_thread(self._running_producer)
        if leased and self._lease is not None:
            await self._lease.enough_for_a_message()
        loop = asyncio.get_running_loop()
        producer = self._producer or self._running_producer()
        waiting: list[asyncio.Future[None]] = []
        try:
            for key, value in entries:
                done: asyncio.Future[None] = loop.create_future()
                producer.produce(topic, value=value, key=key, on_delivery=_Acknowledgement(loop, done))
                waiting.append(done)
            await asyncio.gather(*waiting)
        except KafkaException as problem:
            error: KafkaError = problem.args[0]
            if error.fatal() or error.code() in _ENDED:
                # An idempotent producer never recovers from a fatal error; the next write gets a new one.
                with self._lock:
                    if self._producer is producer:
                        self._producer = None
            if error.code() in (KafkaError._MSG_TIMED_OUT, KafkaError._PURGE_INFLIGHT):
                raise OutcomeUnknown(
                    str(self.unreachable(f"topic {topic}: a record is not acknowledged, and may be written or not"))
                ) from None
            cause = self._fatal if error.code() in _ENDED and self._fatal else error
            raise self.not_written(topic, cause) from None

    def not_written(self, topic: str, error: KafkaError) -> ClusterUnreachable | NotAuthorized:
        """The error to raise for a write that librdkafka's `error` ended."""
        # A user who may write to no topic gets no producer id.
        nowhere = error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
        right = IDEMPOTENT_WRITE if nowhere else on_topic("WRITE", topic)
        return self.explained(f"topic {topic}: a record was not written", error, right)

    def explained(self, what: str, error: KafkaError, right: Right) -> ClusterUnreachable | NotAuthorized:
        """The error to raise for librdkafka's `error`, with the reason that a connection reported if there is one.

        `right`: the one that the request needs.
        """
        if error.code() in _DENIED:
            return self.denied(what, error, right)
        if error.code() in _AUTHENTICATION and not self._is_second_login(error):
            self._last_error = error
        return self.unreachable(what) if self._last_error else self._unreachable(f"{what}: {error.str()}")

    def denied(self, what: str, error: KafkaError, right: Right) -> MissingRight:
        """The error to raise or to show where a right is missing."""
        reason = error.str().rstrip(".")
        return MissingRight(f"{what}: the cluster at {self._addresses()} denied it ({reason})", right, self.user)

    def unreachable(self, what: str) -> ClusterUnreachable | NotAuthorized:
        """The error to raise when something took too long, with the last error that a connection reported."""
        if refusal := self.refused_login():
            return refusal
        error = self._last_error
        return self._unreachable(what if error is None else f"{what}: {self._token_problem() or _reason(error)}")

    def refused_login(self) -> NotAuthorized | None:
        """The error to raise if the cluster refused the credentials, None if it did not."""
        error = self._last_error
        if error is None or error.code() not in _AUTHENTICATION:
            return None
        problem = self._token_problem()
        if isinstance(problem, ClusterUnreachable):
            return None  # a silent token endpoint has refused nothing
        if problem is not None:
            return NotAuthorized(self._no_login(problem))
        if NO_LOGIN in error.str():
            protocol = self.settings.get("security.protocol", "").upper()
            return NotAuthorized(f"The cluster at {self._addresses()} refused the login: {no_login(protocol)}")
        mechanism = self.settings.get("sasl.mechanism", "GSSAPI")
        return NotAuthorized(
            f"The cluster at {self._addresses()} refused the credentials (sasl.mechanism {mechanism}): {_reason(error)}"
        )

    def _token_problem(self) -> ClusterUnreachable | NotAuthorized | None:
        """Why logins have no token at present, if that is what clients reported last."""
        error = self._last_error
        if self._tokens is None or error is None or error.code() not in _AUTHENTICATION:
            return None
        return self._tokens.problem

    def _no_login(self, problem: ClusterUnreachable | NotAuthorized) -> str:
        return f"No login at the cluster at {self._addresses()}: {problem}"

    def warm_up(self) -> None:
        """Starts connecting. Only the callbacks of a producer that is polled show why a cluster can't be reached.

        Call it off the event loop. NotAuthorized, ClusterUnreachable: there is no token to log in with.
        """
        self._running_producer()

    def close(self, patience_s: float = 1.0) -> None:
        """Stops the producer. Records that are not acknowledged yet have this long; it includes the end of a poll."""
        until = time.monotonic() + patience_s
        self._closed.set()
        with self._lock:
            producer, self._producer, self._admin = self._producer, None, None
        if self._poller is not None:
            self._poller.join()
        if producer is not None:
            producer.flush(max(0.0, until - time.monotonic()))

    def _running_admin(self) -> AdminClient:
        with self._creating:
            found = self._admin
            if found is None:
                config = self.librdkafka("admin", "admin")
                self.get_ready(config, _FIRST_TOKEN_S)
                found = self._admin = AdminClient(config)
            return found

    def _running_producer(self) -> Producer:
        with self._creating:
            found = self._producer
            if found is None:
                config = self.librdkafka("producer", "writer")
                self.get_ready(config, _FIRST_TOKEN_S)
                found = self._producer = Producer(
                    config
                    # Kafka's worker overrides most of these too: the state must never depend on a tuned producer.
                    | {
                        "acks": "all",
                        "enable.idempotence": True,
                        "max.in.flight.requests.per.connection": 5,
                        "retries": 2**31 - 1,
                        "linger.ms": 0,
                        "delivery.timeout.ms": int(self._message_timeout_s * 1000),
                    }
                )
            if self._poller is None:
                # `close`, in another thread, joins what it sees here: one that has been started.
                poller = threading.Thread(target=self._poll, name=f"{self.client_id}-writes", daemon=True)
                poller.start()
                self._poller = poller
            return found

    def _poll(self) -> None:
        while not self._closed.is_set():
            producer = self._producer
            if producer is None:
                self._closed.wait(_POLL_SECONDS)
                continue
            try:
                producer.poll(_POLL_SECONDS)
            except KafkaException as problem:
                # A fatal error, such as a missing right to write idempotently. Later polls report the writes that it ends.
                self.note_error(problem.args[0])

    def note_error(self, error: KafkaError) -> None:
        """Remembers what a connection reported: a later time-out does not show its cause."""
        if error.fatal():
            self._fatal = error
        # "All brokers down" only says that there was another error before it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN and not self._is_second_login(error):
            self._last_error = error

    def _is_second_login(self, error: KafkaError) -> bool:
        """Whether a listener that takes logins says that it takes none.

        So a broker answers a connection that logs in again twice within a second. The connection is made anew, and works.
        """
        return self._has_answered and NO_LOGIN in error.str()

    def recovered(self) -> None:
        """Forgets what connections reported: the cluster answers."""
        self._last_error = None
        self._has_answered = True

    def _addresses(self) -> str:
        return self.settings.get("bootstrap.servers", "")

    def _unreachable(self, what: str) -> ClusterUnreachable:
        return ClusterUnreachable(f"{what} (bootstrap.servers {self._addresses()})")


class _Acknowledgement:
    """Passes a delivery report from the polling thread to the future on the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, done: asyncio.Future[None]) -> None:
        self._loop = loop
        self._done = done

    def __call__(self, error: KafkaError | None, _: Message) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settle, error)

    def _settle(self, error: KafkaError | None) -> None:
        if self._done.done():
            return
        if error is None:
            self._done.set_result(None)
        else:
            self._done.set_exception(KafkaException(error))


def _reason(error: KafkaError) -> str:
    # librdkafka's text begins with the broker's address, and ends with how often it was repeated.
    text: str = error.str()
    return text.split(" (after ", maxsplit=1)[0]
