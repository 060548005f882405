"""Keeps a worker from starting beside workers that it must not run with, or tells of them while it runs.

These are workers of another group on its topics (foreign_groups.py), and workers of its own group with other topics: one of
these does not find in its config topic what it is assigned, and as the leader it takes everything from the others.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mirror_connect.app.group.foreign_groups import members_of, shared_connector
from mirror_connect.app.group.messages import metadata_from_bytes
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.connectors.errors import ClusterUnreachable, GroupRefusedError, NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.rights import WORKER_USER
from mirror_connect.kafka_io.admin.consumer_groups import ConsumerGroups
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.protocol.groups import DescribeGroupsResponse

log = logging.getLogger(__name__)

# A start does not wait longer for it. What can't be seen is told later, by the leader.
LOOK_S: Final = 5.0
LOOK_AGAIN_S: Final = 1.0
WATCH_EVERY_S: Final = 60.0
# As long as a killed member may stay after its session (membership.py).
_SESSION_END_S: Final = 3.0


class TopicGuard:
    """See the module. `properties`: of the worker's own client; `protocol_type`, `protocol`: of its group.

    `topics`: the worker's config, offset and status topic.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        client_id: str,
        *,
        group_id: str,
        worker_id: str,
        session_s: float,
        protocol_type: str,
        protocol: str,
        topics: tuple[str, ...],
    ) -> None:
        self._properties = properties
        self._client_id = client_id
        self._group_id = group_id
        self._worker_id = worker_id
        self._patience_s = session_s + _SESSION_END_S
        self._protocol_type = protocol_type
        self._protocol = protocol
        self._topics = topics
        # Whether the last look could not see all groups.
        self._unseen = False

    async def refuse(self, statuses: StatusStore) -> None:
        """GroupRefusedError if another group uses the topics. Members that were killed are waited for, as when joining."""
        await self._refuse(lambda: self._look(statuses))

    async def refuse_other_topics(self) -> None:
        """GroupRefusedError if a member of the group has other topics. Call it before this worker joins.

        While the group rebalances its members can't be seen. Then the leader tells of it later (`watch`).
        """
        await self._refuse(lambda: self._ask(self._with_other_topics))

    async def _refuse(self, look: Callable[[], Awaitable[str | None]]) -> None:
        now = asyncio.get_running_loop().time
        until = now() + self._patience_s
        told: str | None = None
        while True:
            line = await look()
            if line is None and self._unseen:
                # A group that rebalances shows nothing of what it runs: what was seen before still counts.
                line = told
            if line is None:
                return
            if now() >= until:
                raise GroupRefusedError(f"{line} (this worker waited {self._patience_s:g} s: it is alive)")
            if told is None:
                log.warning("%s. This worker waits for %g s, in case that one was killed", line, self._patience_s)
            told = line
            await asyncio.sleep(LOOK_AGAIN_S)

    async def watch(self, statuses: StatusStore, leads: Callable[[], bool]) -> None:
        """Without end: the leader tells of such workers that came later. Nothing is stopped for it."""
        told: str | None = None
        while True:
            await asyncio.sleep(WATCH_EVERY_S)
            try:
                line = (await self._look(statuses) or await self._ask(self._with_other_topics)) if leads() else None
            except Exception:
                log.exception("A bug while looking for other groups on the worker's topics; trying again")
                continue
            if line is not None and line != told:
                log.error("%s", line)
            told = line

    async def _look(self, statuses: StatusStore) -> str | None:
        """A line about another group on the topics; None if there is none, or it can't be seen."""
        return await self._ask(lambda groups: self._found(groups, statuses))

    async def _ask(self, find: Callable[[ConsumerGroups], Awaitable[str | None]]) -> str | None:
        cluster = Cluster(self._properties, self._client_id, "admin")
        self._unseen = False
        try:
            async with asyncio.timeout(LOOK_S):
                return await find(ConsumerGroups(cluster, WORKER_USER))
        except (TimeoutError, ClusterUnreachable, NotAuthorized) as error:
            self._unseen = True
            log.debug(
                "Other workers on the topics, or in the group, can't be looked for: %s", error or "no answer in time"
            )
            return None
        finally:
            await cluster.close()

    async def _with_other_topics(self, groups: ConsumerGroups) -> str | None:
        described = await groups.described(self._group_id)
        self._unseen |= _rebalances(described)
        if isinstance(described, str) or described.protocol != self._protocol:
            return None
        for entry in described.members:
            member = metadata_from_bytes(entry.metadata, 0.0)
            # Its own, before it was killed and got other topics, ends with its session.
            if member.topics and member.topics != self._topics:
                return (
                    f"Worker {member.worker_id} of group.id {self._group_id} has the storage topics "
                    f"{', '.join(member.topics)}, and this worker has {', '.join(self._topics)}: workers of a group "
                    "share one config, offset and status topic. Give this worker the same topics, or another group.id"
                )
        return None

    async def _found(self, groups: ConsumerGroups, statuses: StatusStore) -> str | None:
        for group, listed in sorted((await groups.listed()).items()):
            if listed.protocol_type != self._protocol_type or listed.active is False or group == self._group_id:
                continue
            described = await groups.described(group)
            self._unseen |= _rebalances(described)
            if isinstance(described, str):
                continue
            found = shared_connector(members_of(described, self._protocol), statuses, self._worker_id)
            if found is not None:
                member, connector = found
                return (
                    f"Worker {member.worker_id} of group.id {group} runs connector {ConnectorName(connector)} of this "
                    f"worker's topics, and its own group.id is {self._group_id}: everything would run twice. Give "
                    "all workers of these topics one group.id, or this group three topics of its own"
                )
        return None


def _rebalances(described: DescribeGroupsResponse | str) -> bool:
    return not isinstance(described, str) and described.state in {"PreparingRebalance", "CompletingRebalance"}
