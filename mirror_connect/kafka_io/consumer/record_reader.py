"""Records by librdkafka for who compares logs: a consumer without a group, offsets, leaders. Blocking, for an executor.

Nothing here is shared with what copies: fetching, checksums, decompression, decoding and the choice of what readers of
committed records see are librdkafka's. It shows neither transaction markers nor who wrote a record: batch_heads.py does.
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

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.rights import MissingRight, on_topic
from mirror_connect.kafka_io.client.client_settings import librdkafka_config
from mirror_connect.kafka_io.client.librdkafka_tokens import first_token, tokens_of

# (offset, timestamp in ms, (key, value, headers))
RecordContent = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
FoundRecord = tuple[int, int, RecordContent]

_EARLIEST: Final = -2
_LATEST: Final = -1
# What it answers where no record is as late as a timestamp.
_NO_RECORD: Final = -1
# What is fetched ahead for each partition that is read, unpacked; a fetch may go beyond it once.
_AHEAD_KB: Final = 8 << 10
_FETCH_BYTES: Final = 2 << 20
_AT_ONCE: Final = 2_000
_POLL_S: Final = 0.25
# What a token endpoint has for the first token of a client.
_FIRST_TOKEN_S: Final = 10.0
_STATISTICS_MS: Final = 500
_RIGHTS: Final = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})
_LOGIN: Final = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
# The consumer looks for a group's coordinator although it never joins: whether it may does not matter here.
_OF_GROUPS: Final = frozenset(
    {
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.NOT_COORDINATOR,
    }
)
# A batch that is not what its checksum or header says; reading goes on behind it.
_DAMAGE: Final = frozenset(
    {KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED, KafkaError.INVALID_MSG}
)
_quiet: Final = logging.getLogger("mirror_connect.librdkafka")
_quiet.setLevel(logging.CRITICAL + 1)


class ReadingTrouble(Exception):
    """The cluster doesn't tell now what was asked for; one line says why. It may in a moment."""


class Told(NamedTuple):
    """What a leader told of its log: an offset, None where no record is as late. `epoch`: -1 where it isn't known.

    It is the one that the leader leads in where the log's end was asked for, else that of the record.
    """

    offset: int | None
    epoch: int


@dataclass(slots=True)
class Found:
    """What one read brought. `end`: where the partition ended, if that was reached; offsets below it are read.

    `size`: bytes of keys, values and headers. `damaged`: (offset, reason) of batches that were left out.
    `lost`: the position is no offset of the log (any more). `trouble`: why nothing comes at present; `refused`: why
    nothing will.
    """

    records: list[FoundRecord] = field(default_factory=list)
    size: int = 0
    log_append_time: bool = False
    end: int | None = None
    damaged: list[tuple[int, str]] = field(default_factory=list)
    lost: bool = False
    trouble: str = ""
    refused: str = ""


class RecordReader:
    """One consumer, for one partition at a time. Not for two threads at once. Made off the event loop.

    NotAuthorized, ClusterUnreachable: there is no token to log in with.
    """

    def __init__(self, config: Mapping[str, Any], user: str, *, committed: bool, statistics: bool) -> None:
        self._received = 0
        self._user = user
        self._trouble: KafkaError | None = None
        self._tokens = tokens_of(config)
        first_token(config, _FIRST_TOKEN_S)
        self._consumer = Consumer(
            {
                **config,
                "group.id": "mirror-connect-verify",  # librdkafka wants one; nothing is ever joined or committed
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
                # So long it waits when enough was fetched ahead; its default of a second would be most of the time.
                "fetch.queue.backoff.ms": 5,
                # A partition is read as soon as its leader is known.
                "topic.metadata.refresh.fast.interval.ms": 20,
                "log_level": 2,
                "error_cb": self._noticed,
                **({"statistics.interval.ms": _STATISTICS_MS, "stats_cb": self._counted} if statistics else {}),
            },
            logger=_quiet,
        )

    @property
    def received(self) -> int:
        """Bytes that came over its connections so far, as the last statistics have it; 0 without."""
        return self._received

    def begin(self, topic: str, partition: int, offset: int) -> None:
        """Read this partition from `offset` on; what was read before is forgotten."""
        self._consumer.assign([TopicPartition(topic, partition, offset)])

    def rest(self) -> None:
        """Read nothing until the next `begin`."""
        self._consumer.unassign()

    def read(self) -> Found:
        """What there is, or comes within a quarter of a second. NotAuthorized."""
        first = self._consumer.poll(_POLL_S)
        if first is None:
            noticed, self._trouble = self._trouble, None
            if noticed is not None and noticed.code() in _LOGIN:
                problem = self._tokens.problem if self._tokens is not None else None
                if isinstance(problem, ClusterUnreachable):
                    return Found(trouble=str(problem))
                raise NotAuthorized(f"the cluster refused the login: {problem or noticed.str()}")
            return Found(trouble="" if noticed is None else noticed.str())
        self._trouble = None
        # Without waiting: so it is no more than what was fetched ahead.
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
                stamp = -1  # of format 0: shown as 0, which is a time, too
            append_time = append_time or kind == TIMESTAMP_LOG_APPEND_TIME
            records.append((message.offset(), stamp, (key, value, tuple(headers) if headers else ())))
        found.size, found.log_append_time = size, append_time
        return found

    def leader(self, topic: str, partition: int, timeout: float) -> tuple[str, int]:
        """Host and port of the partition's leader. ReadingTrouble."""
        try:
            found = self._consumer.list_topics(topic, timeout=timeout)
        except KafkaException as problem:
            raise ReadingTrouble(problem.args[0].str()) from None
        partitions = found.topics[topic].partitions
        broker = found.brokers.get(partitions[partition].leader) if partition in partitions else None
        if broker is None:
            raise ReadingTrouble(f"partition {topic}-{partition} has no leader")
        return broker.host, broker.port

    def close(self) -> None:
        """Ends its connections."""
        self._consumer.close()

    def _counted(self, statistics: str) -> None:
        self._received = json.loads(statistics).get("rx_bytes", 0)

    def _noticed(self, error: KafkaError) -> None:
        self._trouble = error


