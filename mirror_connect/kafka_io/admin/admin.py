"""Administration of one cluster over confluent-kafka: blocking calls with a limit, and errors of one line that say which.

Every method may block for `timeout` seconds: call it from an executor, never on an event loop. None of them creates a
topic by asking for it. An object may be used from several threads, and needs no closing.
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import logging
import re
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from mirror_connect.connectors.errors import AddressUnknown, ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.rights import MissingRight, Right, on_cluster, on_topic, to_create
from mirror_connect.kafka_io.admin.all_topics import all_topics
from mirror_connect.kafka_io.client.client_settings import librdkafka_config
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import UnsupportedByBroker
from mirror_connect.kafka_io.client.librdkafka_tokens import first_token, tokens_of
from mirror_connect.kafka_io.client.wrong_protocol import no_login
from mirror_connect.kafka_io.protocol.wire_codec import Request

_CREDENTIALS: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
_RIGHTS: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_SILENCE: Final = frozenset(
    {
        KafkaError._TIMED_OUT,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        # An answer that names no broker, as one gives that has just come back.
        KafkaError._PARTIAL,
    }
)
# Some things a client reports about a connection are consequences of the real trouble, or say nothing.
_TELLING: Final = (*_CREDENTIALS, KafkaError._SSL, KafkaError._RESOLVE, KafkaError._TRANSPORT, KafkaError._FAIL)
# When no broker at all can be connected to, so long is waited for a restart before the caller is told.
_ALL_DOWN_SECONDS: Final = 5.0
_SLICE: Final = 0.05
_OWN_CONNECTION_SECONDS: Final = 10.0
# librdkafka's words for a broker that hung up in a TLS handshake, and for one that takes no login.
_HUNG_UP: Final = "Disconnected"
_NO_LOGIN: Final = "Request not valid in current SASL state"
Thing = TypeVar("Thing")
# librdkafka's own lines would say everything twice, and go to standard error.
_quiet: Final = logging.getLogger("mirror_connect.librdkafka")
_quiet.setLevel(logging.CRITICAL + 1)


class AdminError(Exception):
    """The cluster answered, and the answer is no: a topic exists, a replication factor is too large …"""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A topic's or broker's setting. `is_default`: it isn't set on the resource itself. Sensitive values are None."""

    value: str | None
    is_default: bool


