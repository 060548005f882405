"""Reads records, offsets and leaders by librdkafka, to compare logs. Calls block: use an executor.

No code is shared with copying: librdkafka fetches, checks, decompresses and decodes, and leaves out aborted records. It
shows neither transaction markers nor who wrote a record; batch_heads.py does.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from confluent_kafka import (
    TIMESTAMP_LOG_APPEND_TIME,
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from mirror_connect.connectors import partitions
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.rights import MissingRight, on_topic
from mirror_connect.kafka_io.client.client_settings import librdkafka_config
from mirror_connect.kafka_io.client.librdkafka_tokens import first_token, tokens_of

# (offset, timestamp in ms, (key, value, headers))
RecordContent = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
FoundRecord = tuple[int, int, RecordContent]

_EARLIEST: Final = -2
_LATEST: Final = -1
# The answer if no record is as late as the timestamp.
_NO_RECORD: Final = -1
# The limit of what is fetched ahead for a partition, decompressed; one fetch may exceed it.
_AHEAD_KB: Final = 8 << 10
_FETCH_BYTES: Final = 2 << 20
_AT_ONCE: Final = 2_000
_POLL_S: Final = 0.25
# A token endpoint has this long for the first token of a client.
_FIRST_TOKEN_S: Final = 10.0
_STATISTICS_MS: Final = 500
_RIGHTS: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_LOGIN: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
# The consumer looks for the group's coordinator although it never joins. Errors of that do not matter here: such a request
# may be under way while the client logs in anew. A refused login is reported by the callback for errors.
_OF_GROUPS: Final = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)
# A batch that does not match its checksum or header; reading continues after it.
_DAMAGE: Final = frozenset(
    {KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED, KafkaError.INVALID_MSG}
)
_quiet: Final = logging.getLogger("mirror_connect.librdkafka")
_quiet.setLevel(logging.CRITICAL + 1)


class TemporaryReadError(Exception):
    """The cluster gives no answer at present; the text says why, in one line. A later request may succeed."""


class ListedOffset(NamedTuple):
    """A leader's answer to ListOffsets. `offset`: None if no record is as late. `epoch`: -1 if it isn't known.

    At the log's end it is the leader's present epoch, else that of the record.
    """

    offset: int | None
    epoch: int


@dataclass(slots=True)
class Found:
    """What one read brought. `end`: where the partition ended, if that was reached; all offsets below it are read.

    `size`: bytes of keys, values and headers. `damaged`: (offset, reason) of batches that were left out.
    `lost`: the log does not have the position (any more). `problem`: why nothing comes at present; `refused`: why
    nothing will ever come.
    """

    records: list[FoundRecord] = field(default_factory=list)
    size: int = 0
    log_append_time: bool = False
    end: int | None = None
    damaged: list[tuple[int, str]] = field(default_factory=list)
    lost: bool = False
    problem: str = ""
    refused: str = ""


class RecordReader:
    """One consumer, for one partition and one thread at a time. Create it off the event loop.

    NotAuthorized, ClusterUnreachable: there is no token for the login.
    """

    def __init__(self, config: Mapping[str, Any], user: str, *, committed: bool, statistics: bool) -> None:
        self._received = 0
        self._user = user
        self._last_error: KafkaError | None = None
        self._tokens = tokens_of(config)
        first_token(config, _FIRST_TOKEN_S)
        self._consumer = Consumer(
            {
                **config,
                "group.id": "mirror-connect-verify",  # librdkafka demands one; it joins no group and commits nothing
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "allow.auto.create.topics": False,
                "isolation.level": "read_committed" if committed else "read_uncommitted",
                "check.crcs": True,
                "queued.max.messages.kbytes": _AHEAD_KB,
                "queued.min.messages": 100_000,
                "max.partition.fetch.bytes": _FETCH_BYTES,
                "fetch.min.bytes": 1,
                "fetch.wait.max.ms": 10,
                "fetch.error.backoff.ms": 100,
                # Its pause when enough is fetched ahead. With the default of one second it would pause most of the time.
                "fetch.queue.backoff.ms": 5,
                # A partition is read as soon as its leader is known.
                "topic.metadata.refresh.fast.interval.ms": 20,
                "log_level": 2,
                "error_cb": self._note_error,
                **({"statistics.interval.ms": _STATISTICS_MS, "stats_cb": self._counted} if statistics else {}),
            },
            logger=_quiet,
        )

    @property
    def received(self) -> int:
        """Bytes received on its connections, by the last statistics; 0 without statistics."""
        return self._received

    def begin(self, topic: str, partition: int, offset: int) -> None:
        """Reads this partition from `offset` on, and no other."""
        # What was refused before: a later login may have worked since, which nothing reports.
        self._last_error = None
        self._consumer.assign([TopicPartition(topic, partition, offset)])

    def rest(self) -> None:
        """Reads nothing until the next `begin`."""
        self._consumer.unassign()

    def read(self) -> Found:
        """The records that are there, or come within a quarter of a second. NotAuthorized."""
        first = self._consumer.poll(_POLL_S)
        if first is None:
            error, self._last_error = self._last_error, None
            if error is not None and error.code() in _LOGIN:
                problem = self._tokens.problem if self._tokens is not None else None
                if isinstance(problem, ClusterUnreachable):
                    return Found(problem=str(problem))
                raise NotAuthorized(f"the cluster refused the login: {problem or error.str()}")
            return Found(problem="" if error is None else error.str())
        self._last_error = None
        # Without waiting, so this is at most what was fetched ahead.
        messages = [first, *self._consumer.consume(_AT_ONCE, 0)]
        found = Found()
        records, size, append_time = found.records, 0, False
        for message in messages:
            if message.error() is not None:
                _judge(message, found, self._user)
                continue
            kind, stamp = message.timestamp()
            key, value = message.key(), message.value()
            try:
                headers = message.headers()
            except (SystemError, UnicodeDecodeError):
                found.refused = (
                    f"a header's name at offset {message.offset()} isn't UTF-8, and confluent-kafka shows no other"
                )
                break
            if key is not None:
                size += len(key)
            if value is not None:
                size += len(value)
            if headers:
                size += sum(len(name) + len(held or b"") for name, held in headers)
            if kind == TIMESTAMP_NOT_AVAILABLE:
                stamp = -1  # format 0 has none; confluent-kafka gives 0, which is a valid time
            append_time = append_time or kind == TIMESTAMP_LOG_APPEND_TIME
            records.append((message.offset(), stamp, (key, value, tuple(headers) if headers else ())))
        found.size, found.log_append_time = size, append_time
        return found

    def leader(self, topic: str, partition: int, timeout: float) -> tuple[str, int]:
        """Host and port of the partition's leader. TemporaryReadError."""
        try:
            found = self._consumer.list_topics(topic, timeout=timeout)
        except KafkaException as problem:
            raise TemporaryReadError(problem.args[0].str()) from None
        partitions = found.topics[topic].partitions
        broker = found.brokers.get(partitions[partition].leader) if partition in partitions else None
        if broker is None:
            raise TemporaryReadError(f"partition {topic}-{partition} has no leader")
        return broker.host, broker.port

    def partitions(self, topic: str, timeout: float) -> list[int]:
        """The numbers of a topic's partitions; none if there is no such topic, or no right to see it. TemporaryReadError."""
        try:
            found = self._consumer.list_topics(topic, timeout=timeout).topics[topic]
        except KafkaException as problem:
            raise TemporaryReadError(problem.args[0].str()) from None
        if found.error is not None and found.error.code() not in (KafkaError.UNKNOWN_TOPIC_OR_PART, *_RIGHTS):
            raise TemporaryReadError(found.error.str())
        return [] if found.error is not None else sorted(found.partitions)

    def close(self) -> None:
        """Ends its connections."""
        self._consumer.close()

    def _counted(self, statistics: str) -> None:
        self._received = json.loads(statistics).get("rx_bytes", 0)

    def _note_error(self, error: KafkaError) -> None:
        self._last_error = error


