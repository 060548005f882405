"""Topics that were just created or grown, and that brokers don't tell of yet.

A controller answers when it has decided; brokers hear of it later, with thousands of partitions many seconds later. A look
in between would take the new topics for absent, try to create them again, and take their partitions from the running tasks.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

# Longer, and somebody has deleted it before any broker told of it.
FRESH_S: Final = 300.0


class FreshTopics:
    """Remembered until the brokers tell of them, or for `FRESH_S`. For one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # Topic → partitions, and until when that is believed.
        self._fresh: dict[str, tuple[int, float]] = {}

    def made(self, topics: Mapping[str, int]) -> None:
        """These have so many partitions now."""
        until = self._clock() + FRESH_S
        self._fresh |= {topic: (partitions, until) for topic, partitions in topics.items()}

    def added_to(self, told: Mapping[str, int]) -> dict[str, int]:
        """What the brokers tell of (topic → partitions), with what they don't tell of yet."""
        now = self._clock()
        self._fresh = {
            topic: (partitions, until)
            for topic, (partitions, until) in self._fresh.items()
            if told.get(topic, 0) < partitions and now < until
        }
        return {**told, **{topic: partitions for topic, (partitions, _) in self._fresh.items()}}
