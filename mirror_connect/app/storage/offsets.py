"""The offset topic: how far tasks have come, by connector and source partition (FORMATS.md §5).

Keys are looked up by their exact bytes, as Kafka's workers do: the member order of the partition is part of the
identity. Task positions are written by the tasks' own producers; this store reads them, and writes what REST alters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mirror_connect.app.storage import json_text
from mirror_connect.app.storage.topic_log import TopicLog
from mirror_connect.connectors.records.copied_acls import is_acl_partition
from mirror_connect.connectors.records.positions import PositionOrigin, parse_position_headers
from mirror_connect.kafka_io.consumer.topic_log_io import LogRecord

Partition = Mapping[str, Any]
Offset = Mapping[str, Any]

# Below the 30 s for which a task waits for the answer: it asks again, and its status says meanwhile what it waits for.
POSITIONS_PATIENCE_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One stored position, as `GET …/offsets` lists it."""

    partition: Partition
    offset: Offset


def offset_key(connector: str, partition: Partition | None) -> bytes:
    """The record key; `partition` must have the member order of connectors/config/java_maps.py."""
    return json_text.encode([connector, None if partition is None else dict(partition)])


def offset_value(offset: Offset | None) -> bytes | None:
    """The record value; None is the tombstone that forgets a position."""
    return None if offset is None else json_text.encode(dict(offset))


def record_size(connector: str, partition: Partition | None, offset: Offset | None) -> int:
    """Bytes of the record."""
    return len(offset_key(connector, partition)) + len(offset_value(offset) or b"")


class OffsetStore:
    """An offset topic, the worker's own or that of another cluster.

    `patience_s`: how long `positions` waits for the topic's end, which an open transaction may hold up.
    """

    def __init__(self, topic_log: TopicLog, patience_s: float = POSITIONS_PATIENCE_S) -> None:
        self._log = topic_log
        self._patience_s = patience_s
        self._values: dict[bytes, bytes] = {}
        # Of those that a task of ours wrote; Kafka's workers and REST tell of none.
        self._origins: dict[bytes, PositionOrigin] = {}

    async def start(self) -> None:
        """Read the topic to its end and follow it."""
        self._values, self._origins = {}, {}
        await self._log.start(self._receive)

    async def stop(self) -> None:
        """Stop following the topic."""
        await self._log.stop()

    async def positions(self, connector: str, partitions: Iterable[Partition]) -> list[Offset | None]:
        """The stored offset of each partition, in their order; None where there is none.

        Reads to the end first, so a position written and acknowledged before the call is never missed: who starts
        a task calls this after fencing its predecessor, which also ends the transaction that this one may have left open.
        Raises ClusterUnreachable, NotAuthorized.
        """
        await self._log.read_to_end(self._patience_s)
        values = (self._values.get(offset_key(connector, partition)) for partition in partitions)
        return [json_text.decode_object(value) for value in values]

    def origins(self, connector: str, partitions: Iterable[Partition]) -> list[PositionOrigin]:
        """What each position is of, as far as its writer said. As last read: ask right after `positions`."""
        return [self._origins.get(offset_key(connector, partition), PositionOrigin()) for partition in partitions]

    async def entries(self, connector: str) -> list[OffsetEntry]:
        """Every position stored for a connector, whatever the member order of the keys."""
        return [each for each in await self._all(connector) if not is_acl_partition(each.partition)]

    async def notes(self, connector: str) -> list[OffsetEntry]:
        """What is stored beside a connector's positions and is none: the ACLs that it has copied."""
        return [each for each in await self._all(connector) if is_acl_partition(each.partition)]

    async def _all(self, connector: str) -> list[OffsetEntry]:
        await self._log.read_to_end()
        stored = [(key, self._values[key]) for key in self._keys(connector)]
        # There may be a hundred thousand of them, which take a while to parse.
        return await asyncio.to_thread(_entries, stored)

    async def put(self, connector: str, offsets: Iterable[tuple[Partition | None, Offset | None]]) -> None:
        """Write positions, or notes; None forgets one. Positions only while no task of the connector runs."""
        await self._log.append_all([(offset_key(connector, part), offset_value(offset)) for part, offset in offsets])
        await self._log.read_to_end()

    async def forget(self, connector: str) -> None:
        """Forget everything stored for a connector, keys that Java would spell otherwise and notes too. Only as `put`."""
        await self._log.read_to_end()
        await self._log.append_all([(key, None) for key in self._keys(connector)])
        await self._log.read_to_end()

    def _keys(self, connector: str) -> list[bytes]:
        # As every writer of such keys spells the name; what is behind it may be in any order.
        beginning = json_text.encode([connector])[:-1] + b","
        return [key for key in self._values if key.startswith(beginning)]

    def _receive(self, record: LogRecord) -> None:
        if record.key is None:
            return
        if record.value is None:
            self._values.pop(record.key, None)
        else:
            self._values[record.key] = record.value
        origin = parse_position_headers(record.headers) if record.headers and record.value is not None else None
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
