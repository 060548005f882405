"""Writes offset syncs, best effort: to the source or the target cluster, by a producer of its own.

If the topic can't be written to, that is one problem, and records are still copied. Meanwhile the newest syncs of each
partition and some before them wait (connectors/records/offset_syncs.py). There is one request at a time, ten a second at
most. Sequences aren't used: a repeated sync does no harm, and the right to use them may be missing at the source.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.loop_slices import slices
from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.connectors.records.offset_syncs import OffsetSync, OffsetSyncQueue
from mirror_connect.connectors.rights import MissingRight, on_topic, to_create
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.client.copier_settings import producer_settings
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, reason
from mirror_connect.kafka_io.protocol.produce import Produce, ProducePartition
from mirror_connect.kafka_io.records.batch_builder import BatchBuilder
from mirror_connect.kafka_io.records.record_batch import NewRecord, stamp

PACE_S: Final = 0.1
BACKOFF_S: Final = 1.0
BACKOFF_MAX_S: Final = 30.0
# A new topic is soon known to all brokers: no problem yet.
QUIET_TRIES: Final = 3
# Syncs have some 100 bytes each, so a request stays far below the brokers' limit.
SYNCS_IN_REQUEST: Final = 2_000
SYNCS_IN_SLICE: Final = 400
_NO_PRODUCER: Final = -1


class _NotWritten(Exception):
    """The syncs were not written. The text says why, in one line."""


class OffsetSyncs:
    """The syncs of one task. `queue` gets acknowledged records; `run` writes until cancelled and never raises.

    `before_write`: called before the waiting syncs are taken from `queue`; it may add to them.
    `properties`: Java producer properties. `where` and `user` are for texts: "source cluster A", and who logs in there.
    `problem`: set while the topic can't be written to.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        client_id: str,
        topic: str,
        where: str,
        lag_max: int,
        *,
        user: str,
        lease: Callable[[], bool],
        problems: Problems,
        counters: MutableMapping[str, int],
    ) -> None:
        self.queue = OffsetSyncQueue(lag_max)
        self.before_write: Callable[[], Awaitable[None]] | None = None
        self._cluster = Cluster(properties, client_id, "producer")
        self._timeout_ms = producer_settings(properties).request_timeout_ms
        self._topic = topic
        self._where = where
        self._user = user
        self._lease = lease
        self._problems = problems
        self._counters = counters
        self._writing = asyncio.Lock()
        self._failures = 0
        self.problem: Problem | None = None

    async def run(self) -> None:
        """Writes waiting syncs, again and again."""
        while True:
            await asyncio.sleep(PACE_S if not self._failures else self._pause())
            await self._write()

    async def flush(self, seconds: float) -> None:
        """Writes waiting syncs, if that is possible in so little time."""
        if not self._failures:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._write()

    async def close(self) -> None:
        """Closes the connection."""
        await self._cluster.close()

    async def _write(self) -> None:
        async with self._writing:
            if not self._lease():
                return
            if self.before_write is not None:
                await self.before_write()
            syncs = self.queue.take()
            try:
                while syncs:
                    written = syncs[:SYNCS_IN_REQUEST]
                    await self._send(written)
                    del syncs[: len(written)]
                    self._counters["syncs"] = self._counters.get("syncs", 0) + len(written)
                    self._recovered()
            except (ClusterUnreachable, ConnectionLost, NotAuthorized, UnsupportedByBroker, _NotWritten) as error:
                self._failed(str(error))
            finally:
                # The queue keeps only the newest of them. If the topic has them after all, readers would take repeated
                # older ones for a rewind.
                self.queue.give_back(syncs)

    async def _send(self, syncs: list[OffsetSync]) -> None:
        leader = None if self._failures else self._cluster.leader(self._topic, 0)
        if leader is None:
            await self._cluster.refresh([self._topic])
            leader = self._cluster.leader(self._topic, 0)
        if leader is None:
            code = self._cluster.topic_error(self._topic)
            raise _NotWritten(self._explained(code, "") if code else "it has no leader")
        now = int(time.time() * 1000)
        builder = BatchBuilder()
        for part in slices(syncs, SYNCS_IN_SLICE):
            if builder.count:
                await asyncio.sleep(0)
            for sync in part:
                builder.add(NewRecord(sync.key(), sync.value(), now))
        payload = stamp(builder.batch(), _NO_PRODUCER, -1, -1)
        request = Produce([ProducePartition(self._topic, 0, [payload])], timeout_ms=self._timeout_ms)
        answer = await self._cluster.send(leader.node_id, request, purpose="produce")
        for entry in answer.partitions:
            if entry.error:
                raise _NotWritten(self._explained(entry.error, entry.message))

    def _failed(self, why: str) -> None:
        self._failures += 1
        if self._failures > QUIET_TRIES and self.problem is None:
            self.problem = Problem(
                self._topic,
                ProblemCode.OFFSET_SYNCS_UNWRITTEN,
                f"Offset syncs can't be written to topic {self._topic} on the {self._where}",
                why,
                "it is tried again. Copying continues, but Kafka's own readers can't translate newer positions",
            )
            self._problems.report(self.problem)

    def _recovered(self) -> None:
        if self.problem is not None:
            again = f"Offset syncs are written again to topic {self._topic} on the {self._where}"
            self._problems.resolve(self._topic, ProblemCode.OFFSET_SYNCS_UNWRITTEN, line=again)
        self._failures, self.problem = 0, None

    def _pause(self) -> float:
        return min(BACKOFF_S * 2.0 ** min(self._failures - 1, 10), BACKOFF_MAX_S)

    def _explained(self, code: int, message: str) -> str:
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return f"it does not exist there; its connector creates it: {to_create(self._topic).grant(self._user)}"
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return str(MissingRight("not authorized", on_topic("WRITE", self._topic), self._user))
        return reason(code, message)
