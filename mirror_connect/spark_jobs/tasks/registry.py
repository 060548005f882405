"""Which coroutine runs a Connect task: connector class → task function. A new connector is one more line here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from mirror_connect.connectors.job_contract import TaskSpec
from mirror_connect.spark_jobs.mirror_checkpoint import run_checkpoint_task
from mirror_connect.spark_jobs.mirror_heartbeat import run_heartbeat_task
from mirror_connect.spark_jobs.mirror_source import run_source_task
from mirror_connect.spark_jobs.worker_link import WorkerLink

TaskFunction = Callable[[TaskSpec, WorkerLink], Awaitable[None]]

TASKS: Final[Mapping[str, TaskFunction]] = {
    "org.apache.kafka.connect.mirror.MirrorSourceConnector": run_source_task,
    "org.apache.kafka.connect.mirror.MirrorCheckpointConnector": run_checkpoint_task,
    "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector": run_heartbeat_task,
}
