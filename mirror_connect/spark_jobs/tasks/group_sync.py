"""Moves groups that are idle on the target on to their checkpoints (`sync.group.offsets.enabled`).

One pass for all groups: who is active is left alone; what the others have is read, and what is missing or behind is
written at once. A group that got a member in between is protected by the broker, which refuses the write. What can't be
done is told once for as long as it lasts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from mirror_connect.connectors.records.checkpoints import CheckpointMemory
from mirror_connect.connectors.rights import TARGET_USER, MissingRight, on_topic
from mirror_connect.connectors.translation.group_moves import moves
from mirror_connect.kafka_io.admin.consumer_groups import (
    UNKNOWN_MEMBER_ID,
    GroupKind,
    ListedGroup,
    Position,
    Positions,
    Read,
)
from mirror_connect.kafka_io.protocol.wire_codec import NONE, TOPIC_AUTHORIZATION_FAILED, error_name

ACTIVE = "is active on the target: its positions there are its own, and are left alone until it is idle"
_SHOWN = 5


class TargetGroups(Protocol):
    """The groups of the target (kafka_io.consumer_groups.ConsumerGroups)."""

    async def listed(self) -> dict[str, ListedGroup]:
        """See ConsumerGroups."""

    async def read(self, groups: list[str]) -> Read:
        """See ConsumerGroups."""

    async def write(self, group: str, positions: Positions) -> dict[tuple[str, int], int] | str:
        """See ConsumerGroups."""


class GroupSync:
    """`may_write` tells whether the target may be written to at this moment; `told` outlives a task's epoch.

    `stuck`: a line for the status of each group that should have been moved in the last pass and could not be.
    """

    def __init__(
        self,
        groups: TargetGroups,
        may_write: Callable[[], bool],
        notice: Callable[[str], None],
        told: dict[str, str] | None = None,
    ) -> None:
        self._groups = groups
        self._may_write = may_write
        self._notice = notice
        self._told = {} if told is None else told
        self.stuck: list[str] = []

    async def run(self, memory: CheckpointMemory) -> int:
        """One pass; returns how many groups were moved. ClusterUnreachable, NotAuthorized."""
        wanted = memory.groups()
        if not wanted:
            return 0
        listed = await self._groups.listed()
        troubles = {group: problem for group in wanted if (problem := _untouchable(listed.get(group))) is not None}
        idle = [group for group in wanted if group not in troubles]
        read = await self._groups.read(idle)
        troubles |= {group: f"can't be read on the target: {why}" for group, why in read.troubles.items()}
        outcomes = await asyncio.gather(
            *(self._move(group, memory, positions) for group, positions in read.positions.items())
        )
        moved = 0
        for group, outcome in zip(read.positions, outcomes, strict=True):
            if outcome:
                troubles[group] = outcome
            moved += outcome == ""
        # Those that became active meanwhile are as they should be, as are all that are left alone.
        self.stuck = [
            f"Group {group} {troubles[group]}" for group in sorted(idle) if troubles.get(group, ACTIVE) != ACTIVE
        ]
        self._tell(troubles)
        return moved

    async def _move(self, group: str, memory: CheckpointMemory, at_target: Positions) -> str | None:
        """None: nothing to do; "": moved; else what was in the way."""
        wanted = moves(memory.of_group(group), at_target)
        if not wanted or not self._may_write():
            return None
        positions = {partition: Position(*each) for partition, each in wanted.items()}
        answer = await self._groups.write(group, positions)
        if isinstance(answer, str):
            return f"was not moved on the target: {answer}"
        refused: dict[int, list[tuple[str, int]]] = {}
        for place, code in sorted(answer.items()):
            if code != NONE:
                refused.setdefault(code, []).append(place)
        if UNKNOWN_MEMBER_ID in refused:
            return ACTIVE
        return "; ".join(
            f"was not moved on the target in {_in_short(f'{topic}-{partition}' for topic, partition in places)}: "
            f"{_why(code, places[0][0])}"
            for code, places in sorted(refused.items())
        )

    def _tell(self, troubles: dict[str, str]) -> None:
        news: dict[str, list[str]] = {}
        for group, problem in sorted(troubles.items()):
            if self._told.get(group) != problem:
                news.setdefault(problem, []).append(group)
        self._told.clear()
        self._told.update(troubles)
        for problem, groups in news.items():
            self._notice(
                f"Group {groups[0]} {problem}" if len(groups) == 1 else f"Groups {_in_short(groups)}: {problem}"
            )


def _untouchable(listed: ListedGroup | None) -> str | None:
    if listed is None:
        return None
    if listed.kind is not GroupKind.CONSUMER:
        what = f"a {listed.kind.value} group"
        if listed.kind is GroupKind.OTHER:
            what = f"one of protocol type {listed.protocol_type}"
        return f"is no consumer group on the target but {what}: it is left alone"
    return ACTIVE if listed.active else None


def _why(code: int, topic: str) -> str:
    if code != TOPIC_AUTHORIZATION_FAILED:
        return error_name(code)
    return str(MissingRight("not authorized to read there", on_topic("READ", topic), TARGET_USER))


def _in_short(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
