"""The Python processes of a task whose records Spark transforms: to be killed."""

from __future__ import annotations

import contextlib
from random import Random

import psutil

from tests.e2e.product import TASK, Product
from tests.waiting import wait_for_state

Processes = tuple[list[psutil.Process], list[psutil.Process]]


def processes(product: Product) -> Processes:
    """Feeders, and tasks: of all only tasks speak with Kafka. Among the feeders are processes that wait for work."""
    feeders, tasks = [], []
    for each in product.parts()[TASK]:
        with contextlib.suppress(psutil.Error):
            speaks = any(c.status == psutil.CONN_ESTABLISHED and c.raddr for c in each.net_connections("inet"))
            (tasks if speaks else feeders).append(each)
    return feeders, tasks


def kill_some(product: Product, dice: Random) -> str:
    """kill -9 of the feeder, the task, or both, once both are there; says which."""
    wait_for_state(lambda: all(processes(product)), "feeder and task are both there before a kill")
    feeders, tasks = processes(product)
    killed = dice.choice(["feeder", "task", "both"])
    for each in (feeders if killed != "task" else []) + (tasks if killed != "feeder" else []):
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()
    return killed
