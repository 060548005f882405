"""Has a worker leave its group for a while that can't read the config topic as far as others can.

The group's coordinator and the leader of the config topic's partition are different brokers. A worker may reach the first
and not the second. Then it runs what it was assigned by old configs, begins nothing new, and others wait for partitions that
it does not give up. As in Kafka Connect, it leaves the group then (`worker.sync.timeout.ms`), and others take over.

If nobody can read the topic, nobody leaves: copying goes on. So a worker that fails to read asks the group what others have
read. It joins again for that: each member tells its offset then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized

log = logging.getLogger(__name__)

# A worker makes sure so often that it has read all there is, also if nobody tells of anything new.
FRESH_S: Final = 15.0
# One that fails to read asks the group so often what others have read.
ASK_S: Final = 30.0
# What runs has so long to end; then the worker leaves without a word, and the others wait for its session.
ENDING_S: Final = 8.0
_LOOK_S: Final = 0.5


class Place(Protocol):
    """See Membership."""

    @property
    def read_elsewhere(self) -> int:
        """See Membership."""

    def ask(self) -> None:
        """See Membership."""

    async def step_out(self, why: str, *, silently: bool) -> None:
        """See Membership."""

    def come_back(self) -> None:
        """See Membership."""


class ConfigTopic(Protocol):
    """The config topic as this worker reads it."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def offset(self) -> int:
        """Of the last record that was read."""

    async def refresh(self, timeout: float) -> object:
        """Reads to its end. ClusterUnreachable, NotAuthorized."""


class Work(Protocol):
    """What this worker runs."""

    async def let_go(self, patience_s: float) -> bool:
        """Ends all of it, and begins nothing until `take_again`. Whether all has ended in time."""

    def take_again(self) -> None:
        """What is assigned from now on is run."""


class ConfigSync:
    """See the module. `clock` gives seconds.

    `timeout_s`: for how long a worker may fail to read what others have read. `backoff_s`: for how long it then stays out of
    the group at the least.
    """

    def __init__(
        self,
        topic: ConfigTopic,
        place: Place,
        work: Work,
        *,
        timeout_s: float,
        backoff_s: float,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._topic = topic
        self._place = place
        self._work = work
        self._timeout = timeout_s
        self._backoff = backoff_s
        self._clock = clock
        self._sleep = sleep
        # What others had read when this worker last read to the end. A topic that was made again may end before that.
        self._reached = -1
        self._problem = ""

    async def keep(self) -> None:
        """Without end."""
        while True:
            since = await self._until_out_of_sync()
            log.error(
                "Topic %s could not be read for %.0f s, and another worker of the group has read more: %s. This worker ends "
                "its tasks and leaves the group for %g s at least (worker.unsync.backoff.ms)",
                self._topic.name,
                self._clock() - since,
                self._problem,
                self._backoff,
            )
            has_ended = await self._work.let_go(ENDING_S)
            why = f"it could not read topic {self._topic.name} as far as others have: {self._problem}"
            await self._place.step_out(why, silently=not has_ended)
            await self._sleep(self._backoff)
            while not await self._reads():
                await self._sleep(_LOOK_S)
            log.info("Topic %s is read to its end again: this worker joins its group", self._topic.name)
            self._work.take_again()
            self._place.come_back()

    @property
    def _is_behind(self) -> bool:
        return max(self._topic.offset, self._reached) < self._place.read_elsewhere

    async def _until_out_of_sync(self) -> float:
        """Since when it could not be read."""
        failing_since: float | None = None
        behind_since: float | None = None
        look_at, ask_at = self._clock() + FRESH_S, float("-inf")
        while True:
            now = self._clock()
            if not self._is_behind:
                behind_since = None
            elif behind_since is None:
                behind_since = now
            if behind_since is not None or failing_since is not None or now >= look_at:
                if await self._reads():
                    failing_since = behind_since = None
                    look_at = self._clock() + FRESH_S
                elif failing_since is None:
                    failing_since = now
                now = self._clock()
            if failing_since is not None and now - failing_since >= self._timeout:
                if behind_since is not None and now - behind_since >= self._timeout and self._is_behind:
                    return failing_since
                if not self._is_behind and now >= ask_at:
                    self._place.ask()
                    ask_at = now + ASK_S
            await self._sleep(_LOOK_S)

    async def _reads(self) -> bool:
        """Whether the topic can be read to its end now."""
        elsewhere = self._place.read_elsewhere
        try:
            await self._topic.refresh(self._timeout)
        except (ClusterUnreachable, NotAuthorized) as problem:
            self._problem = str(problem)
            return False
        self._reached = max(self._reached, elsewhere)
        return True
