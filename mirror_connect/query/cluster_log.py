"""One cluster as a query reads it: single fetches of limited size, by the copier's protocol code.

It waits for a restarted broker and for leaders that move, and tells everything else in one line.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Final, Self

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.rights import MissingRight, on_topic, user_at
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch, whole_batches
from mirror_connect.kafka_io.consumer.patient_reads import PATIENCE_S, PatientReads
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, error_name
from mirror_connect.kafka_io.protocol.log_offsets import EARLIEST, LATEST
from mirror_connect.kafka_io.protocol.metadata import Metadata
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import QueryLink, near_names

FETCH_BYTES: Final = 4 << 20


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
        self._reads = PatientReads(self._cluster, role, QueryError, patience_s=patience_s)

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
        return await self._reads.offsets(wanted, committed=self.committed)

    async def fetch(self, key: TopicPartition, offset: int, end: int) -> CompletedFetch | None:
        """About FETCH_BYTES from `offset` on, or from a later one where retention has deleted records meanwhile.

        None if there is nothing before `end` any more.
        """
        until: float | None = None
        while offset < end:
            part = await self._reads.fetch(key, offset, FETCH_BYTES, committed=self.committed, purpose="fetch")
            found = whole_batches(part.records)
            # Without a whole batch its length is damaged, and the reader of batches names the fault.
            size = found.size or len(part.records)
            if size:
                following = found.next_offset if found.size else offset + 1
                return CompletedFetch(key, part.records[:size], offset, following, -1, -1, -1, part.aborted)
            first, last = (await self.extents([key]))[key]
            if last <= offset:
                return None  # truncated by its leader
            offset = max(offset, first)
            # From the first such answer on: what a quota took before is no sign of a fault.
            until = until or time.monotonic() + self._patience_s
            if time.monotonic() > until:
                raise QueryError(
                    f"partition {key} of the {self.role} cluster shows nothing from offset {offset} on, "
                    f"and its log ends at {last}"
                )
        return None

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
