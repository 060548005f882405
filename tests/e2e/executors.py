"""What tests of executors share: an exactly-once connector over numbered records, who copies in an executor, and truth."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from deploy.local import LocalCluster
from deploy.local.spark_executor import Executor
from tests.e2e.numbered import Writer
from tests.e2e.product import Product, mirror_config
from tests.e2e.reading import CONTROL, batches, records
from tests.waiting import wait_for, wait_for_state

# Until executors are there, and tasks copy in them. On two busy cores one took 47 s to come, and its first task a minute.
STARTS_S: Final = 300.0
PROPERTIES: Final = {
    "exactly.once.source.support": "enabled",
    "session.timeout.ms": "6000",
    "heartbeat.interval.ms": "2000",
}


def once_config(source: LocalCluster, target: LocalCluster, topics: str, **settings: str) -> dict[str, str]:
    once = {"exactly_once_support": "required", "source_consumer_isolation_level": "read_committed"}
    interval = {"transaction_boundary": "interval", "transaction_boundary_interval_ms": "300"}
    return mirror_config(source, target, topics, **once, **interval, **settings)


def contents(cluster: LocalCluster, topic: str, partitions: int) -> list[list[tuple[object, ...]]]:
    return [
        [record[1:5] for record in records(cluster, topic, partition, isolation="read_committed")]
        for partition in range(partitions)
    ]


def wait_executors(product: Product, count: int) -> list[Executor]:
    """Waits until a worker has so many executors, and knows them."""
    wait_for_state(lambda: len(product.executors()) == count, f"{count} executors are there", STARTS_S)
    return product.executors()


def wait_busy(product: Product, target: LocalCluster, count: int) -> list[Executor]:
    """Waits until tasks copy in so many executors, at least, and returns these.

    An executor that comes later than others gets some of their tasks after a while.
    """

    def found() -> list[Executor]:
        busy = [each for each in product.executors() if at_work(each, target)]
        return busy if len(busy) >= count else []

    return list(wait_for_state(found, f"tasks copy in {count} executors", STARTS_S))


def at_work(executor: Executor, target: LocalCluster) -> set[int]:
    """The task processes of an executor that have connections to the target; Spark keeps others for later."""
    return {process.pid for process in executor.tasks() if is_at_work(process.pid, target)}


def is_at_work(pid: int, target: LocalCluster) -> bool:
    """Whether a process of a task has connections to the target."""
    return int(target.bootstrap_servers.rpartition(":")[2]) in remote_ports(pid)


def wait_returned(pids: Collection[int], target: LocalCluster) -> None:
    """Waits until none of these processes of tasks has a connection to the target any more, or lives."""
    wait_for_state(lambda: not any(is_at_work(pid, target) for pid in pids), "they return, and end their connections")


def check_turns(target: LocalCluster, copy: str, partitions: int) -> None:
    """Each producer (id and epoch) of a copy's batches had one turn, and some partition more than one producer.

    Who wrote before and writes again after another one has woken up too late.
    """
    more = False
    for partition in range(partitions):
        found = [batch.producer for batch in batches(target, copy, partition) if not batch.attributes & CONTROL]
        turns = [producer for producer, _ in itertools.groupby(found)]
        assert len(turns) == len(set(turns)), f"partition {partition}: {turns}"
        more = more or len(turns) > 1
    assert more


def unpacked_libraries(executor: Executor) -> set[str]:
    """The native libraries that an executor's JVM uses and that would outlive it: files of its own in `/tmp`."""
    lines = [line.split(maxsplit=5) for line in Path(f"/proc/{executor.pid}/maps").read_text().splitlines()]
    mapped = {line[5] for line in lines if len(line) == 6}
    return {name for name in mapped if Path(name).parent == Path("/tmp") and not name.endswith(" (deleted)")}


def remote_ports(pid: int) -> set[int]:
    """To which ports a process has connections; none if it has ended.

    psutil looks into this process's network namespace, and executors may have another one.
    """
    directory = Path(f"/proc/{pid}")
    sockets = set()
    with contextlib.suppress(OSError):
        for each in (directory / "fd").iterdir():
            with contextlib.suppress(OSError):  # closed meanwhile
                sockets.add(os.readlink(each))
    lines = [line.split() for kind in ("tcp", "tcp6") for line in _lines(directory / "net" / kind)]
    return {int(line[2].rpartition(":")[2], 16) for line in lines if f"socket:[{line[9]}]" in sockets}


def _lines(table: Path) -> list[str]:
    # Its first line has the names of the columns.
    with contextlib.suppress(OSError):
        return table.read_text().splitlines()[1:]
    return []


def wait_all(writer: Writer, target: LocalCluster, copy: str) -> None:
    """Readers of committed records see every number once and in order."""
    wanted = [list(range(count)) for count in writer.counts.values()]

    def found() -> list[list[int]]:
        return [
            [
                int((each.value or b"").split()[0])
                for each in records(target, copy, partition, isolation="read_committed")
            ]
            for partition in writer.counts
        ]

    def missing() -> int:
        return sum(len(want) - len(come) for want, come in zip(wanted, found(), strict=True))

    wait_for(lambda: missing() <= 0, "all numbers are there", pause=1.0, arrived=missing)
    assert found() == wanted
