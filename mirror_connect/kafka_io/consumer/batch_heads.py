"""Reads the headers of a log's batches, to compare logs: offsets without records, and the producer of each batch.

It also reads where a leader epoch ended: librdkafka's consumer requests that too, but does not show it.

Requests go over aiokafka's connections, and the batches are parsed here. No code is shared with copying.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from aiokafka.abc import AbstractTokenProvider
from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import KafkaError
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.types import Array, Int16, Int32, Int64, Schema, String

from mirror_connect.kafka_io.client.client_settings import ConnectionSettings, connection_settings
from mirror_connect.kafka_io.client.wrong_protocol import protocol_of

_SIZE_AT: Final = struct.Struct(">qi")
_HEAD: Final = struct.Struct(">qiibIhiqqqhii")
_MAGIC_AT: Final = 16
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20
_WAIT_MS: Final = 100
_OUT_OF_RANGE: Final = 1


class BatchHead(NamedTuple):
    """A batch: its first and last offset, number of records, and producer id and epoch (-1, -1: unknown).

    `aborted`: it may belong to a transaction that was aborted. Of formats before v2 only `last` is known, and `records`
    is -1.
    """

    first: int
    last: int
    records: int
    producer: tuple[int, int]
    control: bool
    aborted: bool


class HeadsUnknown(Exception):
    """The broker did not give the answer; the text says why, in one line."""


class BatchHeads:
    """Batch headers of one cluster. `properties`: of a Java consumer. Raises ConfigError; connects at the first call."""

    def __init__(self, properties: Mapping[str, str], client_id: str) -> None:
        self._settings = connection_settings(properties, client_id)
        self._connections: dict[tuple[str, int], AIOKafkaConnection] = {}
        self._one_at_a_time = asyncio.Lock()

    async def read(
        self, broker: tuple[str, int], place: tuple[str, int], offset: int, most: int, *, committed: bool
    ) -> tuple[list[BatchHead] | None, int]:
        """The batches in about `most` bytes of a partition from `offset` on, and their size in bytes. HeadsUnknown.

        `committed`: only up to the last stable offset, and with the aborted transactions. None if the log does not have
        this offset (any more).
        """
        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                    connection = await self._connection(broker)
                    asked = [(place[0], [(place[1], offset, most)])]
                    answer = await connection.send(FetchRequest(_WAIT_MS, 1, most, int(committed), asked))
            except (KafkaError, OSError, TimeoutError, struct.error) as error:
                self._drop(broker)
                raise HeadsUnknown(f"broker {broker[0]}:{broker[1]}: {str(error) or type(error).__name__}") from None
        part = dict(zip(*_named(answer), strict=False))
        if part["error_code"] == _OUT_OF_RANGE:
            return None, 0
        if part["error_code"]:
            self._drop(broker)
            raise HeadsUnknown(f"broker {broker[0]}:{broker[1]} answered with error {part['error_code']}")
        data = bytes(part["message_set"] or b"")
        aborted = {producer for producer, _ in part["aborted_transactions"] or ()}
        return heads(data, aborted), len(data)

    async def epoch_end(self, broker: tuple[str, int], place: tuple[str, int], epoch: int) -> int | None:
        """Where the last epoch up to this one ended in the leader's log, None if it knows none. HeadsUnknown."""
        async with self._one_at_a_time:
            try:
                async with asyncio.timeout(self._settings.request_timeout_ms / 1000):
                    connection = await self._connection(broker)
                    answer = await connection.send(_AskForEpoch(place, epoch))
            except NotImplementedError:
                return None  # a broker before 2.3
            except (KafkaError, OSError, TimeoutError, struct.error) as error:
                self._drop(broker)
                raise HeadsUnknown(f"broker {broker[0]}:{broker[1]}: {str(error) or type(error).__name__}") from None
        ((_, ((code, _, _, end),)),) = answer.topics
        if code:
            self._drop(broker)
            raise HeadsUnknown(f"broker {broker[0]}:{broker[1]} answered with error {code}")
        return None if end < 0 else int(end)

    async def close(self) -> None:
        """Ends the connections."""
        for broker in list(self._connections):
            closed = self._connections.pop(broker).close()
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(1.0):
                    await closed

    def _drop(self, broker: tuple[str, int]) -> None:
        connection = self._connections.pop(broker, None)
        if connection is not None:
            connection.close()

    async def _connection(self, broker: tuple[str, int]) -> AIOKafkaConnection:
        known = self._connections.get(broker)
        if known is not None and known.connected():
            return known
        settings = self._settings
        connection = self._connections[broker] = await create_conn(
            *broker,
            client_id=settings.client_id,
            request_timeout_ms=settings.request_timeout_ms,
            ssl_context=settings.ssl_context,
            security_protocol=protocol_of(
                tls=settings.ssl_context is not None, login=settings.sasl_mechanism is not None
            ),
            sasl_mechanism=settings.sasl_mechanism,
            sasl_plain_username=settings.username,
            sasl_plain_password=settings.password,
            sasl_oauth_token_provider=None if settings.token_provider is None else _Tokens(settings),
        )
        return connection