def _judge(message: Message, found: Found, user: str) -> None:
    """What comes in a record's place: an end, damage, trouble. NotAuthorized."""
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
    elif code in _LOGIN:
        raise NotAuthorized(f"the cluster refused the login: {error.str()}")
    elif code not in _OF_GROUPS:
        found.trouble = error.str()


class OffsetAsker:
    """Offsets of partitions, asked of their leaders by librdkafka's admin client. May be used from several threads."""

    def __init__(self, config: Mapping[str, Any], user: str) -> None:
        self._config = {**config, "log_level": 2}
        self._user = user
        self._lock = threading.Lock()
        self._admin: AdminClient | None = None

    def offsets(
        self, wanted: Mapping[tuple[str, int], int], *, committed: bool, timeout: float
    ) -> tuple[dict[tuple[str, int], Told], str]:
        """The offset at a timestamp (ms), -2 (earliest) or -1 (latest) of each partition; and why some are missing.

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
        found: dict[tuple[str, int], Told] = {}
        trouble = ""
        until = time.monotonic() + timeout
        futures: Mapping[TopicPartition, Future[Any]] = admin.list_offsets(
            asked, isolation_level=level, request_timeout=timeout
        )
        for place, future in futures.items():
            try:
                told = future.result(max(0.1, until + 1 - time.monotonic()))
            except KafkaException as problem:
                error = problem.args[0]
                if error.code() in _RIGHTS:
                    reason = error.str().rstrip(".")
                    denied = f"the cluster denied the offsets of {place.topic}-{place.partition} ({reason})"
                    raise MissingRight(denied, on_topic("DESCRIBE", place.topic), self._user) from None
                trouble = f"{place.topic}-{place.partition}: {error.str()}"
            except TimeoutError:
                trouble = "no answer"
            else:
                key = place.topic, place.partition
                if told.offset < 0 and (told.offset != _NO_RECORD or wanted[key] < 0):
                    # Of a leader that has just gone it tells -1001, and no error. Each log has a beginning and an end.
                    trouble = f"{place.topic}-{place.partition}: its leader has told no offset"
                    continue
                epoch = -1 if told.leader_epoch is None else told.leader_epoch
                found[key] = Told(None if told.offset < 0 else told.offset, epoch)
        if trouble:
            # It asks with the leader epoch it once learnt, and learns no newer one from being refused.
            with self._lock:
                if self._admin is admin:
                    self._admin = None
        return found, trouble

    def topic_ids(self, topics: Sequence[str], timeout: float) -> dict[str, str]:
        """The ids of these topics where the brokers give them (Kafka 2.8 on), as text; a topic that isn't there has none."""
        from confluent_kafka import TopicCollection  # noqa: PLC0415 — nothing else needs it

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
    """The readers of one cluster, which are used again: a new one has to connect first. `properties`: Java's, of a consumer.

    `user`: who logs in, for errors; `statistics`: readers know how many bytes they received. Raises ConfigError; connects to
    nothing before it is asked.
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
        """One that nobody uses. NotAuthorized, ClusterUnreachable: a new one has no token to log in with."""
        with self._lock:
            if self._free:
                return self._free.pop()
        reader = self._make()
        with self._lock:
            self._all.append(reader)
        return reader

    def give_back(self, reader: RecordReader) -> None:
        """It is no longer used."""
        reader.rest()
        with self._lock:
            self._free.append(reader)

    def close(self) -> None:
        """Ends all of them."""
        with self._lock:
            readers, self._all, self._free = self._all, [], []
        for reader in readers:
            reader.close()
