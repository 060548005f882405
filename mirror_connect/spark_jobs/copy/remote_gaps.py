"""Finds out what lies between two batches of ours in a remote partition: records of somebody else, or only markers.

Each end of a transaction writes a marker into its partitions, and a marker takes an offset. A Java task that was replaced,
or a producer of users, may leave one between our batches. It is no record, so nobody has to be told about it. The broker
shows which it is: the headers of the batches there are read. The user of the task may lack the right to read the topic.
Then a gap of one offset counts as a marker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from mirror_connect.kafka_io.protocol.fetch import Fetch, FetchPartition
from mirror_connect.kafka_io.records.record_batch import BatchReader, CorruptBatchError

_READ_BYTES: Final = 1 << 16
# A topic with many transactions has a gap after each of our batches. One look in so many seconds is enough.
_PAUSE_S: Final = 1.0


class RemoteGaps:
    """Looks at one gap at a time; others that are found meanwhile are not looked at.

    `on_records(partition, offset, count)`: the first records in a gap that aren't ours.
    """

    def __init__(self, target: Cluster, on_records: Callable[[TaskPartition, int, int], None]) -> None:
        self._target = target
        self._on_records = on_records
        self._looking: asyncio.Task[None] | None = None
        self._over = False

    def found(self, partition: TaskPartition, offset: int, count: int) -> None:
        """`count` offsets of this partition, from `offset` on, are not ours."""
        if not self._over and (self._looking is None or self._looking.done()):
            self._looking = asyncio.create_task(self._look(partition, offset, count), name="gap")

    async def close(self) -> None:
        """Ends the look under way."""
        self._over = True
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)

    async def _look(self, partition: TaskPartition, offset: int, count: int) -> None:
        try:
            first = await self._first_record(partition, offset, offset + count)
        except (ClusterUnreachable, ConnectionLost, NotAuthorized, UnsupportedByBroker, CorruptBatchError, LookupError):
            first = offset if count > 1 else None
        if first is not None:
            self._over = True
            self._on_records(partition, first, offset + count - first)
        else:
            await asyncio.sleep(_PAUSE_S)

    async def _first_record(self, partition: TaskPartition, offset: int, end: int) -> int | None:
        """The first offset of a batch with records; None if there are only markers. LookupError if it can't be read."""
        while offset < end:
            leader = self._target.leader(*partition.target)
            if leader is None:
                raise LookupError
            wanted = FetchPartition(*partition.target, offset, _READ_BYTES)
            request = Fetch([wanted], max_wait_ms=0, min_bytes=0, max_bytes=_READ_BYTES)
            answer = await self._target.send(leader.node_id, request, purpose="fetch")
            if answer.error or not answer.partitions or answer.partitions[0].error != ErrorCode.NONE:
                raise LookupError
            behind = offset
            reader = BatchReader(answer.partitions[0].records)
            while behind < end and (view := reader.next()) is not None:
                if view.base_offset >= end:
                    return None
                if not view.is_control:
                    first: int = max(view.base_offset, offset)
                    return first
                behind = max(behind, view.last_offset + 1)
            if behind == offset:
                return None  # compaction or retention has removed what was there
            offset = behind
        return None
