"""What tests of executors share: an exactly-once connector over numbered records, who copies in an executor, and truth."""

from __future__ import annotations

from typing import Final

import psutil

from deploy.local import LocalCluster
from deploy.local.spark_executor import Executor
from tests.e2e.numbered import Writer
from tests.e2e.product import mirror_config
from tests.e2e.reading import records
from tests.waiting import wait_for

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


def at_work(executor: Executor, target: LocalCluster) -> set[int]:
    """The task processes of an executor that have connections to the target; Spark keeps others for later."""
    port = int(target.bootstrap_servers.rpartition(":")[2])
    found = set()
    for process in executor.tasks():
        try:
            if any(each.raddr and each.raddr.port == port for each in process.net_connections("tcp")):
                found.add(process.pid)
        except psutil.NoSuchProcess:
            continue
    return found


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

    wait_for(lambda: missing() <= 0, "all numbers are there", 60, 1.0, arrived=missing)
    assert found() == wanted
