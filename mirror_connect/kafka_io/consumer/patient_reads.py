"""Offsets and single fetches of partitions, for readers that look at little: nothing is read ahead.

They wait for a restarted broker, for leaders that move, and as long as a quota says. Everything else is one line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.rights import MissingRight, on_topic, user_at
from mirror_connect.kafka_io.client.cluster import Cluster, Leader, Purpose
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.consumer.fetch_state import LEADERSHIP_ERRORS
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, error_name
from mirror_connect.kafka_io.protocol.fetch import Fetch, FetchedPartition, FetchPartition
from mirror_connect.kafka_io.protocol.log_offsets import ListOffsets

# How long a partition that can't be read may take to recover: a restarted broker needs that.
PATIENCE_S: Final = 30.0
_WAIT_MS: Final = 100
_RETRY_S: Final = 0.5


class _Throttled(Exception):
    """The broker throttles for so many seconds, and its answer says nothing."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class PatientReads:
    """Reads of one cluster, which is connected. They raise `failure` with one line for the user.

    `role`: source or target, for these lines. `patience_s`: for how long nothing may be answered.
    """

    def __init__(self, cluster: Cluster, role: str, failure: type[Exception], *, patience_s: float) -> None:
        self._cluster = cluster
        self._role = role
        self._failure = failure
        self._patience_s = patience_s

    async def offsets(
        self, wanted: Mapping[TopicPartition, int], *, committed: bool
    ) -> dict[TopicPartition, int | None]:
        """The offset at a timestamp (ms), EARLIEST or LATEST of each partition; None if no record is as late.

        `committed`: LATEST is before the first open transaction.
        """
        found: dict[TopicPartition, int | None] = {}

        async def ask() -> bool:
            by_node: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
            for key, timestamp in wanted.items():
                if key not in found:
                    leader = self._leader(key)
                    by_node.setdefault(leader.node_id, {})[key] = timestamp, leader.epoch
            for node, asked in by_node.items():
                for each in await self._cluster.send(node, ListOffsets(asked, read_committed=committed)):
                    key = TopicPartition(each.topic, each.partition)
                    if each.error == ErrorCode.NONE:
                        found[key] = None if each.offset < 0 else each.offset
                    elif each.error not in LEADERSHIP_ERRORS:
                        raise self._refused(key, each.error)
            return len(found) == len(wanted)

        await self._patiently({key.topic for key in wanted}, ask)
        return found

    async def fetch(
        self, key: TopicPartition, offset: int, most: int, *, committed: bool, purpose: Purpose
    ) -> FetchedPartition:
        """About `most` bytes from `offset` on. Without records the log has none there, or OFFSET_OUT_OF_RANGE says it.

        `purpose`: the connection.
        """
        answers: list[FetchedPartition] = []

        async def ask() -> bool:
            leader = self._leader(key)
            wanted = FetchPartition(*key, offset, most, leader.epoch)
            request = Fetch([wanted], _WAIT_MS, 1, most, read_committed=committed)
            answer = await self._cluster.send(leader.node_id, request, purpose=purpose)
            # A broker that throttles names no partition, or none of its records, and says nothing of the log's end.
            part = answer.partitions[0] if answer.partitions else None
            if part is None or (answer.throttle_ms > 0 and not part.records and offset < part.high_watermark):
                raise _Throttled(max(answer.throttle_ms / 1000, _RETRY_S))
            if part.error in LEADERSHIP_ERRORS:
                return False
            if part.error not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                raise self._refused(key, part.error)
            answers.append(part)
            return True

        await self._patiently({key.topic}, ask)
        return answers[0]

    def _leader(self, key: TopicPartition) -> Leader:
        leader = self._cluster.leader(*key)
        if leader is None:
            raise ConnectionLost(f"partition {key} of the {self._role} cluster has no leader")
        return leader

    def _refused(self, key: TopicPartition, error: int) -> Exception:
        what = f"partition {key} of the {self._role} cluster can't be read"
        if error != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return self._failure(f"{what}: {error_name(error)}")
        return self._failure(str(MissingRight(what, on_topic("READ", key.topic), user_at(self._role))))

    async def _patiently(self, topics: Iterable[str], ask: Callable[[], Awaitable[bool]]) -> None:
        """Calls `ask` until it returns True."""
        until = time.monotonic() + self._patience_s
        why = "leaders are changing"
        stale = False
        while True:
            try:
                if stale:
                    await self._cluster.refresh(topics)
                if await ask():
                    return
            except _Throttled as throttled:
                # It answers, and says for how long it wants to hear nothing.
                await asyncio.sleep(throttled.seconds)
                until = time.monotonic() + self._patience_s
                continue
            except (ConnectionLost, UnsupportedByBroker, ClusterUnreachable) as error:
                why = str(error)
            except NotAuthorized as error:
                raise self._failure(f"the {self._role} cluster: {error}") from None
            if time.monotonic() > until:
                raise self._failure(f"the {self._role} cluster does not answer: {why}")
            await asyncio.sleep(_RETRY_S)
            stale = True
