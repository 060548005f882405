"""kill -9 while records are copied: how copying is slowed down so that each kill interrupts it, and what was seen then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deploy.local import LocalCluster
from tests.e2e.progress import Partition, Progress


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


def slow(source: LocalCluster, alias: str, connector: str, bytes_per_second: int | None) -> None:
    """What the source gives to the connector's first task in a second; None: as much as it can."""
    change = ["--delete-config", "consumer_byte_rate"]
    if bytes_per_second is not None:
        change = ["--add-config", f"consumer_byte_rate={bytes_per_second}"]
    whom = ["--entity-type", "clients", "--entity-name", f"{alias}->B|{connector}-0|replication-consumer"]
    connect = ["--bootstrap-server", "{bootstrap}", "--command-config", "{config}"]
    source.run_tool("kafka.admin.ConfigCommand", [*connect, "--alter", *whom, *change])
