"""The active topics of a connector: the topics that its tasks have written to (KIP-558)."""

from __future__ import annotations

from dataclasses import dataclass

from mirror_connect.app.errors import Forbidden
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.storage.status import StatusStore


@dataclass(frozen=True, slots=True)
class TopicTracking:
    """`topic.tracking.enable` and `topic.tracking.allow.reset`."""

    enabled: bool = True
    reset_allowed: bool = True


class ActiveTopics:
    """See the module."""

    def __init__(self, statuses: StatusStore, leadership: Leadership, tracking: TopicTracking) -> None:
        self._statuses = statuses
        self._leadership = leadership
        self._tracking = tracking

    async def of(self, name: str) -> list[str]:
        """The active topics of a connector; none for an unknown one."""
        await self._leadership.until_ready()
        if not self._tracking.enabled:
            raise Forbidden("Topic tracking is disabled.")
        return sorted(topic.topic for topic in self._statuses.topics(name))

    async def reset(self, name: str) -> None:
        """Forgets the active topics of a connector."""
        await self._leadership.until_ready()
        if not self._tracking.enabled:
            raise Forbidden("Topic tracking is disabled.")
        if not self._tracking.reset_allowed:
            raise Forbidden("Topic tracking reset is disabled.")
        async with self._leadership.writing():
            await self._statuses.delete_topics(name)
