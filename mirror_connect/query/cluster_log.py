"""One cluster as a query reads it: single fetches of limited size, by the copier's protocol code.

It waits for a restarted broker and for leaders that move, and tells everything else in one line.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Final, Self

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.rights import MissingRight, on_topic, user_at
from mirror_connect.kafka_io.client.cluster import Cluster, Leader
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch, whole_batches
from mirror_connect.kafka_io.consumer.fetch_state import LEADERSHIP_ERRORS
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, error_name
from mirror_connect.kafka_io.protocol.fetch import Fetch, FetchPartition
from mirror_connect.kafka_io.protocol.log_offsets import EARLIEST, LATEST, ListOffsets
from mirror_connect.kafka_io.protocol.metadata import Metadata
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import QueryLink, near_names

FETCH_BYTES: Final = 4 << 20
PATIENCE_S: Final = 30.0
_WAIT_MS: Final = 100
_RETRY_S: Final = 0.5


class ClusterLog:
    """One cluster of a link, as an async context. Its calls raise QueryError."""

    def __init__(self, link: QueryLink, role: str, *, patience_s: float = PATIENCE_S) -> None:
        self.role = role
        self.committed = link.committed(role)
        self._patience_s = patience_s
        try:
            self._cluster = Cluster(link.client(role), client_id="mirror-connect-query")
        except ConfigError as error:
            raise QueryError(f"the {role} cluster: {error}") from None

    async def __aenter__(self) -> Self:
        try:
            await self._cluster.connect()
        except (ClusterUnreachable, NotAuthorized) as error:
            await self._cluster.close()
            raise QueryError(f"the {self.role} cluster: {error}") from None
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._cluster.close()

    async def partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        """The partitions of topics. An unknown topic is an error that has names like it."""
        wanted = list(dict.fromkeys(topics))
        await self._refresh(wanted)
        found = []
        for topic in wanted:
            count = self._cluster.partition_count(topic)
            if count is None:
                raise QueryError(await self._no_topic(topic))
            found += [TopicPartition(topic, number) for number in range(count)]
        return found

    async def exists(self, topic: str) -> bool:
        """Whether the topic is there."""
        await self._refresh([topic])
        return self._cluster.topic_error(topic) != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    async def extents(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        """The first offset of each partition, and its end for this isolation level."""
        wanted = list(keys)
        first = await self.offsets(dict.fromkeys(wanted, EARLIEST))
        end = await self.offsets(dict.fromkeys(wanted, LATEST))
        return {key: (first[key] or 0, end[key] or 0) for key in wanted}

    async def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        """The offset at a timestamp (ms), EARLIEST or LATEST of each partition; None if no record is as late."""
        found: dict[TopicPartition, int | None] = {}

        async def ask() -> bool:
            by_node: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
            for key, timestamp in wanted.items():
                if key not in found:
                    leader = self._leader(key)
                    by_node.setdefault(leader.node_id, {})[key] = timestamp, leader.epoch
            for node, asked in by_node.items():
                request = ListOffsets(asked, read_committed=self.committed)
                for each in await self._cluster.send(node, request):
                    if each.error == ErrorCode.NONE:
                        found[TopicPartition(each.topic, each.partition)] = None if each.offset < 0 else each.offset
                    elif each.error not in LEADERSHIP_ERRORS:
                        raise QueryError(self._refused(TopicPartition(each.topic, each.partition), each.error))
            return len(found) == len(wanted)

        await self._patiently({key.topic for key in wanted}, ask)
        return found

    async def fetch(self, key: TopicPartition, offset: int, end: int) -> CompletedFetch | None:
        """About FETCH_BYTES from `offset` on, or from a later one where retention has deleted records meanwhile.

        None if there is nothing before `end` any more.
        """
        until = time.monotonic() + self._patience_s
        while offset < end:
            fetched, throttle_s = await self._fetch(key, offset)
            if fetched is not None:
                return fetched
            first, last = (await self.extents([key]))[key]
            if last <= offset:
                return None  # truncated by its leader
            offset = max(offset, first)
            if throttle_s > 0:
                # A quota. The broker says for how long it wants to hear nothing.
                until = time.monotonic() + self._patience_s + throttle_s
                await asyncio.sleep(throttle_s)
            elif time.monotonic() > until:
                raise QueryError(
                    f"partition {key} of the {self.role} cluster shows nothing from offset {offset} on, "
                    f"and its log ends at {last}"
                )
        return None

    async def _fetch(self, key: TopicPartition, offset: int) -> tuple[CompletedFetch | None, float]:
        """What one fetch brings, and for how long the broker throttles."""
        answers: list[tuple[CompletedFetch | None, float]] = []

        async def ask() -> bool:
            leader = self._leader(key)
            wanted = FetchPartition(*key, offset, FETCH_BYTES, leader.epoch)
            request = Fetch([wanted], _WAIT_MS, 1, FETCH_BYTES, read_committed=self.committed)
            answer = await self._cluster.send(leader.node_id, request, purpose="fetch")
            throttle_s = answer.throttle_ms / 1000
            # A broker that throttles may name no partition.
            part = answer.partitions[0] if answer.partitions else None
            if part is None:
                answers.append((None, max(throttle_s, _RETRY_S)))
                return True
            if part.error in LEADERSHIP_ERRORS:
                return False
            if part.error not in (ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE):
                raise QueryError(self._refused(key, part.error))
            found = whole_batches(part.records)
            # Without a whole batch its length is damaged, and the reader of batches names the fault.
            size = found.size or len(part.records)
            following = found.next_offset if found.size else offset + 1
            whole = CompletedFetch(key, part.records[:size], offset, following, -1, -1, -1, part.aborted)
            answers.append((whole if size else None, throttle_s))
            return True

        await self._patiently({key.topic}, ask)
        return answers[0]

    async def _refresh(self, topics: Iterable[str]) -> None:
        try:
            await self._cluster.refresh(topics)
        except (ClusterUnreachable, NotAuthorized) as error:
            raise QueryError(f"the {self.role} cluster: {error}") from None

    async def _no_topic(self, topic: str) -> str:
        error = self._cluster.topic_error(topic)
        if error == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            what = f"topic {topic} of the {self.role} cluster can't be read"
            return str(MissingRight(what, on_topic("DESCRIBE and READ", topic), user_at(self.role)))
        if error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            return f"topic {topic} of the {self.role} cluster can't be read: {error_name(error)}"
        try:
            listed = [each.name for each in (await self._cluster.any_node(Metadata(None))).topics]
        except (ClusterUnreachable, NotAuthorized):
            listed = []
        return f"the {self.role} cluster has no topic {topic}{near_names(topic, sorted(listed))}"

    def _leader(self, key: TopicPartition) -> Leader:
        leader = self._cluster.leader(*key)
        if leader is None:
            raise ConnectionLost(f"partition {key} of the {self.role} cluster has no leader")
        return leader

    def _refused(self, key: TopicPartition, error: int) -> str:
        what = f"partition {key} of the {self.role} cluster can't be read"
        if error != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return f"{what}: {error_name(error)}"
        return str(MissingRight(what, on_topic("READ", key.topic), user_at(self.role)))

    async def _patiently(self, topics: Iterable[str], ask: Callable[[], Awaitable[bool]]) -> None:
        until = time.monotonic() + self._patience_s
        why = "leaders are changing"
        while True:
            try:
                if await ask():
                    return
            except (ConnectionLost, UnsupportedByBroker) as error:
                why = str(error)
            except NotAuthorized as error:
                raise QueryError(f"the {self.role} cluster: {error}") from None
            if time.monotonic() > until:
                raise QueryError(f"the {self.role} cluster does not answer: {why}")
            await asyncio.sleep(_RETRY_S)
            try:
                await self._cluster.refresh(topics)
            except ClusterUnreachable as error:
                why = str(error)
            except NotAuthorized as error:
                raise QueryError(f"the {self.role} cluster: {error}") from None
