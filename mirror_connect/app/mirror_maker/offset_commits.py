"""Commits the positions of one source to its consumer group: in each interval, and before the member joins again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from mirror_connect.app.mirror_maker.changed_lines import ChangedLines
from mirror_connect.app.mirror_maker.positions import Positions
from mirror_connect.app.mirror_maker.refused_offsets import DENIED, refused_offsets
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.group_membership import CoordinatorLost, RebalanceNeeded

log = logging.getLogger(__name__)

COMMIT_AGAIN_S: Final = 0.2


class Committer(Protocol):
    """What commits as a member of the group."""

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """See GroupMember."""


class OffsetCommits:
    """See the module. `went_back` is set when a position has become lower: its topic was made again.

    `aborted(line)` is called when the group may not have the offsets of any partition.
    """

    def __init__(
        self,
        group_id: str,
        positions: Positions,
        member: Committer,
        *,
        went_back: asyncio.Event,
        interval_s: float,
        aborted: Callable[[str], object],
    ) -> None:
        self._group_id = group_id
        self._positions = positions
        self._member = member
        self._went_back = went_back
        self._interval_s = interval_s
        self._aborted = aborted
        self._lines = ChangedLines(log)

    async def run(self) -> None:
        """Commits for ever, in each interval, and at once when a position goes back. Raises MembershipLost.

        The broker deletes the offsets of a topic with it. When the new one has grown to the old position, nothing would
        seem to have changed.
        """
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._went_back.wait()
            went_back = self._went_back.is_set()
            self._went_back.clear()
            with contextlib.suppress(RebalanceNeeded):
                if went_back:
                    await self.until_done()
                else:
                    await self.once()

    async def until_done(self) -> None:
        """Commits what has changed, as soon as the coordinator answers. Raises MembershipLost, RebalanceNeeded."""
        while not await self.once():
            await asyncio.sleep(COMMIT_AGAIN_S)

    async def once(self) -> bool:
        """Commits what has changed; whether the coordinator has answered. Raises MembershipLost, RebalanceNeeded."""
        offsets = self._positions.to_commit()
        if not offsets:
            return True
        try:
            refused = await self._member.commit(offsets)
        except CoordinatorLost as problem:
            self._lines.tell("commit", f"Group {self._group_id}: offsets are not committed yet: {problem}")
            return False
        self._positions.committed({each: offset for each, offset in offsets.items() if each not in refused})
        line = refused_offsets(self._group_id, refused)
        if line is None:
            self._lines.over("commit")
            return True
        self._lines.tell("commit", line)
        if self._positions.partitions <= {partition for partition, code in refused.items() if code == DENIED}:
            self._aborted(line)
        return True
