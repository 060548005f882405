"""The offset topic: the source offsets of each connector (docs/internal-formats.md, section 5).

Like Kafka's workers, this store finds keys by their exact bytes: the member order of the partition is part of the identity.
The tasks' own producers write source offsets. This store reads them, and writes what REST changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from mirror_connect.app.storage import json_text
from mirror_connect.app.storage.topic_log import TopicLog
from mirror_connect.connectors.records.copied_acls import is_acl_partition
from mirror_connect.connectors.records.source_offsets import OffsetOrigin, parse_source_offset_headers
from mirror_connect.kafka_io.consumer.topic_tail import LogRecord

Partition = Mapping[str, Any]
Offset = Mapping[str, Any]

# Less than the 30 s that a task waits for the answer: it asks again, and its status shows meanwhile what it waits for.
SOURCE_OFFSETS_PATIENCE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One stored source offset, as `GET …/offsets` lists it."""

    partition: Partition
    offset: Offset


def offset_key(connector: str, partition: Partition | None) -> bytes:
    """The record key; `partition` must have the member order of connectors/config/java_maps.py."""
    return json_text.encode([connector, None if partition is None else dict(partition)])


def offset_value(offset: Offset | None) -> bytes | None:
    """The record value; None is the tombstone that removes a source offset."""
    return None if offset is None else json_text.encode(dict(offset))


def record_size(connector: str, partition: Partition | None, offset: Offset | None) -> int:
    """The size of the record's key and value in bytes."""
    return len(offset_key(connector, partition)) + len(offset_value(offset) or b"")


class SourceOffsetStore(Protocol):
    """Where the source offsets of a connector are. All methods that wait raise ClusterUnreachable, NotAuthorized."""

    async def source_offsets(self, connector: str, partitions: Iterable[Partition]) -> list[Offset | None]:
        """The stored offset of each partition, in their order; None if there is none.

        Reads to the end first, so it never misses a source offset that was acknowledged before the call. When a task
        starts, its predecessor is fenced before this call; that also ends the transaction that it may have left open.
        """

    def origins(self, connector: str, partitions: Iterable[Partition]) -> list[OffsetOrigin]:
        """The origin of each source offset, if its writer stored one. As last read: call right after `source_offsets`."""

    async def entries(self, connector: str) -> list[OffsetEntry]:
        """Every source offset stored for a connector, whatever the member order of the keys."""

    async def notes(self, connector: str) -> list[OffsetEntry]:
        """The ACLs that a connector has copied, which are stored with its source offsets."""

    async def put(
        self, connector: str, offsets: Iterable[tuple[Partition | None, Offset | None]], transactional_id: str = ""
    ) -> None:
        """Writes source offsets or notes; None removes one. Source offsets only while no task of the connector runs.

        With a transactional id it is one transaction of this id, which fences the task that had it.
        """

    async def forget(self, connector: str, transactional_id: str = "") -> None:
        """Removes all records of a connector, also notes and keys in another member order. Only when `put` is allowed."""


# Writes records in one transaction of a transactional id, after it has fenced other producers with this id.
InTransaction = Callable[[str, Sequence[tuple[bytes, bytes | None]]], Awaitable[None]]


class OffsetStore:
    """An offset topic, the worker's own or one of another cluster. Implements SourceOffsetStore.

    `patience_s`: how long `source_offsets` waits for the topic's end, which an open transaction may delay.
    `in_transaction`: None if nothing here is written in transactions.
    """

    def __init__(
        self,
        topic_log: TopicLog,
        patience_s: float = SOURCE_OFFSETS_PATIENCE_S,
        in_transaction: InTransaction | None = None,
    ) -> None:
        self._log = topic_log
        self._patience_s = patience_s
        self._in_transaction = in_transaction
        self._values: dict[bytes, bytes] = {}
        # Only for source offsets that our tasks wrote; Kafka's workers and REST write no origin.
        self._origins: dict[bytes, OffsetOrigin] = {}

    async def start(self) -> None:
        """Reads the topic to its end and follows it."""
        self._values, self._origins = {}, {}
        await self._log.start(self._receive)

    async def stop(self) -> None:
        """Stops following the topic."""
        await self._log.stop()

    async def source_offsets(self, connector: str, partitions: Iterable[Partition]) -> list[Offset | None]:
        """See SourceOffsetStore."""
        await self._log.read_to_end(self._patience_s)
        values = (self._values.get(offset_key(connector, partition)) for partition in partitions)
        return [json_text.decode_object(value) for value in values]

    def origins(self, connector: str, partitions: Iterable[Partition]) -> list[OffsetOrigin]:
        """See SourceOffsetStore."""
        return [self._origins.get(offset_key(connector, partition), OffsetOrigin()) for partition in partitions]

    async def entries(self, connector: str) -> list[OffsetEntry]:
        """See SourceOffsetStore."""
        return [each for each in await self._all(connector) if not is_acl_partition(each.partition)]

    async def notes(self, connector: str) -> list[OffsetEntry]:
        """See SourceOffsetStore."""
        return [each for each in await self._all(connector) if is_acl_partition(each.partition)]

    async def _all(self, connector: str) -> list[OffsetEntry]:
        await self._log.read_to_end()
        stored = [(key, self._values[key]) for key in self._keys(connector)]
        # To parse a hundred thousand of them takes a while.
        return await asyncio.to_thread(_entries, stored)

    async def put(
        self, connector: str, offsets: Iterable[tuple[Partition | None, Offset | None]], transactional_id: str = ""
    ) -> None:
        """See SourceOffsetStore."""
        entries = [(offset_key(connector, part), offset_value(offset)) for part, offset in offsets]
        await self._write(entries, transactional_id)

    async def forget(self, connector: str, transactional_id: str = "") -> None:
        """See SourceOffsetStore."""
        await self._log.read_to_end()
        await self._write([(key, None) for key in self._keys(connector)], transactional_id)

    async def _write(self, entries: Sequence[tuple[bytes, bytes | None]], transactional_id: str) -> None:
        if not transactional_id:
            await self._log.append_all(entries)
        elif entries:
            assert self._in_transaction is not None
            await self._in_transaction(transactional_id, entries)
        await self._log.read_to_end()

    def _keys(self, connector: str) -> list[bytes]:
        # Every writer of such keys writes the name in the same way; the members behind it may be in any order.
        beginning = json_text.encode([connector])[:-1] + b","
        return [key for key in self._values if key.startswith(beginning)]

    def _receive(self, record: LogRecord) -> None:
        if record.key is None:
            return
        if record.value is None:
            self._values.pop(record.key, None)
        else:
            self._values[record.key] = record.value
        origin = parse_source_offset_headers(record.headers) if record.headers and record.value is not None else None
        if origin is not None:
            self._origins[record.key] = origin
        else:
            self._origins.pop(record.key, None)


def _entries(stored: Iterable[tuple[bytes, bytes]]) -> list[OffsetEntry]:
    found = []
    for key, value in stored:
        match json_text.decode(key), json_text.decode_object(value):
            case [[str(), dict(partition)], dict(offset)]:
                found.append(OffsetEntry(partition, offset))
    return found
