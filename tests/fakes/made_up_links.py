"""The answers of /admin/links … for three links whose tasks tell made-up measures: `python -m tests.fakes.made_up_links`.

It writes them to tests/fixtures/links, for tests of what reads them. The worker's own code makes the answers.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from mirror_connect.app.herder.link_watch import LinkWatch
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_measures import (
    BUCKETS,
    GroupMeasures,
    GroupPartition,
    PartitionMeasures,
    TaskMeasures,
    Window,
)
from mirror_connect.connectors.task_protocol import RUNNING, TaskId, TaskReport
from tests.fakes.connect_worker import FakeWorker, eventually, serving, source_config
from tests.fakes.topic_log import FakeTopic
from tests.paths import ROOT

FOLDER: Final = ROOT / "tests/fixtures/links"
PACKAGE: Final = "org.apache.kafka.connect.mirror."
BEGIN_S: Final = 1_764_108_000.0
STEP_S: Final = 10.0
STEPS: Final = 360
TOPICS: Final = 120
PARTITIONS: Final = 3
TASKS: Final = 2
GROUPS: Final = 40
# The last minutes of the hour, in which payments.eu-0 can't be read and its records wait.
STALLED_STEPS: Final = 18


class Hand:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def clock(self) -> float:
        return self.s

    def wall_clock(self) -> float:
        return BEGIN_S + self.s - 1_000.0

    @property
    def ms(self) -> int:
        return int(self.wall_clock() * 1000)


def topic_name(number: int) -> str:
    return "payments.eu" if number == 0 else f"orders.{number:03}"


class Told:
    """What the tasks of the source connector A->B have told so far, in numbers that follow from the step alone."""

    def __init__(self, worker: FakeWorker, hand: Hand) -> None:
        self._worker = worker
        self._hand = hand
        self._records: dict[tuple[int, int], int] = {}
        self._counts = [[0] * BUCKETS for _ in range(TASKS)]

    def step(self, step: int) -> None:
        """What the tasks report at this step: the quick topics, all of them at the first one."""
        for task in range(TASKS):
            rows = [
                self._row(topic, partition, step, task)
                for topic in range(TOPICS if step == 0 else TOPICS // 4)
                for partition in range(PARTITIONS)
                if (topic * PARTITIONS + partition) % TASKS == task
            ]
            self._report(TaskId("source", task), rows, tuple(self._counts[task]), problems=self._problems(step, task))
        groups = [self._group(number) for number in range(GROUPS)] if step % 6 == 0 else []
        self._report(TaskId("checkpoint", 0), [], (), groups=groups)

    def _row(self, topic: int, partition: int, step: int, task: int) -> PartitionMeasures:
        stalled = topic == partition == 0 and step >= STEPS - STALLED_STEPS
        records = self._records.get((topic, partition), 0)
        fresh = 0 if stalled or topic >= TOPICS // 4 else 50 * (topic + 1) + (step * 7 + topic) % 40
        self._records[topic, partition] = records = records + fresh
        behind = topic < TOPICS // 4 and topic % 10 == 3
        lag = (step - STEPS + STALLED_STEPS + 1) * 90 if stalled else 100 * (partition + 1) if behind else 0
        oldest = self._hand.ms - (step - STEPS + STALLED_STEPS + 1) * 10_000 if stalled else self._hand.ms - 1_500
        end = records + lag
        # Four buckets around 10 ms, three quarters of the records in the second one.
        slow = fresh // 100
        spread = (3, fresh - fresh // 4 - slow, 4, fresh // 4, 7, slow) if fresh else ()
        for place in range(0, len(spread), 2):
            self._counts[task][spread[place]] += spread[place + 1]
        window = Window(3, 180 if slow else 19, 9 * fresh, fresh) if fresh else None
        return PartitionMeasures(
            topic_name(topic),
            partition,
            f"A.{topic_name(topic)}",
            records - 1,
            end,
            lag,
            oldest if lag else None,
            0,
            records,
            records * 512,
            window,
            window,
            spread,
        )

    def _group(self, number: int) -> GroupMeasures:
        again = 0 if number % 7 else 12
        rows = tuple(
            GroupPartition(
                topic_name(number),
                partition,
                f"A.{topic_name(number)}",
                None if number == 5 else again,
                None if number == 5 else 0,
                Window(20, 60, 80, 2),
            )
            for partition in range(PARTITIONS)
        )
        return GroupMeasures(
            f"service-{number:02}", self._hand.ms - 400, self._hand.ms - 300 if number % 3 else None, rows
        )

    def _problems(self, step: int, task: int) -> tuple[Problem, ...]:
        begun = STEPS - STALLED_STEPS
        if task != 0 or step < begun:
            return ()
        return (
            Problem(
                "source partition payments.eu-0",
                ProblemCode.PARTITION_UNREADABLE,
                "Source partition payments.eu-0 can't be read",
                "it has no leader",
                "it is tried again until it has one",
                since=BEGIN_S + begun * STEP_S,
            ),
        )

    def _report(
        self,
        task: TaskId,
        rows: Sequence[PartitionMeasures],
        counts: tuple[int, ...],
        *,
        groups: Sequence[GroupMeasures] = (),
        problems: tuple[Problem, ...] = (),
    ) -> None:
        measures = TaskMeasures(self._hand.ms, tuple(rows), latency_counts=counts, groups=tuple(groups))
        report = TaskReport(f"attempt-{task}", 100, RUNNING, settled=True, problems=problems, measures=measures)
        self._worker.metrics.take(task, report, ())


async def _connectors(worker: FakeWorker) -> None:
    async def create(name: str, config: dict[str, str]) -> None:
        await worker.herder.configs.create(name, config, None)

    worker.connectors.tasks["source"] = TASKS
    worker.supervisor.failing[TaskId("payments", 0)] = "ConfigError: ssl.truststore.location=/etc/ca.jks can't be read"
    await create("source", source_config())
    await create("checkpoint", source_config(connector__class=f"{PACKAGE}MirrorCheckpointConnector"))
    await create("heartbeat", source_config(connector__class=f"{PACKAGE}MirrorHeartbeatConnector"))
    await create("payments", source_config(source__cluster__alias="C"))
    back = {"source__cluster__alias": "B", "target__cluster__alias": "A"}
    await create("back", source_config(connector__class=f"{PACKAGE}MirrorHeartbeatConnector", **back))
    names = ("source", "checkpoint", "heartbeat", "payments", "back")
    await eventually(lambda: all(name in worker.connectors.running for name in names))
    for task in range(TASKS):
        await eventually(lambda task=task: worker.supervisor.wanted.get(TaskId("source", task)) is not None)  # type: ignore[misc]
    _assign(worker)
    await worker.state("source", "RUNNING", ["RUNNING"] * TASKS)
    await worker.state("payments", "RUNNING", ["FAILED"])
    for name in ("checkpoint", "heartbeat", "back"):
        await worker.state(name, "RUNNING", ["RUNNING"])
    await worker.herder.configs.pause("back")
    await worker.state("back", "PAUSED", ["PAUSED"])


def _assign(worker: FakeWorker) -> None:
    """Gives the tasks their partitions and groups."""
    names = [f"{topic_name(topic)}-{partition}" for topic in range(TOPICS) for partition in range(PARTITIONS)]
    configs: list[dict[str, str]] = [
        {"task.index": str(task), ASSIGNED_PARTITIONS: ",".join(names[task::TASKS])} for task in range(TASKS)
    ]
    groups = ",".join(f"service-{number:02}" for number in range(GROUPS))
    for name, changed in (
        ("source", configs),
        ("checkpoint", [{"task.index": "0", "task.assigned.groups": groups}]),
        ("payments", [{"task.index": "0", ASSIGNED_PARTITIONS: "cards-0,cards-1"}]),
    ):
        running = worker.connectors.running[name]
        running.context.request_task_reconfiguration([{**running.raw, **each} for each in changed])


async def answers() -> dict[str, Any]:
    """Each file's name, and its answer."""
    hand = Hand()
    statuses = FakeTopic(now_ms=lambda: hand.ms)
    metrics = WorkerMetrics(hand.clock, hand.wall_clock)
    async with FakeWorker(statuses=statuses, metrics=metrics).running() as worker:
        worker.herder._link_watch.stop()  # time passes here by hand
        await _connectors(worker)
        await eventually(lambda: len(worker.configs.snapshot().tasks("source")[0].get(ASSIGNED_PARTITIONS) or "") > 0)
        watch, told = LinkWatch(worker.herder.links), Told(worker, hand)
        for step in range(STEPS):
            told.step(step)
            await watch.look()
            hand.s += STEP_S
        hand.s -= STEP_S - 0.25
        link = "/admin/links/A-%3EB"
        paths = {
            "links": "/admin/links",
            "topics": f"{link}/topics?limit=1000",
            "topic": f"{link}/topics/payments.eu",
            "groups": f"{link}/groups",
            "history": f"{link}/history",
        }
        async with serving(worker.herder) as client:
            found = {name: (await client.get(path)).json() for name, path in paths.items()}
    return found


def written(answer: Mapping[str, Any]) -> str:
    """One row a line."""
    *members, rows = answer.items()
    first = "".join(f"{json.dumps(name)}: {json.dumps(value)},\n" for name, value in members)
    lines = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows[1])
    return f"{{{first}{json.dumps(rows[0])}: [\n{lines}\n]}}\n"


def path_of(name: str) -> Path:
    return FOLDER / f"{name}.json"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each, body in asyncio.run(answers()).items():
        path_of(each).write_text(written(body), "utf-8")
