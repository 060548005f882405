"""librdkafka's part of a topic log: follow a topic in a thread, ask for its end, write with acknowledgement.

Everything a worker keeps in Kafka goes through here. One `LogClients` serves all logs of one cluster (one admin client,
one idempotent producer); each log has a `Follower` with a consumer of its own that belongs to no group.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from confluent_kafka import (
    Consumer,
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
from mirror_connect.kafka_io.client.write_lease import WriteLease

log = logging.getLogger(__name__)

Deliver = Callable[[Sequence["LogRecord"], Mapping[int, int]], None]

WRITE_S: Final = 30.0

_POLL_SECONDS: Final = 0.5
_AT_ONCE: Final = 1000
# What a token endpoint has for the first token of a client, and the pause of a reader before it asks again.
_FIRST_TOKEN_S: Final = 10.0
_NO_TOKEN_PAUSE_S: Final = 2.0
_AUTHENTICATION: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
# What a record is told that waits while its producer ends for a reason of its own, or that comes after that.
_ENDED: Final = frozenset({KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT, KafkaError._FATAL})
_DENIED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
    }
)


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of a followed topic; `timestamp` in ms since the epoch, `value` None for a tombstone."""

    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    timestamp: int
    headers: Sequence[tuple[str, bytes | None]] = ()


