"""One member of a consumer group: joins, shares partitions with the others, and joins again whenever that changes.

It speaks the classic protocol, eagerly, as MirrorMaker 1 does: before each rebalance the member gives all its partitions
away and commits them, so that their next owner continues exactly there. Java consumers can be members of the same group.

**Lease.** The membership is certain for session.timeout.ms after the last answered heartbeat was *sent*, minus two seconds
for requests in flight. After that another member may have the partitions, so nothing more is written.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from mirror_connect.app.mirror_maker.assignors import ASSIGNORS, Assignments
from mirror_connect.connectors.clock import boot_clock
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.partitions import CommittedOffset, CommittedOffsets, TopicPartition
from mirror_connect.connectors.wording import counted
from mirror_connect.kafka_io.client.group_membership import CoordinatorLost, MembershipLost, RebalanceNeeded
from mirror_connect.kafka_io.protocol.consumer_protocol import (
    assigned_partitions,
    assignment,
    subscribed_topics,
    subscription,
)
from mirror_connect.kafka_io.protocol.group_protocol import JoinGroupResponse

log = logging.getLogger(__name__)

MARGIN_S: Final = 2.0
RETRY_S: Final = 0.25
# The connections are closed after it, and all of that has to take less than a step of the end (app/steps.py).
LEAVE_S: Final = 1.0


class GroupSteps(Protocol):
    """The steps of the group protocol, see GroupClient."""

    async def join(
        self, member_id: str, metadata: bytes, others: Mapping[str, bytes] | None = None
    ) -> JoinGroupResponse:
        """See GroupClient."""

    async def sync(self, joined: JoinGroupResponse, assignments: Mapping[str, bytes]) -> bytes:
        """See GroupClient."""

    async def heartbeat(self, generation: int, member_id: str) -> None:
        """See GroupClient."""

    async def leave(self, member_id: str) -> None:
        """See GroupClient."""

    async def committed(self) -> dict[TopicPartition, int]:
        """See GroupClient."""

    async def commit(self, generation: int, member_id: str, offsets: CommittedOffsets) -> dict[TopicPartition, int]:
        """See GroupClient."""

    async def close(self) -> None:
        """See GroupClient."""


class GroupWork(Protocol):
    """What the member does with its partitions. All are called on the event loop, never two at once."""

    async def topics(self) -> frozenset[str]:
        """The topics that this member subscribes now. ClusterUnreachable."""

    async def partition_counts(self, topics: frozenset[str]) -> Mapping[str, int]:
        """The number of partitions of each topic that exists. ClusterUnreachable."""

    async def work(self, partitions: Sequence[TopicPartition]) -> None:
        """Copies these partitions; returns when the group has to rebalance. Cancelled when others want to."""

    async def release(self) -> None:
        """Stops copying and commits. The member is still one of the old generation."""

    def lost(self) -> None:
        """The membership was lost: another member may have the partitions."""


class GroupMember:
    """See the module. `assignors`: names in their order (assignors.py). `clock` returns seconds."""

    def __init__(
        self,
        steps: GroupSteps,
        work: GroupWork,
        *,
        group_id: str,
        assignors: Sequence[str],
        session_timeout_ms: int,
        heartbeat_interval_ms: int,
        clock: Callable[[], float] = boot_clock,
    ) -> None:
        self._steps = steps
        self._work = work
        self._group_id = group_id
        self._assignors = tuple(assignors)
        self._session = session_timeout_ms / 1000
        self._interval = heartbeat_interval_ms / 1000
        self._clock = clock
        self._member_id = ""
        self._generation = -1
        self._lease_until = float("-inf")
        self._rebalance = asyncio.Event()
        self._silent = False

    def lease_remaining(self) -> float:
        """Seconds for which this member surely has its partitions."""
        return max(0.0, self._lease_until - self._clock())

    async def run(self) -> None:
        """Is a member for ever. Raises GroupRefusedError, NotAuthorized."""
        while True:
            try:
                await self._one_generation()
            except MembershipLost:
                log.warning("Group %s: this member was removed, its partitions may have another owner", self._group_id)
                self._forget_membership()
            except RebalanceNeeded:
                pass
            except (CoordinatorLost, ClusterUnreachable) as problem:
                self._tell_silence(problem)
                await asyncio.sleep(RETRY_S)

    async def leave(self, *, silently: bool = False) -> None:
        """Leaves, so that others take over at once; `silently`: when its session is over."""
        self._lease_until = float("-inf")
        if not silently:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self._steps.leave(self._member_id)
        await self._steps.close()

    async def committed(self) -> dict[TopicPartition, int]:
        """The group's committed offsets. CoordinatorLost."""
        return await self._steps.committed()

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Commits offsets as this member; the codes of those that were refused. CoordinatorLost, MembershipLost."""
        wanted = {partition: CommittedOffset(offset) for partition, offset in offsets.items()}
        return await self._steps.commit(self._generation, self._member_id, wanted)

    # One generation.

    async def _one_generation(self) -> None:
        partitions = await self._enter()
        self._rebalance.clear()
        beating = asyncio.create_task(self._beat_for_ever(), name="heartbeats")
        try:
            await self._until_rebalance(beating, partitions)
            # Heartbeats go on meanwhile: the coordinator waits for this member, but not longer than its session.
            releasing = asyncio.create_task(self._work.release(), name="release")
            try:
                await asyncio.wait({beating, releasing}, return_when=asyncio.FIRST_COMPLETED)
                if beating.done():
                    beating.result()
                await releasing
            finally:
                await _cancelled(releasing)
        finally:
            await _cancelled(beating)

    async def _enter(self) -> list[TopicPartition]:
        """Joins and syncs; the partitions that this member gets."""
        metadata = subscription(await self._work.topics())
        _wanted_first, *others = self._assignors
        joined = await self._steps.join(self._member_id, metadata, dict.fromkeys(others, metadata))
        self._member_id, self._generation = joined.member_id, joined.generation
        leads = joined.leader == joined.member_id
        assignments = await self._assignments(joined) if leads else {}
        sent = self._clock()
        content = await self._steps.sync(joined, assignments)
        self._renew(sent)
        partitions = assigned_partitions(content)
        log.info(
            "Group %s: member %s of generation %d%s has %s",
            self._group_id,
            joined.member_id,
            joined.generation,
            f", which leads {counted(len(assignments), 'member')}," if leads else "",
            counted(len(partitions), "partition"),
        )
        return partitions

    async def _assignments(self, joined: JoinGroupResponse) -> dict[str, bytes]:
        subscriptions = {member: subscribed_topics(metadata) for member, metadata in joined.members.items()}
        counts = await self._work.partition_counts(frozenset[str]().union(*subscriptions.values()))
        assigned: Assignments = ASSIGNORS[joined.protocol](subscriptions, counts)
        return {member: assignment(partitions) for member, partitions in assigned.items()}

    async def _until_rebalance(self, beating: asyncio.Task[None], partitions: Sequence[TopicPartition]) -> None:
        working = asyncio.create_task(self._work.work(partitions), name="work")
        wanted = asyncio.create_task(self._rebalance.wait(), name="rebalance")
        try:
            await asyncio.wait({working, wanted, beating}, return_when=asyncio.FIRST_COMPLETED)
            for each in (beating, working):
                if each.done():
                    each.result()
        finally:
            await _cancelled(working, wanted)

    async def _beat_for_ever(self) -> None:
        """Raises MembershipLost, and what refuses the group."""
        while True:
            await asyncio.sleep(self._interval)
            sent = self._clock()
            try:
                await self._steps.heartbeat(self._generation, self._member_id)
            except RebalanceNeeded:
                # The coordinator has counted it as a sign of life.
                self._rebalance.set()
            except CoordinatorLost as problem:
                self._tell_silence(problem)
                await asyncio.sleep(RETRY_S)
                continue
            self._renew(sent)

    def _renew(self, sent: float) -> None:
        self._lease_until = sent + self._session - MARGIN_S
        if self._silent:
            self._silent = False
            log.info("Group %s: its coordinator answers again", self._group_id)

    def _forget_membership(self) -> None:
        self._member_id, self._generation = "", -1
        self._lease_until = float("-inf")
        self._work.lost()

    def _tell_silence(self, problem: Exception) -> None:
        if not self._silent:
            self._silent = True
            log.warning("Group %s: %s. It is tried again until it answers", self._group_id, problem)


async def _cancelled(*tasks: asyncio.Task[None] | asyncio.Task[bool]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
