"""Task functions without Kafka, chosen by connector.class: each obeys its link, and says by notices what it saw."""

from __future__ import annotations

import json
import os
import time

from mirror_connect.connectors.task_protocol import RUNNING, TaskSpec
from mirror_connect.spark_jobs.task_context import WorkerLink


async def obedient(spec: TaskSpec, link: WorkerLink) -> None:
    """Runs until it is told to finish; follows its assignment; writes nothing."""
    seen = {"pid": os.getpid(), "parent": os.getppid(), "environment": sorted(os.environ)}
    link.log(json.dumps(seen))
    link.wrote_to(f"{spec.target_alias}.topic")
    while not link.finish_wanted:
        link.log("assigned " + ",".join(f"{each.topic}-{each.partition}" for each in sorted(spec.assigned)))
        link.state, link.assignment_version = RUNNING, spec.assignment_version
        while not link.finish_wanted and link.orders.assignment_version <= spec.assignment_version:
            await link.changed.wait()
            link.changed.clear()
        if not link.finish_wanted:
            spec = await link.spec()


async def failing(spec: TaskSpec, link: WorkerLink) -> None:
    """Raises, with a secret in the text."""
    raise ValueError(f"the answer is not {spec.config['a.password']}")


async def deaf(spec: TaskSpec, link: WorkerLink) -> None:
    """Blocks its event loop for ever: nothing it is told arrives, its reports go on."""
    del spec
    link.state = RUNNING
    time.sleep(600)  # noqa: ASYNC251 — that is what it is for


TASKS = {"obedient": obedient, "failing": failing, "deaf": deaf}
