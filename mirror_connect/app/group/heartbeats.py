"""Heartbeats of a member: they renew its lease, also while it waits for the others to join."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeVar

from mirror_connect.app.group.lease import GroupLease
from mirror_connect.kafka_io.client.group_membership import GenerationOver, RebalanceNeeded

T = TypeVar("T")
# A member hears by a heartbeat that others join. Something that moves takes two rounds of that.
MOST_INTERVAL_SECONDS: Final = 0.5
MOVING_INTERVAL_SECONDS: Final = 0.1
# An answer that is not there so long after the group has gone on does not come any more.
_ANSWER_SECONDS: Final = 3.0


class SendsHeartbeats(Protocol):
    """See GroupClient."""

    async def heartbeat(self, generation: int, member_id: str) -> None:
        """See GroupClient."""


class Heartbeats:
    """See the module. `renewed` is called after each that was accepted. `moving`: something is about to move."""

    def __init__(
        self,
        steps: SendsHeartbeats,
        lease: GroupLease,
        interval_s: float,
        renewed: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.moving = False
        self._steps = steps
        self._lease = lease
        self._interval = min(interval_s, MOST_INTERVAL_SECONDS)
        self._renewed = renewed
        self._clock = clock

    @property
    def next(self) -> float:
        """When the next one is due."""
        return self._lease.last_beat + (MOVING_INTERVAL_SECONDS if self.moving else self._interval)

    async def send(self, generation: int, member_id: str) -> None:
        """One. Raises what GroupClient does."""
        sent = self._clock()
        try:
            await self._steps.heartbeat(generation, member_id)
        except RebalanceNeeded:
            self.renew(sent, settled=False)
            raise
        self.renew(sent, settled=True)

    async def during(self, step: Awaitable[T], generation: int, member_id: str) -> T:
        """Does `step`, with heartbeats meanwhile: it is answered only when all members have come so far.

        Raises what the heartbeats learn, too: where the coordinator is lost, the step would wait for its answer in vain.
        """
        if not member_id:
            return await step
        doing = asyncio.ensure_future(step)
        beating = asyncio.create_task(self._beat_on(generation, member_id))
        try:
            await asyncio.wait({doing, beating}, return_when=asyncio.FIRST_COMPLETED)
            if not doing.done():
                await beating
            return await doing
        finally:
            doing.cancel()
            beating.cancel()
            await asyncio.gather(doing, beating, return_exceptions=True)

    async def _beat_on(self, generation: int, member_id: str) -> None:
        """Heartbeats until something is wrong. Raises CoordinatorLost, MembershipLost."""
        while True:
            await asyncio.sleep(self.next - self._clock())
            sent = self._clock()
            try:
                await self._steps.heartbeat(generation, member_id)
            except RebalanceNeeded:
                pass
            except GenerationOver:
                # The group has gone on, as the answer that is under way will tell; or it has been lost.
                await asyncio.sleep(_ANSWER_SECONDS)
                raise
            self.renew(sent, settled=False)

    def renew(self, sent: float, *, settled: bool) -> None:
        """The coordinator has accepted what was sent then; see GroupLease."""
        self._lease.renew(sent, settled=settled)
        self._renewed()
