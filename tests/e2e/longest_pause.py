"""Copying numbered records while something is killed: none is lost, none comes twice; how long partitions stood still."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from deploy.local import LocalCluster
from tests.e2e.executors import once_config, wait_all
from tests.e2e.numbered import Writer
from tests.e2e.product import Product
from tests.e2e.progress import Progress
from tests.seeds import chance

PARTITIONS: Final = 8
RATE: Final = 1_000
LOADED_S: Final = (1.0, 2.0)


def longest_pause(
    product: Product,
    source: LocalCluster,
    target: LocalCluster,
    topic: str,
    harm: Callable[[], None],
    *,
    tasks: int,
    patience_s: float,
) -> float:
    """Copies exactly once under load, does the harm, and returns how long a partition stood still after it."""
    copy = f"A.{topic}"
    dice = chance(f"{topic}-pauses")
    source.create_topic(topic, PARTITIONS)
    product.put(topic, once_config(source, target, topic, tasks_max=str(tasks)))
    product.wait_running(topic, tasks, patience_s)
    copies = [(copy, partition) for partition in range(PARTITIONS)]
    with Progress(target, copies) as progress:
        with Writer(source, topic, PARTITIONS, RATE) as writer:
            product.wait_going_on(topic, target, copy, patience_s)
            time.sleep(dice.uniform(*LOADED_S))
            when = time.monotonic()
            harm()
            product.wait_going_on(topic, target, copy, patience_s)
            time.sleep(dice.uniform(*LOADED_S))
        wait_all(writer, target, copy)
    product.check_alive()
    product.delete(topic)
    return max(progress.longest_pause(each, when) for each in copies)
