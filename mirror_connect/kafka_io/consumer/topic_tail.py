"""Reads an internal topic from its beginning and then waits for more, in a thread, with a librdkafka consumer.

The consumer belongs to no group and commits nothing.
"""

from __future__ import annotations

import contextvars
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.rights import MissingRight, on_topic
from mirror_connect.kafka_io.consumer.log_clients import LogClients

log = logging.getLogger(__name__)

Deliver = Callable[[Sequence["LogRecord"], Mapping[int, int]], None]

_POLL_SECONDS: Final = 0.5
_AT_ONCE: Final = 1000
# How long a reader without a token waits before it requests one again.
_NO_TOKEN_PAUSE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record of the topic; `timestamp` in ms since the epoch, `value` None for a tombstone."""

    key: bytes | None
    value: bytes | None
    partition: int
    offset: int
    timestamp: int
    headers: Sequence[tuple[str, bytes | None]] = ()


class TopicTail:
    """A thread that reads the committed records of a topic, from its beginning until `stop`.

    `deliver` is called in that thread, with the records in order and the position (next offset) of each partition after
    them. Positions also move over transaction markers, which are not records. `empty_after_ms`: how long a broker without
    new records keeps a request; only its empty answer moves a position over a marker at the end.
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
        self._logged: set[int] = set()
        # Set while the right to read is missing.
        self.denied: MissingRight | None = None
        self._config = clients.librdkafka("consumer", f"{topic}-reader") | {
            "group.id": f"{topic}-reader",  # librdkafka demands one; it joins no group and commits nothing
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "queued.max.messages.kbytes": 16384,
            "fetch.wait.max.ms": empty_after_ms,
        }
        # Not OFFSET_BEGINNING: a new client does not know the leaders yet, and librdkafka would then look up the beginning
        # half a second later. Where the log begins above 0, auto.offset.reset leads to its beginning.
        self._beginning = [TopicPartition(topic, partition, 0) for partition in partitions]
        # In a copy of the context, so that log lines about what it delivers name the flow.
        run = contextvars.copy_context().run
        self._thread = threading.Thread(target=run, args=(self._run,), name=f"{topic}-reader", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops reading, and waits for the thread: usually half a second at most."""
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        consumer = self._create_consumer()
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

    def _create_consumer(self) -> Consumer | None:
        """Waits for a token where the login needs one. None if `stop` was called before that."""
        while not self._stopping.is_set():
            try:
                self._clients.get_ready(self._config, _POLL_SECONDS)
                return Consumer(self._config)
            except (NotAuthorized, ClusterUnreachable) as problem:
                self._warn_once(KafkaError._AUTHENTICATION, str(problem))
            except KafkaException as problem:
                self._clients.note_error(problem.args[0])
                self._note_error(problem.args[0])
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
                # The end may lie beyond the last record: transaction markers and compacted records have offsets too.
                positions[message.partition()] = message.offset()
            # librdkafka asks for the group's coordinator by itself, although it joins no group.
            elif error.code() != KafkaError.GROUP_AUTHORIZATION_FAILED:
                self._note_error(error)
        if positions:
            self.denied = None
            self._logged.clear()
            self._clients.recovered()
            self._deliver(records, positions)

    def _note_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            right = on_topic("READ", self._topic)
            self.denied = self._clients.denied(f"topic {self._topic} can't be read", error, right)
        self._warn_once(error.code(), str(self.denied or error.str()))

    def _warn_once(self, code: int, text: str) -> None:
        if code not in self._logged:
            self._logged.add(code)
            log.warning("Reading topic %s: %s", self._topic, text)


def _record(message: Message) -> LogRecord:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    try:
        headers = message.headers() or ()
    except UnicodeDecodeError:
        # All headers that this program writes have names in UTF-8.
        headers = ()
    return LogRecord(message.key(), message.value(), partition, offset, message.timestamp()[1], headers)
