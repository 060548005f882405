"""A task that starts waits for its clusters until they answer; as with MirrorMaker 2 it runs meanwhile, and says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.task_protocol import RUNNING
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.outage import Outage
from mirror_connect.spark_jobs.task_context import WorkerLink

CONNECT_WAIT_S: Final = 0.2
CONNECT_WAIT_MAX_S: Final = 5.0
QUIET_TRIES: Final = 3


async def until_connected(
    cluster: Cluster, name: str, away: Outage, link: WorkerLink, tell_standing: Callable[[], None]
) -> None:
    """Tries until the cluster answers. `tell_standing`: `away` may have another line for the status, or none any more.

    Raises NotAuthorized, which no waiting heals.
    """
    wait, tries = CONNECT_WAIT_S, 0
    while True:
        try:
            await cluster.connect()
            away.over()
            tell_standing()
            return
        except ClusterUnreachable as error:
            tries += 1
            away.lasts(str(error))
            tell_standing()
            if tries == QUIET_TRIES:
                link.notice(f"The {name} can't be reached: {error}; it is tried again until it answers")
                link.state = RUNNING
        await asyncio.sleep(wait)
        wait = min(wait * 2, CONNECT_WAIT_MAX_S)
