"""Administers one cluster by confluent-kafka: blocking calls with a time limit, and errors of one line.

Every method may block for `timeout` seconds: call it from an executor, never on an event loop. No request for a topic
creates it. An object may be used from several threads, and needs no closing. It has connections and threads of librdkafka
only while it is used and some seconds after that (idle_clients.py).
"""

from __future__ import annotations

import _thread
import asyncio
import contextlib
import logging
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.rights import Right, on_cluster, on_topic, to_create
from mirror_connect.kafka_io.admin.admin_errors import AdminError, AdminErrors
from mirror_connect.kafka_io.admin.all_topics import all_topics
from mirror_connect.kafka_io.admin.idle_clients import IdleClients
from mirror_connect.kafka_io.client.client_settings import librdkafka_config
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import UnsupportedByBroker
from mirror_connect.kafka_io.client.librdkafka_tokens import first_token
from mirror_connect.kafka_io.protocol.codec import Request

_SLICE: Final = 0.05
Thing = TypeVar("Thing")
# librdkafka's own lines would repeat everything, and go to standard error.
_quiet: Final = logging.getLogger("mirror_connect.librdkafka")
_quiet.setLevel(logging.CRITICAL + 1)
_idle_clients: Final = IdleClients()


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A config of a topic or broker. `is_default`: it isn't set on the resource itself. Sensitive values are None."""

    value: str | None
    is_default: bool