class ClusterAdmin:
    """An admin client of the cluster that `properties` (Java client properties) lead to.

    `what` names the cluster in error texts ("source cluster"), `user` who logs in (rights.py); `timeout` in seconds is for
    each call. Making one reads key stores and raises ConfigError; nothing is connected to before the first call.
    Every call raises ClusterUnreachable, NotAuthorized (credentials or a right), AdminError (refused otherwise).
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        what: str,
        timeout: float = 60.0,
        client_id: str | None = None,
        user: str | None = None,
    ) -> None:
        self._config = config = librdkafka_config(properties, "admin", client_id)
        self._tokens = tokens_of(config)
        self._properties = dict(properties)
        self._client_id = client_id or ""
        self._what = what
        self._user = user or f"the user of {what}"
        self._timeout = timeout
        self._addresses: str = config["bootstrap.servers"]
        self._protocol: str = config["security.protocol"].upper()
        self._identity = (
            f"sasl.mechanism {config['sasl.mechanism']}" if "sasl.mechanism" in config else config["security.protocol"]
        )
        if "sasl.username" in config:
            self._identity += f", user {config['sasl.username']}"
        self._lock = threading.Lock()
        self._trouble: KafkaError | None = None
        self._all_down_since: float | None = None
        self._making = threading.Lock()
        self._made: AdminClient | None = None

    def __del__(self, _program_ends: Callable[[], bool] = sys.is_finalizing) -> None:
        # librdkafka's end waits for its threads, and one may be asking a name server for ten seconds: no event loop, on
        # which the last reference goes or Python's collector happens to run, shall wait for that. Not by `threading`: the
        # collector may run while this thread holds its locks. When the program ends no thread begins any more.
        if not _program_ends():
            held = [self.__dict__.pop("_made", None)]
            if held[0] is not None:
                with contextlib.suppress(RuntimeError):
                    _thread.start_new_thread(held.clear, ())

    def __repr__(self) -> str:
        return f"ClusterAdmin({self._what} at {self._addresses})"

    def cluster_id(self) -> str:
        """The cluster's id."""
        return str(self._metadata("asked for its id").cluster_id)

    def broker_count(self) -> int:
        """How many brokers the cluster has at present."""
        return len(self._metadata("asked for its brokers").brokers)

    def topics(self) -> dict[str, int]:
        """Every topic that may be seen, internal ones too, and how many partitions it has."""
        found = self._metadata("asked for its topics")
        return {name: len(topic.partitions) for name, topic in found.topics.items() if topic.partitions}

    def create_topic(
        self, topic: str, partitions: int, replication_factor: int, configs: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic; -1 for the broker's default of either number. AdminError if there is one, among others."""
        new = NewTopic(
            topic, num_partitions=partitions, replication_factor=replication_factor, config=dict(configs or {})
        )
        self._answer(
            f"topic {topic} was not created",
            lambda left: self._client.create_topics([new], operation_timeout=left, request_timeout=left)[topic],
            to_create(topic),
        )

    def topic_configs(self, topics: Collection[str]) -> dict[str, dict[str, ConfigValue]]:
        """The settings of topics, by topic and name. AdminError for a topic that doesn't exist."""
        return {
            name: self._configs(
                ResourceType.TOPIC, name, f"asked for the configs of topic {name}", on_topic("DESCRIBE_CONFIGS", name)
            )
            for name in topics
        }

    def broker_configs(self, node_id: int) -> dict[str, ConfigValue]:
        """The settings of a broker."""
        return self._configs(
            ResourceType.BROKER,
            str(node_id),
            f"asked for the configs of broker {node_id}",
            on_cluster("DESCRIBE_CONFIGS"),
        )

    def end_offsets(
        self, partitions: Iterable[tuple[str, int]], *, read_committed: bool = False
    ) -> dict[tuple[str, int], int]:
        """The offset after the last record of each (topic, partition)."""
        wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for topic, partition in partitions}
        if not wanted:
            return {}
        level = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        asked: dict[TopicPartition, Future[Any]] = {}

        def ask(left: float) -> Future[Any]:
            asked.update(self._client.list_offsets(wanted, isolation_level=level, request_timeout=left))
            return next(iter(asked.values()))

        self._answer("asked for end offsets", ask, on_topic("DESCRIBE", next(iter(wanted)).topic))
        return {
            (each.topic, each.partition): self._wait(
                f"asked for the end offset of {each.topic}-{each.partition}", future, on_topic("DESCRIBE", each.topic)
            ).offset
            for each, future in asked.items()
        }

    def each(
        self,
        ask: Callable[[AdminClient, float], Mapping[Thing, Future[Any]]],
        what: Callable[[Thing], str],
        right: Callable[[Thing], Right],
    ) -> dict[Thing, Any]:
        """One request about many things: what came of each, or the NotAuthorized or AdminError that it met.

        `ask` gets the client and a request timeout in seconds; `what` tells of one thing in its error, `right` what
        it takes. ClusterUnreachable is no matter of one thing, and raised. For the siblings of this module.
        """
        try:
            asked = ask(self._client, self._timeout)
        except KafkaException as problem:
            raise self._explained("asked for something", problem.args[0]) from None
        found: dict[Thing, Any] = {}
        for thing, future in asked.items():
            try:
                found[thing] = self._wait(what(thing), future, right(thing))
            except (NotAuthorized, AdminError) as error:
                found[thing] = error
        return found

    def ask(self, requests: Iterable[Request[Thing]], what: str) -> list[Thing]:
        """Requests of our own, where librdkafka's answer hides something or costs much; to whichever broker answers.

        `timeout` is for each of them.
        """

        async def answers() -> list[Thing]:
            cluster = Cluster(self._properties, self._client_id, kind="admin")
            try:
                answered = []
                for request in requests:
                    async with asyncio.timeout(self._timeout):
                        answered.append(await cluster.any_node(request))
                return answered
            finally:
                await cluster.close()

        try:
            return asyncio.run(answers())
        except TimeoutError:
            raise self._unreachable(what, f"no answer within {self._timeout:g} s") from None
        except ClusterUnreachable as error:
            raise ClusterUnreachable(f"The {self._named()} can't be reached ({what}): {error}") from None
        except UnsupportedByBroker as error:
            raise AdminError(f"{what}: {error} ({self._named()})", KafkaError.UNSUPPORTED_VERSION) from None

    def refusal(self, what: str, code: int, right: Right, message: str | None = None) -> Exception:
        """What an error code in such an answer means to the caller; `message`: the broker's own, if it has one."""
        return self._explained(what, KafkaError(code, message) if message else KafkaError(code), right)

    @property
    def _client(self) -> AdminClient:
        """librdkafka's client, made at first use: one that logs in by tokens keeps who makes it waiting."""
        with self._making:
            if self._made is None:
                try:
                    first_token(self._config, self._timeout)
                    self._made = AdminClient({**self._config, "error_cb": _weakly(self._noticed)}, logger=_quiet)
                except (NotAuthorized, ClusterUnreachable) as error:
                    raise self._no_token(error) from None
                except KafkaException as problem:
                    raise self._explained("made a client", problem.args[0]) from None
            return self._made

    def _configs(self, kind: ResourceType, name: str, what: str, right: Right) -> dict[str, ConfigValue]:
        resource = ConfigResource(kind, name)
        found = self._answer(
            what, lambda left: self._client.describe_configs([resource], request_timeout=left)[resource], right
        )
        return {entry.name: ConfigValue(entry.value, bool(entry.is_default)) for entry in found.values()}

    def _metadata(self, what: str) -> Any:
        return self._wait(what, all_topics(self._client, self._timeout), on_cluster("DESCRIBE"))

    def _answer(self, what: str, ask: Callable[[float], Future[Any]], right: Right) -> Any:
        try:
            future = ask(self._timeout)
        except KafkaException as problem:
            raise self._explained(what, problem.args[0]) from None
        return self._wait(what, future, right)

    def _wait(self, what: str, future: Future[Any], right: Right) -> Any:
        """The result; meanwhile the client's reports are heard, so that hopeless cases end early."""
        client = self._client
        started = time.monotonic()
        deadline = started + self._timeout + 1.0
        while not future.done():
            # The client calls `_noticed` from inside poll() only.
            client.poll(_SLICE)
            now = time.monotonic()
            if (hopeless := self._hopeless(what, max(now - started, 0.0))) is not None:
                raise hopeless
            if now > deadline:
                raise self._unreachable(what, f"no answer within {self._timeout:g} s")
        try:
            result = future.result()
        except KafkaException as problem:
            raise self._explained(what, problem.args[0], right) from None
        with self._lock:
            self._trouble = self._all_down_since = None
        return result

    def _noticed(self, error: KafkaError) -> None:
        with self._lock:
            if error.code() == KafkaError._ALL_BROKERS_DOWN:
                self._all_down_since = self._all_down_since or time.monotonic()
            elif error.code() in _TELLING and not (self._trouble and self._trouble.code() in _CREDENTIALS):
                self._trouble = error

    def _hopeless(self, what: str, waited: float) -> Exception | None:
        with self._lock:
            trouble, down = self._trouble, self._all_down_since
        if trouble is not None and trouble.code() in _CREDENTIALS:
            return self._explained(what, trouble)
        # A name that has no address, or a certificate that isn't accepted, is no matter of waiting.
        final = trouble is not None and trouble.code() in (KafkaError._RESOLVE, KafkaError._SSL)
        patience = 1.0 if final else min(_ALL_DOWN_SECONDS, self._timeout)
        if down is not None and waited >= patience:
            return self._unreachable(what, None)
        return None

    def _explained(self, what: str, error: KafkaError, right: Right | None = None) -> Exception:
        if error.code() in _RIGHTS and right is not None:
            # Of a request that a broker handed on to the controller the text is that whole request, in Java's words.
            text = KafkaError(error.code()).str() if error.str().startswith("Request Request(") else error.str()
            return MissingRight(
                f"The {self._named()} denied it ({what}): {text.rstrip('.')} ({self._identity})", right, self._user
            )
        if error.code() in _CREDENTIALS:
            with self._lock:
                self._trouble = None  # the next call tries anew
            if self._tokens is not None and self._tokens.problem is not None:
                return self._no_token(self._tokens.problem)
            if _NO_LOGIN in error.str():
                return NotAuthorized(f"The {self._named()} refused the login: {no_login(self._protocol)}")
            return NotAuthorized(f"The {self._named()} refused the credentials ({self._identity}): {_reason(error)}")
        if error.code() in _SILENCE:
            return self._unreachable(what, _reason(error))
        return AdminError(f"{what}: {error.str()} ({self._named()})", error.code())

    def _no_token(self, problem: NotAuthorized | ClusterUnreachable) -> Exception:
        """An endpoint that does not answer is no refusal: whoever asked tries again, as when the brokers are away."""
        text = f"No login at the {self._named()}: {problem}"
        return NotAuthorized(text) if isinstance(problem, NotAuthorized) else ClusterUnreachable(text)

    def _unreachable(self, what: str, silence: str | None) -> Exception:
        """`silence`: how something that was asked for went without an answer; None when nobody could even be asked."""
        with self._lock:
            trouble, down, self._all_down_since = self._trouble, self._all_down_since, None
        if trouble is not None and trouble.code() in _CREDENTIALS:
            return self._explained(what, trouble)
        if trouble is not None and trouble.code() == KafkaError._RESOLVE:
            # The first half is Kafka's sentence, which people search for.
            sentence = f"No resolvable bootstrap urls given in bootstrap.servers ({_reason(trouble)})"
            return AddressUnknown(f"The {self._named()} can't be reached: {sentence}")
        if down is not None and (trouble is None or _HUNG_UP in trouble.str()):
            told = self._told_by_our_own_connection()
            if told is not None:
                return told
        if trouble is not None or down is not None or silence is None:
            why = "no broker can be connected to" if trouble is None else _reason(trouble)
            return ClusterUnreachable(
                f"The {self._named()} can't be reached: {why}. Check that its brokers run, and its "
                "bootstrap.servers and security.protocol"
            )
        return ClusterUnreachable(f"The {self._named()} does not answer ({what}: {silence}). Look at its brokers")

    def _told_by_our_own_connection(self) -> Exception | None:
        """librdkafka does not say in which moment a broker hung up, which tells what it expected."""

        async def connect() -> None:
            cluster = Cluster(self._properties, self._client_id, kind="admin")
            try:
                async with asyncio.timeout(_OWN_CONNECTION_SECONDS):
                    await cluster.connect()
            finally:
                await cluster.close()

        try:
            asyncio.run(connect())
        except ClusterUnreachable as error:
            why = re.sub(r"^no broker answers at \S+(, \S+)*: ", "", str(error))
            return ClusterUnreachable(f"The {self._named()} can't be reached: {why}")
        except NotAuthorized as error:
            return NotAuthorized(f"The {self._named()} refused the login: {error}")
        except (TimeoutError, ConfigError, UnsupportedByBroker):
            return None
        return None

    def _named(self) -> str:
        return f"{self._what.removeprefix('the ')} at {self._addresses}"


def _reason(error: KafkaError) -> str:
    """librdkafka's sentence without the connection's name in front and the counters behind."""
    text = re.sub(r"^(?:\w+://)?\S+?/\w+: ", "", error.str())
    return re.sub(r" \(after [^)]*\)| \(\d+ identical error\(s\) suppressed\)", "", text).split("\n", 1)[0].strip()


def _weakly(method: Callable[[KafkaError], None]) -> Callable[[KafkaError], None]:
    """Calls a method as long as its object is there: a client that held it would keep both until the collector comes."""
    alive = weakref.WeakMethod(method)

    def call(error: KafkaError) -> None:
        found = alive()
        if found is not None:
            found(error)

    return call