def _judge(message: Message, found: Found, user: str) -> None:
    """Notes an error that comes instead of a record: an end, damage, a problem. NotAuthorized."""
    error = message.error()
    code = error.code()
    if code == KafkaError._PARTITION_EOF:
        found.end = message.offset()
    elif code in _DAMAGE:
        found.damaged.append((message.offset(), error.str()))
    elif code in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE):
        found.lost = True
    elif code in _RIGHTS:
        denied = f"the cluster denied it ({error.str().rstrip('.')})"
        found.refused = str(MissingRight(denied, on_topic("READ", str(message.topic())), user))
    elif code in _LOGIN and message.topic() is not None:
        raise NotAuthorized(f"the cluster refused the login: {error.str()}")
    elif code not in _OF_GROUPS and code not in _LOGIN:
        found.problem = error.str()


class OffsetAsker:
    """Requests offsets from partition leaders by librdkafka's admin client. May be used from several threads."""

    def __init__(self, config: Mapping[str, Any], user: str) -> None:
        self._config = {**config, "log_level": 2}
        self._user = user
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None

    def offsets(
        self, wanted: Mapping[partitions.TopicPartition, int], *, committed: bool, timeout: float
    ) -> tuple[dict[partitions.TopicPartition, ListedOffset], str]:
        """The offset of each partition at a timestamp (ms), -2 (earliest) or -1 (latest); and why some are missing.

        NotAuthorized.
        """
        if not wanted:
            return {}, ""
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        asked = {TopicPartition(*key): _spec(time_or_end) for key, time_or_end in wanted.items()}
        try:
            admin = self._client()
        except ClusterUnreachable as unreachable:
            return {}, str(unreachable)
        found: dict[partitions.TopicPartition, ListedOffset] = {}
        missing = ""
        until = time.monotonic() + timeout
        futures: Mapping[TopicPartition, Future[Any]] = admin.list_offsets(
            asked, isolation_level=level, request_timeout=timeout
        )
        for place, future in futures.items():
            try:
                listed = future.result(max(0.1, until + 1 - time.monotonic()))
            except KafkaException as problem:
                error = problem.args[0]
                if error.code() in _RIGHTS:
                    reason = error.str().rstrip(".")
                    denied = f"the cluster denied the offsets of {place.topic}-{place.partition} ({reason})"
                    raise MissingRight(denied, on_topic("DESCRIBE", place.topic), self._user) from None
                missing = f"{place.topic}-{place.partition}: {error.str()}"
            except TimeoutError:
                missing = "no answer"
            else:
                key = partitions.TopicPartition(place.topic, place.partition)
                if listed.offset < 0 and (listed.offset != _NO_RECORD or wanted[key] < 0):
                    # If the leader has just gone, librdkafka gives -1001 and no error. Each log has a beginning and an end.
                    missing = f"{place.topic}-{place.partition}: its leader did not report an offset"
                    continue
                epoch = -1 if listed.leader_epoch is None else listed.leader_epoch
                found[key] = ListedOffset(None if listed.offset < 0 else listed.offset, epoch)
        if missing:
            # The client keeps using the leader epoch that it once learnt, also when brokers refuse it. A new one learns it.
            with self._lock:
                if self._admin is admin:
                    self._admin = None
        return found, missing

    def topic_ids(self, topics: Sequence[str], timeout: float) -> dict[str, str]:
        """The ids of these topics, as text, from brokers that have ids (Kafka 2.8 on). An absent topic has none."""
        from confluent_kafka import TopicCollection  # noqa: PLC0415 — only this call needs it

        found = {}
        for topic, future in (
            self._client().describe_topics(TopicCollection(list(topics)), request_timeout=timeout).items()
        ):
            try:
                found[topic] = str(future.result(timeout + 1).topic_id)
            except (KafkaException, TimeoutError):
                continue
        return found

    def _client(self) -> AdminClient:
        with self._lock:
            if self._admin is None:
                first_token(self._config, _FIRST_TOKEN_S)
                self._admin = AdminClient(self._config, logger=_quiet)
            return self._admin


