"""One cluster as `--follow` reads it: single fetches of limited size by the copier's protocol code, batches as they are.

This is the cheapest way. It shares code with the copier. The comparison of a whole link must not, so it reads by
cluster_logs.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch, whole_batches
from mirror_connect.kafka_io.consumer.patient_reads import PATIENCE_S, PatientReads
from mirror_connect.verify.clusters import ClusterRole
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.rate import Rate

FETCH_BYTES: Final = 1 << 20


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
        self._cluster = Cluster(properties, client_id="mirror-connect-verify")
        self._reads = PatientReads(self._cluster, role, CannotCompareError, patience_s=patience_s)

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
        return await self._reads.offsets(wanted, committed=self.committed and not open_too)

    async def fetch(
        self, key: TopicPartition, offset: int, *, hidden_too: bool = True, most: int = FETCH_BYTES
    ) -> CompletedFetch | None:
        """About `most` bytes from `offset` on; None at the end, and where the log has nothing any more. CannotCompareError.

        `hidden_too`: records that an open transaction hides count as the end; otherwise they are an error.
        """
        # Not on the connection for fetches, where it would wait behind one that waits for new records.
        part = await self._reads.fetch(key, offset, most, committed=self.committed, purpose="control")
        size, following = whole_batches(part.records)[:2]
        if not size and not hidden_too and 0 <= part.last_stable_offset <= offset < part.high_watermark:
            raise CannotCompareError(
                f"{self.role} partition {key}: an open transaction hides what is there from offset {offset} on"
            )
        return CompletedFetch(key, part.records[:size], offset, following, -1, -1, -1, part.aborted) if size else None
