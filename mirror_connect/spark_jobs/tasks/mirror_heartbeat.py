"""The task of a MirrorHeartbeatConnector: writes a record per interval to partition 0 of `heartbeats` on the target."""

from __future__ import annotations

import time

from mirror_connect.connectors.mirror.mirror_heartbeat import MirrorHeartbeat, beat_interval_s
from mirror_connect.connectors.records.heartbeats import HEARTBEATS_TOPIC, Heartbeat, heartbeat_offset_key
from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.kafka_io.records.record_batch import NewRecord
from mirror_connect.spark_jobs.task_context import WorkerLink
from mirror_connect.spark_jobs.tasks.writing_task import WritingTask, every


async def run_heartbeat_task(spec: TaskSpec, link: WorkerLink) -> None:
    """Runs until it is ordered to end. Raises ConfigError, NotAuthorized, FencedError, PartitionRefusedError."""
    pause_s = beat_interval_s(MirrorHeartbeat().settings(spec.config))
    key = heartbeat_offset_key(spec.connector, spec.source_alias, spec.target_alias)

    async def beat() -> None:
        # While one can't be written, no other is created: a queue of heartbeats would prove nothing.
        now = int(time.time() * 1000)
        heartbeat = Heartbeat(spec.source_alias, spec.target_alias, now)
        await task.write(HEARTBEATS_TOPIC, [NewRecord(heartbeat.key(), heartbeat.value(), now)], [key])

    async def beat_for_ever() -> None:
        await every(pause_s, beat)

    task = WritingTask(spec, link, beat_for_ever)
    try:
        await task.run()
    finally:
        await task.close()
