"""Maps each connector class to the coroutine that runs its tasks. A new connector needs one more line here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.spark_jobs.task_context import WorkerLink
from mirror_connect.spark_jobs.tasks.mirror_checkpoint import run_checkpoint_task
from mirror_connect.spark_jobs.tasks.mirror_heartbeat import run_heartbeat_task
from mirror_connect.spark_jobs.tasks.mirror_source import run_source_task

TaskFunction = Callable[[TaskSpec, WorkerLink], Awaitable[None]]

TASKS: Final[Mapping[str, TaskFunction]] = {
    "org.apache.kafka.connect.mirror.MirrorSourceConnector": run_source_task,
    "org.apache.kafka.connect.mirror.MirrorCheckpointConnector": run_checkpoint_task,
    "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector": run_heartbeat_task,
}