def _spec(wanted: int) -> OffsetSpec:
    if wanted == _EARLIEST:
        return OffsetSpec.earliest()
    return OffsetSpec.latest() if wanted == _LATEST else OffsetSpec.for_timestamp(wanted)


class RecordReaders:
    """A pool of readers of one cluster, because a new one has to connect first. `properties`: of a Java consumer.

    `user`: who logs in, for errors; `statistics`: readers count the bytes they receive. Raises ConfigError; connects at the
    first use.
    """

    def __init__(
        self, properties: Mapping[str, str], user: str, *, committed: bool, client_id: str, statistics: bool
    ) -> None:
        config = librdkafka_config(properties, "consumer", client_id)
        self._make: Callable[[], RecordReader] = lambda: RecordReader(
            config, user, committed=committed, statistics=statistics
        )
        self.asker = OffsetAsker(librdkafka_config(properties, "admin", client_id), user)
        self._free: list[RecordReader] = []
        self._all: list[RecordReader] = []
        self._lock = threading.Lock()

    def take(self) -> RecordReader:
        """A reader that nobody uses. NotAuthorized, ClusterUnreachable: a new one has no token for its login."""
        with self._lock:
            if self._free:
                return self._free.pop()
        reader = self._make()
        with self._lock:
            self._all.append(reader)
        return reader

    def give_back(self, reader: RecordReader) -> None:
        """The reader is no longer used."""
        reader.rest()
        with self._lock:
            self._free.append(reader)

    def close(self) -> None:
        """Closes all readers."""
        with self._lock:
            readers, self._all, self._free = self._all, [], []
        for reader in readers:
            reader.close()
