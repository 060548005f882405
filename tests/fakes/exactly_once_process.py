"""A source task with exactly-once in a process of its own, to be killed: `python -m tests.fakes.exactly_once_process`.

It gets a spec as JSON on stdin, and prints a line of counters twenty times a second. Source offsets are read as a worker
does: by its own class, from the offsets topic, when the task asks for them.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence

from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.app.worker_connectors.source_positions import stored_source_offsets
from mirror_connect.connectors.task_protocol import SourceOffset, TaskPartition, TaskSpec
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from mirror_connect.spark_jobs.tasks.registry import TASKS
from tests.fakes.worker_link import FakeWorkerLink


class OffsetsLink(FakeWorkerLink):
    """Reads source offsets from the offsets topic, up to its high watermark."""

    def __init__(self, spec: TaskSpec) -> None:
        super().__init__(spec)
        self.task_spec = spec

    async def source_offsets(self, partitions: Sequence[TaskPartition], *, fenceable: bool) -> list[SourceOffset]:
        spec = self.task_spec
        clients = LogClients({"bootstrap.servers": spec.target["bootstrap.servers"]}, "test")
        plan = TopicPlan.for_offsets(spec.offsets_topic, spec.offsets_partitions, 1)
        store = OffsetStore(KafkaTopicLog(clients, plan))
        try:
            await store.start()
            found = [each.source for each in partitions]
            return await stored_source_offsets(store, spec.connector, spec.source_alias, found)
        finally:
            await store.stop()
            clients.close()


async def main(spec: TaskSpec) -> None:
    link = OffsetsLink(spec)
    task = asyncio.ensure_future(TASKS[spec.connector_class](spec, link))
    while not task.done():
        print(json.dumps({**link.counters, "state": link.state}), flush=True)
        await asyncio.sleep(0.05)
    task.result()


if __name__ == "__main__":
    asyncio.run(main(TaskSpec.from_json(json.loads(sys.stdin.readline()))))
