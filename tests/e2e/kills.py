"""kill -9 while records are copied: how copying is slowed down so that each kill interrupts it, and what was seen then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from deploy.local import LocalCluster
from tests.e2e.product import DAEMON, DRIVER, JVM, PATIENCE_S, TASK, WORKER, Product, wait_gone
from tests.e2e.progress import Partition, Progress
from tests.e2e.reading import batches
from tests.waiting import wait_for


@dataclass(frozen=True)
class Kill:
    """`come`: records on the target when nothing copied any more; what was on its way then may have followed."""

    when: float
    come: Mapping[Partition, int]


@dataclass(frozen=True)
class Survived:
    """Both clusters after all kills, when the copy stands still."""

    source: LocalCluster
    target: LocalCluster
    progress: Progress
    kills: list[Kill]


def kill(product: Product, progress: Progress, parts: tuple[str, ...], flows_s: float) -> Kill:
    """kill -9 when records have flowed for `flows_s`; the worker is started again, the rest comes by itself."""
    for pause in (flows_s, 0):
        before = progress.total
        # Spark may have to start first.
        wait_for(
            lambda before=before: progress.total > before, f"records come before {parts} is killed", PATIENCE_S, 0.02
        )
        time.sleep(pause)
    tree = product.parts()
    doomed = [process for part in parts if part != WORKER for process in tree[part]]
    when = time.monotonic()
    product.kill(*parts)
    wait_gone(doomed, 180)
    come = progress.look()
    if WORKER in parts:
        product.start()
        wait_gone([process for part in (DRIVER, JVM, DAEMON, TASK) for process in tree[part]], 180)
    return Kill(when, come)


def ended_by(survived: Survived, copies: Iterable[Partition]) -> Callable[[Partition, int], int]:
    """Gives the index of the kill that ended the writer of a copy's record at an offset. Each writer has its epoch.

    When a record was first seen would not tell: a request that was on its way may be written long after a kill.
    """
    writers = {
        copy: [(batch.base_offset, batch.producer) for batch in batches(survived.target, *copy)] for copy in copies
    }
    begun: dict[tuple[int, int], float] = {}
    for copy, written in writers.items():
        firsts = {producer: base for base, producer in reversed(written)}
        for producer, base in firsts.items():
            seen = survived.progress.written(copy, base)
            begun[producer] = min(begun.get(producer, seen), seen)

    def index(copy: Partition, offset: int) -> int:
        producer = next(producer for base, producer in reversed(writers[copy]) if base <= offset)
        later = (n for n, kill in enumerate(survived.kills) if kill.when >= begun[producer])
        return next(later, len(survived.kills) - 1)

    return index


def slow(source: LocalCluster, alias: str, connector: str, bytes_per_second: int | None) -> None:
    """What the source gives to the connector's first task in a second; None: as much as it can."""
    change = ["--delete-config", "consumer_byte_rate"]
    if bytes_per_second is not None:
        change = ["--add-config", f"consumer_byte_rate={bytes_per_second}"]
    whom = ["--entity-type", "clients", "--entity-name", f"{alias}->B|{connector}-0|replication-consumer"]
    connect = ["--bootstrap-server", "{bootstrap}", "--command-config", "{config}"]
    source.run_tool("kafka.admin.ConfigCommand", [*connect, "--alter", *whom, *change])
