"""One cluster as `--follow` reads it: single fetches of limited size by the copier's protocol code, batches as they are.

This is the cheapest way. It shares code with the copier. The comparison of a whole link must not, so it reads by
cluster_logs.py.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.rights import MissingRight, on_topic, user_at
from mirror_connect.kafka_io.client.cluster import Cluster, Leader
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch, whole_batches
from mirror_connect.kafka_io.consumer.fetch_state import LEADERSHIP_ERRORS
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, error_name
from mirror_connect.kafka_io.protocol.fetch import Fetch, FetchPartition
from mirror_connect.kafka_io.protocol.log_offsets import ListOffsets
from mirror_connect.verify.clusters import ClusterRole
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.rate import Rate

FETCH_BYTES: Final = 1 << 20
# How long a partition that can't be read may take to recover: a restarted broker needs that.
PATIENCE_S: Final = 30.0
_RETRY_S: Final = 0.5


class _Throttled(Exception):
    """The broker throttles for so many seconds, and its answer says nothing."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class ClusterReader:
    """One cluster. `committed`: only what readers of committed records see."""

    def __init__(
        self,
        role: ClusterRole,
        properties: Mapping[str, str],
        *,
        committed: bool,
        rate: Rate,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.role = role
        self.committed = committed
        self.rate = rate
        self._patience_s = patience_s
        self._cluster = Cluster(properties, client_id="mirror-connect-verify")

    async def open(self, topics: Iterable[str]) -> None:
        """Connects and reads the leaders. ClusterUnreachable, NotAuthorized."""
        await self._cluster.connect()
        await self._cluster.refresh(topics)

    async def close(self) -> None:
        """Closes the connections."""
        await self._cluster.close()

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, bytes | None]:
        """The present id of each topic; None without one. It also refreshes the leaders.

        ClusterUnreachable, NotAuthorized.
        """
        wanted = sorted(set(topics))
        if wanted:
            await self._cluster.refresh(wanted)
        return {topic: self._cluster.topic_id(topic) for topic in wanted}

    def has(self, key: TopicPartition) -> bool:
        """Whether the partition existed at the last refresh of its topic."""
        return key[1] < (self._cluster.partition_count(key[0]) or 0)

    async def offsets(
        self, wanted: Mapping[TopicPartition, int], *, open_too: bool = False
    ) -> dict[TopicPartition, int | None]:
        """The offset at a timestamp (ms), EARLIEST or LATEST of each partition; None if no record is as late.

        For readers of committed records LATEST is before the first open transaction, but not with `open_too`.
        CannotCompareError.
        """
        found: dict[TopicPartition, int | None] = {}
        committed = self.committed and not open_too

        async def ask() -> bool:
            by_node: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
            for key, timestamp in wanted.items():
                if key not in found:
                    leader = self._leader(key)
                    by_node.setdefault(leader.node_id, {})[key] = timestamp, leader.epoch
            for node, asked in by_node.items():
                for each in await self._cluster.send(node, ListOffsets(asked, read_committed=committed)):
                    if each.error == ErrorCode.NONE:
                        found[TopicPartition(each.topic, each.partition)] = None if each.offset < 0 else each.offset
                    elif each.error not in LEADERSHIP_ERRORS:
                        raise CannotCompareError(self._refused(each.topic, each.partition, each.error))
            return len(found) == len(wanted)

        await self._patiently({topic for topic, _ in wanted}, ask)
        return found

    async def fetch(
        self, key: TopicPartition, offset: int, *, hidden_too: bool = True, most: int = FETCH_BYTES
    ) -> CompletedFetch | None:
        """About `most` bytes from `offset` on; None at the end, and where the log has nothing any more. CannotCompareError.

        `hidden_too`: records that an open transaction hides count as the end; otherwise they are an error.
        """
        answers: list[CompletedFetch | None] = []

        async def ask() -> bool:
            leader = self._leader(key)
            wanted = FetchPartition(*key, offset, most, leader.epoch)
            request = Fetch([wanted], 100, 1, most, read_committed=self.committed)
            # Not on the connection for fetches, where it would wait behind one that waits for new records.
            answer = await self._cluster.send(leader.node_id, request)
            # A quota: a broker that throttles names no partition, or none of its records, and says nothing of the log's end.
            part = answer.partitions[0] if answer.partitions else None
            if part is None or (answer.throttle_ms > 0 and not part.records and offset < part.high_watermark):
                raise _Throttled(answer.throttle_ms / 1000)
            if part.error in LEADERSHIP_ERRORS:
                return False
            if part.error not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                raise CannotCompareError(self._refused(*key, part.error))
            size, following = whole_batches(part.records)[:2]
            if not size and not hidden_too and 0 <= part.last_stable_offset <= offset < part.high_watermark:
                raise CannotCompareError(
                    f"{self.role} partition {key}: an open transaction hides what is there from offset {offset} on"
                )
            whole = CompletedFetch(key, part.records[:size], offset, following, -1, -1, -1, part.aborted)
            answers.append(whole if size else None)
            return True

        await self._patiently({key.topic}, ask)
        return answers[0]

    def _leader(self, key: TopicPartition) -> Leader:
        leader = self._cluster.leader(*key)
        if leader is None:
            raise ConnectionLost(f"partition {key[0]}-{key[1]} of the {self.role} has no leader")
        return leader

    def _refused(self, topic: str, partition: int, error: int) -> str:
        what = f"{self.role} partition {topic}-{partition} can't be read: {error_name(error)}"
        if error != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return what
        return str(MissingRight(what, on_topic("READ", topic), user_at(self.role)))

    async def _patiently(self, topics: Iterable[str], ask: Callable[[], Awaitable[bool]]) -> None:
        """Calls `ask` until it returns True: leaders may move, brokers restart. CannotCompareError."""
        until = time.monotonic() + self._patience_s
        why = "leaders are changing"
        while True:
            try:
                if await ask():
                    return
            except _Throttled as throttled:
                # It answers, and says for how long it wants to hear nothing.
                until = time.monotonic() + self._patience_s + throttled.seconds
                await asyncio.sleep(throttled.seconds)
            except ConnectionLost as error:
                why = str(error)
            if time.monotonic() > until:
                raise CannotCompareError(f"the {self.role} cluster does not answer: {why}")
            await asyncio.sleep(_RETRY_S)
            try:
                await self._cluster.refresh(topics)
            except ClusterUnreachable as error:
                why = str(error)