class LogClients:
    """The clients of one cluster that internal topics share. `settings` are Java client properties.

    `lease`: what every write has to keep within; None: nobody else writes what is written here. `user`: who logs in.
    """

    def __init__(
        self, settings: Mapping[str, str], client_id: str, lease: WriteLease | None = None, user: str = WORKER_USER
    ) -> None:
        self.settings = settings
        self.user = user
        self.client_id = client_id
        self._lease = lease
        self._message_timeout_s = min(WRITE_S, lease.message_timeout_s) if lease else WRITE_S
        self._trouble: KafkaError | None = None
        # What ended the last producer that was ended by an error.
        self._fatal: KafkaError | None = None
        self._closed = threading.Event()
        # One for all its clients, so that they ask for a token once.
        self._tokens: LibrdkafkaTokens | None = None
        self._lock = threading.Lock()
        # Held while a client is made, which may take seconds: never on the event loop.
        self._making = threading.Lock()
        self._turn = asyncio.Lock()
        self._admin: AdminClient | None = None
        self._producer: Producer | None = None
        self._poller: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"LogClients({self.settings.get('bootstrap.servers')})"

    @property
    def admin(self) -> AdminClient:
        """The admin client, made at first use: off the event loop. NotAuthorized, ClusterUnreachable: it gets no token."""
        return self._running_admin()

    def librdkafka(self, kind: Kind, name: str) -> dict[str, Any]:
        """The configuration of one client; ConfigError where the settings are wrong."""
        # Errors go to callbacks and results, which librdkafka's own lines would double, but for the gravest: these are
        # records of the log. Without a logger they would go to standard error.
        client_id = f"{self.client_id}-{name}"
        config = librdkafka_config(self.settings, kind, client_id)
        own = {"log_level": 2, "error_cb": self.noticed, "logger": log}
        with self._lock:
            self._tokens = self._tokens or tokens_of(config)
            return config | own | ({"oauth_cb": self._tokens} if self._tokens is not None else {})

    def get_ready(self, config: Mapping[str, Any], seconds: float) -> None:
        """Has a first token where logins take one: before a client is made. NotAuthorized, ClusterUnreachable."""
        try:
            first_token(config, seconds)
        except (NotAuthorized, ClusterUnreachable) as problem:
            raise type(problem)(self._no_login(problem)) from None

    async def end_offsets(
        self, topic: str, partitions: Iterable[int], timeout: float, *, last_stable: bool = False
    ) -> dict[int, int]:
        """The high watermark of each partition, as its leader knows it now; `last_stable`: where open transactions begin.

        Raises ClusterUnreachable (also while a partition has no leader), NotAuthorized.
        """
        level = IsolationLevel.READ_COMMITTED if last_stable else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in partitions}
        admin: AdminClient = self._admin or await asyncio.to_thread(self._running_admin)
        try:
            futures = admin.list_offsets(asked, isolation_level=level, request_timeout=min(timeout, 10.0))
            answers = await asyncio.gather(*map(asyncio.wrap_future, futures.values()))
        except KafkaException as problem:
            # librdkafka's admin client asks with the leader epoch it once learnt, and does not learn a newer one from
            # being refused: after a broker's restart it would be refused for ever. A new client asks afresh.
            with self._lock:
                if self._admin is admin:
                    self._admin = None
            what, right = f"topic {topic}: its end is unknown", on_topic("DESCRIBE", topic)
            raise self.explained(what, problem.args[0], right) from None
        return {asked_for.partition: answer.offset for asked_for, answer in zip(futures, answers, strict=True)}

    async def write(self, topic: str, entries: Sequence[tuple[bytes, bytes | None]], *, leased: bool = True) -> None:
        """Write records in order, by Java's partitioner; returns when all in-sync replicas have every one.

        Raises LeaseOver before anything is written, OutcomeUnknown after 30 s without an acknowledgement, half of the lease
        where there is one; ClusterUnreachable, NotAuthorized. `leased` False: any member of the group may write it.
        """
        # In turn, so that records that come while the producer is made are written in the order in which they came. Before
        # the lease is looked at, as a part of it may go by.
        async with self._turn:
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
        # Who may not write anywhere gets no producer id.
        nowhere = error.code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED
        right = IDEMPOTENT_WRITE if nowhere else on_topic("WRITE", topic)
        return self.explained(f"topic {topic}: a record was not written", error, right)

    def explained(self, what: str, error: KafkaError, right: Right) -> ClusterUnreachable | NotAuthorized:
        """The error to raise for librdkafka's `error`, with the reason the connections gave if there is a better one.

        `right`: what it takes to do it.
        """
        if error.code() in _DENIED:
            return self.denied(what, error, right)
        if error.code() in _AUTHENTICATION:
            self._trouble = error
        return self.unreachable(what) if self._trouble else self._unreachable(f"{what}: {error.str()}")

    def denied(self, what: str, error: KafkaError, right: Right) -> MissingRight:
        """The error to raise, or to tell, where a right is missing."""
        reason = error.str().rstrip(".")
        return MissingRight(f"{what}: the cluster at {self._addresses()} denied it ({reason})", right, self.user)

    def unreachable(self, what: str) -> ClusterUnreachable | NotAuthorized:
        """The error to raise when something took too long, with the last trouble the connections reported."""
        if refusal := self.refused_login():
            return refusal
        trouble = self._trouble
        return self._unreachable(what if trouble is None else f"{what}: {self._token_problem() or _reason(trouble)}")

    def refused_login(self) -> NotAuthorized | None:
        """The error to raise if the cluster refused the credentials, None if it did not."""
        trouble = self._trouble
        if trouble is None or trouble.code() not in _AUTHENTICATION:
            return None
        problem = self._token_problem()
        if isinstance(problem, ClusterUnreachable):
            return None  # an endpoint that does not answer refuses nothing
        if problem is not None:
            return NotAuthorized(self._no_login(problem))
        mechanism = self.settings.get("sasl.mechanism", "GSSAPI")
        return NotAuthorized(
            f"The cluster at {self._addresses()} refused the credentials (sasl.mechanism {mechanism}): {_reason(trouble)}"
        )

    def _token_problem(self) -> ClusterUnreachable | NotAuthorized | None:
        """Why logins have no token at present, if that is what clients reported last."""
        trouble = self._trouble
        if self._tokens is None or trouble is None or trouble.code() not in _AUTHENTICATION:
            return None
        return self._tokens.problem

    def _no_login(self, problem: ClusterUnreachable | NotAuthorized) -> str:
        return f"No login at the cluster at {self._addresses()}: {problem}"

    def warm_up(self) -> None:
        """Start connecting. The producer's polled callbacks are what tells why a cluster can't be reached.

        To be called off the event loop. NotAuthorized, ClusterUnreachable: there is no token to log in with.
        """
        self._running_producer()

    def close(self, patience_s: float = 1.0) -> None:
        """Stop the producer; records not yet acknowledged get that long, the end of a poll included."""
        until = time.monotonic() + patience_s
        self._closed.set()
        with self._lock:
            producer, self._producer, self._admin = self._producer, None, None
        if self._poller is not None:
            self._poller.join()
        if producer is not None:
            producer.flush(max(0.0, until - time.monotonic()))

    def _running_admin(self) -> AdminClient:
        with self._making:
            found = self._admin
            if found is None:
                config = self.librdkafka("admin", "admin")
                self.get_ready(config, _FIRST_TOKEN_S)
                found = self._admin = AdminClient(config)
            return found

    def _running_producer(self) -> Producer:
        with self._making:
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
                self._poller = threading.Thread(target=self._poll, name=f"{self.client_id}-writes", daemon=True)
                self._poller.start()
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
                # A fatal error, as of a missing right to be idempotent. The writes it ends are told by later polls.
                self.noticed(problem.args[0])

    def noticed(self, error: KafkaError) -> None:
        """Remember what a client's connections reported: a time-out later says nothing of its cause."""
        if error.fatal():
            self._fatal = error
        # "All brokers down" only says that there was another error before it.
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._trouble = error

    def recovered(self) -> None:
        """Forget old trouble: the cluster answers."""
        self._trouble = None

    def _addresses(self) -> str:
        return self.settings.get("bootstrap.servers", "")

    def _unreachable(self, what: str) -> ClusterUnreachable:
        return ClusterUnreachable(f"{what} (bootstrap.servers {self._addresses()})")


