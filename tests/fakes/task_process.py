"""A source task in a process of its own, to be killed: `python -m tests.fakes.task_process` with a spec as JSON on stdin.

Prints a line of counters ten times a second. The link is a fake whose positions come from the file named as argument
(JSON: [[topic, partition, offset], …]); it never orders anything.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from mirror_connect.connectors.task_protocol import TaskSpec
from mirror_connect.spark_jobs.tasks.mirror_source import run_source_task
from tests.fakes.worker_link import FakeWorkerLink


async def main(spec: TaskSpec, stored: dict[tuple[str, int], int]) -> None:
    link = FakeWorkerLink(spec, lambda topic, partition: stored.get((topic, partition)))
    task = asyncio.create_task(run_source_task(spec, link))
    while not task.done():
        print(json.dumps({**link.counters, "state": link.state}), flush=True)
        await asyncio.sleep(0.1)
    task.result()


if __name__ == "__main__":
    offsets = json.loads(Path(sys.argv[1]).read_text())
    asyncio.run(
        main(
            TaskSpec.from_json(json.loads(sys.stdin.readline())),
            {(topic, partition): offset for topic, partition, offset in offsets},
        )
    )
