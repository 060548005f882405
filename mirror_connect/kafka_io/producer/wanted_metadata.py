"""Which topics' metadata a producer wants now. A topic that stays without a leader costs the others nothing.

Metadata of all topics is read every metadata.max.age.ms. In between it is read only of topics whose leaders are missing or
have moved. While that changes nothing it is read less and less often: from retry.backoff.ms to
retry.backoff.max.ms (KIP-580).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Iterable
from typing import NamedTuple


class _Pause(NamedTuple):
    """`until` in the loop's seconds; `attempts` in a row that changed nothing."""

    until: float
    attempts: int


class WantedMetadata:
    """See the module. All in seconds. One event loop."""

    def __init__(self, first_pause: float, longest_pause: float, max_age: float) -> None:
        self._clock = asyncio.get_running_loop().time
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._max_age = max_age
        self._topics: dict[str, None] = {}
        self._along: set[str] = set()
        self._pauses: dict[str, _Pause] = {}
        self._all_at = self._clock() + max_age
        self._changed = asyncio.Event()

    def want(self, topic: str) -> None:
        """A partition of the topic has no leader, or another one."""
        self._topics[topic] = None
        self._changed.set()

    def want_along(self, topics: Iterable[str]) -> None:
        """These topics will be written to: their metadata is read together with that of the next wanted topics."""
        self._along.update(topics)

    def along(self) -> set[str]:
        """The topics to be read together with those that are due, once."""
        along, self._along = self._along, set()
        return along

    def want_all(self) -> None:
        """Any leader may have moved: a broker is away."""
        self._all_at = self._clock()
        self._changed.set()

    async def due(self) -> Collection[str] | None:
        """Waits until metadata has to be read: of these topics, or of all (None)."""
        while True:
            now = self._clock()
            if now >= self._all_at:
                self._all_at = now + self._max_age
                self._topics.clear()
                return None
            at = {topic: self._pauses[topic].until if topic in self._pauses else now for topic in self._topics}
            if topics := [topic for topic, when in at.items() if when <= now]:
                for topic in topics:
                    del self._topics[topic]
                return topics
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(min([self._all_at, *at.values()])):
                    await self._changed.wait()

    def was_read(self, topics: Collection[str], leaderless: Collection[str]) -> None:
        """The metadata of these topics was read. Those in `leaderless` still miss a leader: they wait longer now."""
        now = self._clock()
        for topic in topics:
            former = self._pauses.pop(topic, None)
            if topic in leaderless:
                attempts = 1 if former is None else former.attempts + 1
                pause = min(self._longest_pause, self._first_pause * 2 ** min(attempts - 1, 10))
                self._pauses[topic] = _Pause(now + pause, attempts)
