"""How long a worker may still write to its own topics, and how a write is kept within that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mirror_connect.connectors.errors import LeaseOver

_POLL_S: Final = 0.05
# librdkafka takes 0 for "for ever".
_LEAST_S: Final = 0.5


class WriteLease:
    """`remaining` gives the seconds for which this worker surely leads its group; `full_s`: after a heartbeat."""

    def __init__(self, remaining: Callable[[], float], full_s: float) -> None:
        self.remaining = remaining
        # librdkafka has one limit for all messages of a producer. With half of the lease, the next heartbeat at the latest
        # leaves enough of it; and what a process had in its queue when it was suspended is too old when it goes on.
        self.message_timeout_s = max(_LEAST_S, full_s / 2)

    async def enough_for_a_message(self) -> None:
        """Returns when a message that goes out now is written or given up before the lease ends. LeaseOver."""
        while (left := self.remaining()) < self.message_timeout_s:
            if left <= 0:
                raise lease_over()
            await asyncio.sleep(_POLL_S)


def lease_over() -> LeaseOver:
    """The error to raise instead of writing."""
    return LeaseOver(
        "nothing was written, as this worker leads its group no more or has had no word from it for too long"
    )
