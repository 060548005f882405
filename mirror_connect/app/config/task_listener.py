"""The settings task.* of a process whose tasks run on a cluster: where their executors reach this worker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.config.table import Settings


@dataclass(frozen=True, slots=True)
class TaskListener:
    """`host`: address to listen on; empty for Spark's own. `port`: 0 for any free one.

    `advertised_host`, `advertised_port`: what executors are told, where that is something else.
    """

    host: str = ""
    port: int = 0
    advertised_host: str = ""
    advertised_port: int | None = None


ANY: Final = TaskListener()


def task_listener(settings: Settings) -> TaskListener:
    """From checked settings."""
    return TaskListener(
        host=settings.text("task.listener.host"),
        port=settings.integer("task.listener.port"),
        advertised_host=settings.text("task.advertised.host.name"),
        advertised_port=settings["task.advertised.port"],
    )
