"""The topics of a source: those that are chosen here, and what the leader of the group shares among its members."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from mirror_connect.app.mirror_maker.topic_choice import TopicChoice
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.protocol.metadata import Metadata


class SourceTopics:
    """See the module. All requests may raise ClusterUnreachable. `counts`: the chosen topics with their partitions."""

    def __init__(self, cluster: Cluster, choice: TopicChoice) -> None:
        self._cluster = cluster
        self._choice = choice
        self.counts: dict[str, int] = {}
        # What this member, as leader, has shared: the topics of all members, and the partitions that it knew. Else None.
        self._shared: tuple[frozenset[str], Mapping[str, int]] | None = None

    async def choose(self) -> frozenset[str]:
        """The topics to copy from now on. WrongOption. A rebalance begins with it, so nobody leads yet."""
        self._shared = None
        self.counts = await self._chosen()
        return frozenset(self.counts)

    async def share(self, topics: frozenset[str]) -> Mapping[str, int]:
        """The partitions of these topics, for the leader."""
        counts = await self._counted(topics)
        self._shared = topics, counts
        return counts

    async def have_changed(self) -> bool:
        """Whether the group has to rebalance.

        The leader looks at the partitions of all topics of the group. Others' topics may have grown; and the broker that
        it asked for the assignment may have known less than another one.
        """
        if await self._chosen() != self.counts:
            return True
        if self._shared is None:
            return False
        topics, counts = self._shared
        return await self._counted(topics) != counts

    async def _counted(self, topics: frozenset[str]) -> Mapping[str, int]:
        found = await self._cluster.any_node(Metadata(sorted(topics)))
        return {each.name: len(each.partitions) for each in found.topics if not each.error}

    async def _chosen(self) -> dict[str, int]:
        found = await self._cluster.any_node(Metadata(None))
        counts = {each.name: len(each.partitions) for each in found.topics if not each.error and each.partitions}
        chosen = await asyncio.to_thread(self._choice.chosen, counts)
        return {topic: counts[topic] for topic in sorted(chosen)}