class Follower:
    """A thread that reads what is committed in a topic, from its beginning, and never stops before it is told to.

    `deliver` is called in that thread with the records in order and with the positions (next offset) they lead to;
    positions move over transaction markers too, which are no records. `empty_after_ms`: how long a broker that has nothing
    new keeps a request; only its empty answer moves a position over a marker at the end.
    """

    def __init__(
        self,
        clients: LogClients,
        topic: str,
        partitions: Iterable[int],
        deliver: Deliver,
        *,
        empty_after_ms: int = 500,
    ) -> None:
        self._clients = clients
        self._topic = topic
        self._deliver = deliver
        self._stopping = threading.Event()
        self._told: set[int] = set()
        # The right to read is missing.
        self.denied: MissingRight | None = None
        self._config = clients.librdkafka("consumer", f"{topic}-reader") | {
            "group.id": f"{topic}-reader",  # librdkafka wants one; nothing is ever joined or committed
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": 16384,
            "fetch.wait.max.ms": empty_after_ms,
        }
        # Not OFFSET_BEGINNING: a new client does not know the leaders yet, and librdkafka then asks for the beginning only
        # half a second later. Where the log begins later than 0, auto.offset.reset leads to its beginning.
        self._beginning = [TopicPartition(topic, partition, 0) for partition in partitions]
        self._thread = threading.Thread(target=self._run, name=f"{topic}-reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; waits for the thread, half a second at most as a rule."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = self._made()
        if consumer is None:
            return
        try:
            consumer.assign(self._beginning)
            while not self._stopping.is_set():
                first = consumer.poll(_POLL_SECONDS)
                if first is not None:
                    self._hand_over([first, *consumer.consume(_AT_ONCE, 0)])
        finally:
            consumer.close()

    def _made(self) -> Consumer | None:
        """The consumer, as soon as there is a token to log in with, if it takes one; None: told to stop before that."""
        while not self._stopping.is_set():
            try:
                self._clients.get_ready(self._config, _POLL_SECONDS)
                return Consumer(self._config)
            except (NotAuthorized, ClusterUnreachable) as problem:
                self._say(KafkaError._AUTHENTICATION, str(problem))
            except KafkaException as problem:
                self._clients.noticed(problem.args[0])
                self._trouble(problem.args[0])
            self._stopping.wait(_NO_TOKEN_PAUSE_S)
        return None

    def _hand_over(self, messages: Sequence[Message]) -> None:
        records: list[LogRecord] = []
        positions: dict[int, int] = {}
        for message in messages:
            error = message.error()
            if error is None:
                record = _record(message)
                records.append(record)
                positions[record.partition] = record.offset + 1
            elif error.code() == KafkaError._PARTITION_EOF:
                # The end may lie behind the last record: transaction markers and compacted-away records take offsets.
                positions[message.partition()] = message.offset()
            elif (
                error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED
            ):  # no group is joined, librdkafka asks for it unbidden
                self._trouble(error)
        if positions:
            self.denied = None
            self._told.clear()
            self._clients.recovered()
            self._deliver(records, positions)

    def _trouble(self, error: KafkaError) -> None:
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            right = on_topic("READ", self._topic)
            self.denied = self._clients.denied(f"topic {self._topic} can't be read", error, right)
        self._say(error.code(), str(self.denied or error.str()))

    def _say(self, code: int, text: str) -> None:
        if code not in self._told:
            self._told.add(code)
            log.warning("Reading topic %s: %s", self._topic, text)


class _Acknowledgement:
    """Hands a delivery report, which comes in the polling thread, to the future that waits on the loop."""

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


def _record(message: Message) -> LogRecord:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    try:
        headers = message.headers() or ()
    except UnicodeDecodeError:
        # A header's name that is no UTF-8 is none of ours.
        headers = ()
    return LogRecord(message.key(), message.value(), partition, offset, message.timestamp()[1], headers)


def _reason(error: KafkaError) -> str:
    # librdkafka puts the broker's address in front and how often it repeated itself behind.
    text: str = error.str()
    return text.split(" (after ", maxsplit=1)[0]
