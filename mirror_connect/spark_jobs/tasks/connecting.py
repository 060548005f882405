"""Makes a starting task wait until its clusters answer. Its state is RUNNING meanwhile, as with MirrorMaker 2."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.connectors.task_protocol import RUNNING
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.spark_jobs.task_context import WorkerLink

CONNECT_WAIT_S: Final = 0.2
CONNECT_WAIT_MAX_S: Final = 5.0
QUIET_TRIES: Final = 3


async def until_connected(
    cluster: Cluster, unreachable: Problem, problems: Problems, link: WorkerLink, changed: Callable[[], None]
) -> None:
    """Tries until the cluster answers. `unreachable`: its problem, without the cause; calls `changed` when problems change.

    Raises NotAuthorized, because waiting doesn't help then.
    """
    wait, tries = CONNECT_WAIT_S, 0
    while True:
        try:
            await cluster.connect()
            problems.resolve(unreachable.subject, ProblemCode.CLUSTER_UNREACHABLE)
            changed()
            return
        except ClusterUnreachable as error:
            tries += 1
            problems.report(unreachable.because(str(error)), logged=tries >= QUIET_TRIES, shown=True)
            changed()
            if tries == QUIET_TRIES:
                link.state = RUNNING
        await asyncio.sleep(wait)
        wait = min(wait * 2, CONNECT_WAIT_MAX_S)
