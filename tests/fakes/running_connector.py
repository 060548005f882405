"""A connector `a` that runs on a worker in memory, and what the worker has written."""

from __future__ import annotations

import json

from mirror_connect.app.herder.interfaces import Silence
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.connect_worker import FakeWorker, source_config

TASK_0 = TaskId("a", 0)


PAUSED = 'target-state-a={"state":"PAUSED","state.v2":"PAUSED"}'


STOPPED = 'target-state-a={"state":"PAUSED","state.v2":"STOPPED"}'


STARTED = 'target-state-a={"state":"STARTED","state.v2":"STARTED"}'


def keys(worker: FakeWorker) -> list[str]:
    return [entry.partition("={")[0] for entry in worker.written()]


async def running_a(worker: FakeWorker, **more: str) -> None:
    await worker.herder.configs.create("a", source_config(**more), None)
    await worker.state("a", "RUNNING", ["RUNNING"] * int(more.get("tasks__max", "1")))


SILENCE = Silence(1_700_000_000, "broker a:9092: Connection refused")


RUNNING_BEFORE = b'{"state":"RUNNING","trace":null,"worker_id":"killed:1","generation":0,"version":"4.3.1"}'


def left_behind(worker: FakeWorker) -> None:
    """The topics of a connector whose worker was killed."""
    config = json.dumps({"properties": {**source_config(), "name": "a"}}).encode()
    for key in (b"connector-a", b"task-a-0"):
        worker.config_topic.add(key, config)
    worker.config_topic.add(b"commit-a", b'{"tasks":1}')
    for key in (b"status-connector-a", b"status-task-a-0"):
        worker.status_topic.add(key, RUNNING_BEFORE)
