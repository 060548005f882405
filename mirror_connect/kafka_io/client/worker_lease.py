"""How long a worker may still write to its own topics. A write that could take longer is not begun.

Checked in: `LeaderWriter.claim` and `LeaderWriter.write` (leader_writer.py), `LogClients.write` (log_clients.py), and
`KafkaTopicLog.append_all` (app/storage/topic_log.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mirror_connect.connectors.errors import LeaseOver

_POLL_S: Final = 0.05
# To librdkafka, 0 means no limit.
_LEAST_S: Final = 0.5


class WorkerLease:
    """`remaining`: seconds for which this worker surely leads, or runs its share; `full_s`: these just after a heartbeat."""

    def __init__(self, remaining: Callable[[], float], full_s: float) -> None:
        self.remaining = remaining
        # librdkafka has one timeout for all messages of a producer. With half of the lease, a message can be sent after the
        # next heartbeat at the latest; and messages in the queue of a suspended process are too old when it continues.
        self.message_timeout_s = max(_LEAST_S, full_s / 2)

    async def enough_for_a_message(self) -> None:
        """Waits until a message that is sent now is written, or fails, before the lease ends. Raises LeaseOver."""
        while (left := self.remaining()) < self.message_timeout_s:
            if left <= 0:
                raise lease_over()
            await asyncio.sleep(_POLL_S)


def lease_over() -> LeaseOver:
    """The error to raise instead of writing."""
    return LeaseOver(
        "nothing was written: this worker no longer leads its group, or has not heard from it for too long"
    )
