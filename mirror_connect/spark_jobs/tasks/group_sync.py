"""Moves groups that are idle on the target forward to their checkpoints (`sync.group.offsets.enabled`).

One pass serves all groups. It leaves active groups alone. It reads the committed offsets of the others, and writes those
that are missing or behind. If a group gets a member in between, the broker refuses the write. An obstacle is logged once for
as long as it lasts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol

from mirror_connect.connectors.partitions import CommittedOffsets, TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.records.checkpoints import CheckpointMemory
from mirror_connect.connectors.rights import TARGET_USER, MissingRight, on_topic
from mirror_connect.connectors.translation.offset_translation import offsets_to_commit
from mirror_connect.kafka_io.admin.consumer_groups import ListedGroup, Read
from mirror_connect.kafka_io.admin.movable_groups import ACTIVE, Obstacle, obstacle_of
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, error_name

_SHOWN = 5


class TargetGroups(Protocol):
    """The groups of the target (kafka_io.consumer_groups.ConsumerGroups)."""

    async def listed(self) -> dict[str, ListedGroup]:
        """See ConsumerGroups."""

    async def read(self, groups: list[str]) -> Read:
        """See ConsumerGroups."""

    async def write(self, group: str, offsets: CommittedOffsets) -> dict[TopicPartition, int] | str:
        """See ConsumerGroups."""


class FoundAtTarget(NamedTuple):
    """A group's committed offsets on the target, and when that was so (ms since 1970)."""

    offsets: Mapping[TopicPartition, int]
    at_ms: int


class GroupSync:
    """Moves a task's groups. `may_write`: whether the lease is valid now. `logged` outlives a task's epoch.

    `stuck`: the problems of groups that the last pass should have moved and could not. `found`: what
    groups have committed on the target by now, those that may be moved.
    """

    def __init__(
        self,
        groups: TargetGroups,
        may_write: Callable[[], bool],
        log: Callable[[str], None],
        logged: dict[str, Obstacle] | None = None,
    ) -> None:
        self._groups = groups
        self._may_write = may_write
        self._log = log
        self._logged = {} if logged is None else logged
        self.stuck: list[Problem] = []
        self.found: dict[str, FoundAtTarget] = {}

    async def run(self, memory: CheckpointMemory) -> int:
        """One pass; returns how many groups were moved. ClusterUnreachable, NotAuthorized."""
        wanted = memory.groups()
        if not wanted:
            return 0
        listed = await self._groups.listed()
        obstacles = {group: found for group in wanted if (found := obstacle_of(listed.get(group))) is not None}
        idle = [group for group in wanted if group not in obstacles]
        for group in obstacles:
            self.found.pop(group, None)  # its members commit there now, or others do
        read = await self._groups.read(idle)
        obstacles |= {
            group: Obstacle(ProblemCode.GROUP_UNREADABLE, f"can't be read on the target: {why}")
            for group, why in read.problems.items()
        }
        outcomes = await asyncio.gather(
            *(self._move(group, memory, committed) for group, committed in read.committed.items())
        )
        moved = 0
        for group, outcome in zip(read.committed, outcomes, strict=True):
            if isinstance(outcome, Obstacle):
                obstacles[group] = outcome
            moved += outcome is True
        # Groups that became active meanwhile are no problem, nor are those that are left alone.
        self.stuck = [
            Problem(group, obstacle.code, f"Group {group}: {obstacle.text}")
            for group in sorted(idle)
            if (obstacle := obstacles.get(group)) is not None and obstacle.code is not ProblemCode.GROUP_ACTIVE
        ]
        self._log_new(obstacles)
        return moved

    async def _move(self, group: str, memory: CheckpointMemory, at_target: CommittedOffsets) -> Obstacle | bool:
        """True if the group was moved, False if nothing had to be; or the obstacle."""
        wanted = offsets_to_commit(memory.of_group(group), at_target)
        offsets = {partition: committed.offset for partition, committed in at_target.items()}
        if not wanted:
            self.found[group] = FoundAtTarget(offsets, self._now_ms())
            return False
        self.found.pop(group, None)
        if not self._may_write():
            return False
        answer = await self._groups.write(group, wanted)
        if isinstance(answer, str):
            return Obstacle(ProblemCode.GROUP_NOT_MOVED, f"not moved on the target: {answer}")
        refused: dict[int, list[TopicPartition]] = {}
        for partition, code in sorted(answer.items()):
            if code != ErrorCode.NONE:
                refused.setdefault(code, []).append(partition)
        if ErrorCode.UNKNOWN_MEMBER_ID in refused:
            return ACTIVE
        text = "; ".join(
            f"not moved on the target in {_in_short(f'{topic}-{partition}' for topic, partition in partitions)}: "
            f"{_why(code, partitions[0][0])}"
            for code, partitions in sorted(refused.items())
        )
        if text:
            return Obstacle(ProblemCode.GROUP_NOT_MOVED, text)
        moved = {partition: committed.offset for partition, committed in wanted.items()}
        self.found[group] = FoundAtTarget(offsets | moved, self._now_ms())
        return True

    def _now_ms(self) -> int:
        return int(time.time() * 1000)

    def _log_new(self, obstacles: dict[str, Obstacle]) -> None:
        new: dict[Obstacle, list[str]] = {}
        for group, obstacle in sorted(obstacles.items()):
            if self._logged.get(group) != obstacle:
                new.setdefault(obstacle, []).append(group)
        self._logged.clear()
        self._logged.update(obstacles)
        for (_, text), groups in new.items():
            self._log(f"Group {groups[0]}: {text}" if len(groups) == 1 else f"Groups {_in_short(groups)}: {text}")


def _why(code: int, topic: str) -> str:
    if code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        return error_name(code)
    return str(MissingRight("not authorized to read there", on_topic("READ", topic), TARGET_USER))


def _in_short(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - _SHOWN
    return ", ".join(listed[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