class ClusterAdmin:
    """An admin client of one cluster. `properties`: Java client properties.

    `what` names the cluster in error texts ("source cluster"), and `user` who logs in (rights.py); `timeout` is for each
    call, in seconds. The constructor reads key stores and raises ConfigError; the first call connects.
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
        self._properties = dict(properties)
        self._client_id = client_id or ""
        self._what = what
        self._timeout = timeout
        self._errors = AdminErrors(
            properties,
            config,
            what,
            user=user or f"the user of {what}",
            timeout=timeout,
            client_id=self._client_id,
        )
        self._creating = threading.Lock()
        self._created: AdminClient | None = None
        # How many calls use the client, and when the last one ended, by time.monotonic().
        self._calls = 0
        self._used_at = 0.0

    def __del__(self, _program_ends: Callable[[], bool] = sys.is_finalizing) -> None:
        # The end of a librdkafka client waits for its threads, and one may be asking a name server for ten seconds. This may
        # run on an event loop, which must not wait for that. `threading` is not used, because Python's collector may run
        # this while the same thread holds the locks of that module. When the program ends, no thread can start any more.
        if not _program_ends():
            held = [self.__dict__.pop("_created", None)]
            if held[0] is not None:
                with contextlib.suppress(RuntimeError):
                    _thread.start_new_thread(held.clear, ())

    def __repr__(self) -> str:
        return f"ClusterAdmin({self._errors.named()})"

    def cluster_id(self) -> str:
        """The cluster's id."""
        return str(self._metadata("asked for its id").cluster_id)

    def broker_count(self) -> int:
        """The number of brokers at present."""
        return len(self._metadata("asked for its brokers").brokers)

    def topics(self) -> dict[str, int]:
        """Every visible topic, internal ones too, and its number of partitions."""
        found = self._metadata("asked for its topics")
        return {name: len(topic.partitions) for name, topic in found.topics.items() if topic.partitions}

    def create_topic(
        self,
        topic: str,
        partitions: int,
        replication_factor: int,
        configs: Mapping[str, str] | None = None,
        *,
        validate_only: bool = False,
    ) -> None:
        """Creates a topic; -1 for the broker's default of either number. AdminError also if it exists.

        `validate_only`: the brokers only check whether they would.
        """
        new = NewTopic(
            topic, num_partitions=partitions, replication_factor=replication_factor, config=dict(configs or {})
        )
        self._answer(
            f"topic {topic} was not created",
            lambda left: self._client.create_topics(
                [new], operation_timeout=left, request_timeout=left, validate_only=validate_only
            )[topic],
            to_create(topic),
        )

    def topic_configs(self, topics: Collection[str]) -> dict[str, dict[str, ConfigValue]]:
        """The configs of topics, by topic and name. AdminError for a topic that doesn't exist."""
        return {
            name: self._configs(
                ResourceType.TOPIC, name, f"asked for the configs of topic {name}", on_topic("DESCRIBE_CONFIGS", name)
            )
            for name in topics
        }

    def broker_configs(self, node_id: int) -> dict[str, ConfigValue]:
        """The configs of a broker."""
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
        with self._call() as asked_at:
            try:
                asked = self._client.list_offsets(wanted, isolation_level=level, request_timeout=self._timeout)
            except KafkaException as problem:
                raise self._errors.explained("asked for end offsets", problem.args[0]) from None
            return {
                (each.topic, each.partition): self._wait(
                    f"asked for the end offset of {each.topic}-{each.partition}",
                    future,
                    on_topic("DESCRIBE", each.topic),
                    asked_at,
                ).offset
                for each, future in asked.items()
            }

    def each(
        self,
        ask: Callable[[AdminClient, float], Mapping[Thing, Future[Any]]],
        what: Callable[[Thing], str],
        right: Callable[[Thing], Right],
    ) -> dict[Thing, Any]:
        """Sends one request about many things. Returns the result of each, or its NotAuthorized or AdminError.

        `ask` gets the client and a request timeout in seconds; `what` describes one thing in its error, and `right` is
        needed for it. ClusterUnreachable concerns all things, and is raised. For other modules of this package.
        """
        with self._call() as asked_at:
            try:
                asked = ask(self._client, self._timeout)
            except KafkaException as problem:
                raise self._errors.explained("asked for something", problem.args[0]) from None
            found: dict[Thing, Any] = {}
            for thing, future in asked.items():
                try:
                    found[thing] = self._wait(what(thing), future, right(thing), asked_at)
                except (NotAuthorized, AdminError) as error:
                    found[thing] = error
            return found

    def ask(self, requests: Iterable[Request[Thing]], what: str) -> list[Thing]:
        """Sends requests without librdkafka, whose answers hide something or cost much; any broker may answer.

        `timeout` is for each request.
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
            raise self._errors.unreachable(what, f"no answer within {self._timeout:g} s") from None
        except ClusterUnreachable as error:
            away = f"The {self._errors.named()} can't be reached"
            raise ClusterUnreachable(f"{away} ({what}): {error}", what=f"{away} ({what})", cause=str(error)) from None
        except UnsupportedByBroker as error:
            raise AdminError(f"{what}: {error} ({self._errors.named()})", KafkaError.UNSUPPORTED_VERSION) from None

    def refusal(self, what: str, code: int, right: Right, message: str | None = None) -> Exception:
        """The error to raise for an error code in such an answer; `message`: the broker's text, if it sent one."""
        return self._errors.explained(what, KafkaError(code, message) if message else KafkaError(code), right)

    @property
    def _client(self) -> AdminClient:
        """librdkafka's client, created at first use, because it may have to wait for a token."""
        with self._creating:
            if self._created is None:
                try:
                    first_token(self._config, self._timeout)
                    self._created = AdminClient({**self._config, "error_cb": self._errors.note_error}, logger=_quiet)
                    self._used_at = time.monotonic()
                    _idle_clients.opened(self)
                except (NotAuthorized, ClusterUnreachable) as error:
                    raise self._errors.no_token(error) from None
                except KafkaException as problem:
                    raise self._errors.explained("made a client", problem.args[0]) from None
            return self._created

    def _configs(self, kind: ResourceType, name: str, what: str, right: Right) -> dict[str, ConfigValue]:
        resource = ConfigResource(kind, name)
        found = self._answer(
            what, lambda left: self._client.describe_configs([resource], request_timeout=left)[resource], right
        )
        return {entry.name: ConfigValue(entry.value, bool(entry.is_default)) for entry in found.values()}

    def _metadata(self, what: str) -> Any:
        with self._call() as asked_at:
            return self._wait(what, all_topics(self._client, self._timeout), on_cluster("DESCRIBE"), asked_at)

    def _answer(self, what: str, ask: Callable[[float], Future[Any]], right: Right) -> Any:
        with self._call() as asked_at:
            try:
                future = ask(self._timeout)
            except KafkaException as problem:
                raise self._errors.explained(what, problem.args[0]) from None
            return self._wait(what, future, right, asked_at)

    @contextlib.contextmanager
    def _call(self) -> Iterator[float]:
        """Keeps the client during a call. It gives the time of the request that comes now.

        What connections reported while nobody asked is delivered before.
        """
        with self._creating:
            self._calls += 1
        try:
            self._client.poll(0)
            yield time.monotonic()
        finally:
            with self._creating:
                self._calls -= 1
                self._used_at = time.monotonic()

    def let_go_if_idle(self, seconds: float) -> tuple[bool, object]:
        """See MayBeIdle."""
        if not self._creating.acquire(blocking=False):
            return False, None
        try:
            if self._calls or time.monotonic() - self._used_at < seconds:
                return self._created is None, None
            client, self._created = self._created, None
            return True, client
        finally:
            self._creating.release()

    def _wait(self, what: str, future: Future[Any], right: Right, asked_at: float) -> Any:
        """The result. It polls meanwhile for the client's error reports, so that hopeless cases end early."""
        client = self._client
        started = time.monotonic()
        deadline = started + self._timeout + 1.0
        while not future.done():
            # The client reports errors from inside poll() only.
            client.poll(_SLICE)
            now = time.monotonic()
            if (hopeless := self._errors.hopeless(what, max(now - started, 0.0), asked_at)) is not None:
                raise hopeless
            if now > deadline:
                raise self._errors.unreachable(what, f"no answer within {self._timeout:g} s", asked_at)
        try:
            result = future.result()
        except KafkaException as problem:
            if problem.args[0].code() > 0:
                self._errors.answered()
            raise self._errors.explained(what, problem.args[0], right, asked_at) from None
        self._errors.recovered()
        return result
