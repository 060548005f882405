"""How a worker that starts comes into its group: it waits for a coordinator, and for members that may be dead."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.client.connection import UnsupportedByBroker
from mirror_connect.kafka_io.client.group_membership import (
    CoordinatorLost,
    GenerationOver,
    HeldByOthers,
    MembershipLost,
    RebalanceNeeded,
)

log = logging.getLogger(__name__)

RETRY_SECONDS: Final = 0.25
# How long after the end of a dead member's session a broker may still keep others out.
_SESSION_END_SECONDS: Final = 3.0
_TOPICS_SHOWN: Final = 3


class KnowsTopics(Protocol):
    """See GroupClient."""

    async def consumed_topics(self) -> list[str]:
        """See GroupClient."""


async def join_first(
    enter: Callable[[], Awaitable[None]],
    as_new: Callable[[], None],
    *,
    session_s: float,
    timeout: float,
    clock: Callable[[], float],
) -> None:
    """Calls `enter`, which joins once, until it succeeds. After `as_new` it joins as a new member.

    If members of another kind are in the group, this waits as long as a dead member may stay. The broker shows neither
    whether they are alive nor their session.timeout.ms. We assume our own: a Java worker has the same properties file.

    Raises GroupRefusedError (one line with what to do), NotAuthorized, ClusterUnreachable after `timeout` seconds without a
    coordinator.
    """
    deadline = clock() + timeout
    begun = since = clock()
    patience = session_s + _SESSION_END_SECONDS
    held = False
    while True:
        try:
            await enter()
            break
        except CoordinatorLost as problem:
            if clock() + RETRY_SECONDS > deadline:
                raise ClusterUnreachable(str(problem)) from None
            await asyncio.sleep(RETRY_SECONDS)
            # The next coordinator counts the session of a dead member again.
            since = clock()
        except (RebalanceNeeded, GenerationOver):
            pass
        except MembershipLost:
            as_new()
        except HeldByOthers as problem:
            now = clock()
            if not held:
                held, begun, since = True, now, now
                log.warning("%s. %s", problem, _waits(patience))
            elif now - since > patience:
                raise HeldByOthers(
                    f"{problem} (this worker waited {patience:g} s: they are alive, or have a longer "
                    f"session.timeout.ms than this worker ({session_s * 1000:.0f}))"
                ) from None
            deadline = now + timeout
            await asyncio.sleep(RETRY_SECONDS)
    if held:
        log.info(
            "The members of another kind have left the group after %.0f s; this worker has joined it", clock() - begun
        )


async def warn_of_consumers(steps: KnowsTopics, group_id: str) -> None:
    """Warns if group.id names a consumer group. The broker lets a worker into one that has no members now."""
    try:
        topics = await steps.consumed_topics()
    except (CoordinatorLost, NotAuthorized, UnsupportedByBroker) as problem:
        log.debug("Group membership: %s", problem)
        return
    if topics:
        shown = ", ".join(topics[:_TOPICS_SHOWN]) + (", …" if len(topics) > _TOPICS_SHOWN else "")
        log.warning(
            "group.id=%s is also a consumer group with committed offsets in %s. The broker refuses its consumers while "
            "a worker runs. Choose another group.id, or delete that group if it is unused",
            group_id,
            shown,
        )


def _waits(seconds: float) -> str:
    until = time.strftime("%H:%M:%S UTC", time.gmtime(time.time() + seconds))
    return (
        f"A killed worker stays a member until its session.timeout.ms is over. This worker waits until {until} "
        f"({seconds:g} s), and exits if they are still members"
    )