class _EpochEndedV3(Response):  # type: ignore[misc]
    API_KEY = 23
    API_VERSION = 3
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                (
                    "partitions",
                    Array(("error_code", Int16), ("partition", Int32), ("leader_epoch", Int32), ("end_offset", Int64)),
                ),
            ),
        ),
    )


class _OffsetForLeaderEpochV3(RequestStruct):  # type: ignore[misc]
    API_KEY = 23
    API_VERSION = 3
    RESPONSE_TYPE = _EpochEndedV3
    SCHEMA = Schema(
        ("replica_id", Int32),
        (
            "topics",
            Array(
                ("topic", String("utf-8")),
                ("partitions", Array(("partition", Int32), ("current_leader_epoch", Int32), ("leader_epoch", Int32))),
            ),
        ),
    )


class _AskForEpoch(Request[_OffsetForLeaderEpochV3]):  # type: ignore[misc]
    """OffsetForLeaderEpoch, which aiokafka lacks."""

    API_KEY = 23

    def __init__(self, place: tuple[str, int], epoch: int) -> None:
        self._topics = [(place[0], [(place[1], -1, epoch)])]

    def build(self, request_struct_class: type[Any]) -> Any:
        return request_struct_class(-1, self._topics)


class _Tokens(AbstractTokenProvider):  # type: ignore[misc]
    """Our token provider, as the class that aiokafka demands."""

    def __init__(self, settings: ConnectionSettings) -> None:
        assert settings.token_provider is not None
        self._provider = settings.token_provider

    async def token(self) -> str:
        return await self._provider.token()

    def extensions(self) -> dict[str, str]:
        return self._provider.extensions()


def _named(answer: Any) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """Names and values of the one partition in the answer, in any version."""
    schema = answer.SCHEMA
    topics = dict(zip(schema.names, schema.fields, strict=True))["topics"].array_of
    partitions = dict(zip(topics.names, topics.fields, strict=True))["partitions"].array_of
    ((_, (values,)),) = answer.topics
    return partitions.names, values


def heads(data: bytes, aborted: set[int]) -> list[BatchHead]:
    """Headers of the batches in `data`; the last may be cut off. `aborted`: producers with aborted transactions."""
    found = []
    at = 0
    while len(data) - at > _MAGIC_AT:
        first, size = _SIZE_AT.unpack_from(data, at)
        if size <= 0:
            break
        if data[at + _MAGIC_AT] < 2:
            if at + _SIZE_AT.size + size > len(data):
                break
            found.append(BatchHead(first, first, -1, (-1, -1), control=False, aborted=False))
        elif len(data) - at < _HEAD.size:
            break
        else:
            # The header of a batch that is cut off is enough.
            _, _, _, _, _, attributes, delta, _, _, producer, epoch, _, count = _HEAD.unpack_from(data, at)
            found.append(
                BatchHead(
                    first,
                    first + delta,
                    count,
                    (producer, epoch),
                    control=bool(attributes & _CONTROL),
                    aborted=bool(attributes & _TRANSACTIONAL) and producer in aborted,
                )
            )
        at += _SIZE_AT.size + size
    return found
