"""A process whose tasks have told made-up measures, as its metrics show it: a link A->B, and what else a test asks for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from mirror_connect.app.exposition.exposition import ExpositionSettings, pieces_of
from mirror_connect.app.exposition.measured import (
    CHECKPOINT,
    SOURCE,
    JvmFigures,
    MeasuredConnector,
    MeasuredProcess,
    MeasuredSpark,
    MeasuredWorker,
    ProcessFigures,
)
from mirror_connect.app.exposition.page import Format
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_measures import (
    BUCKETS,
    DONE_WITH_BATCHES,
    GroupMeasures,
    GroupPartition,
    PartitionMeasures,
    RequestMeasures,
    TaskMeasures,
    Window,
)
from mirror_connect.connectors.task_protocol import RUNNING, TaskId, TaskReport

USUAL = ExpositionSettings()
NOW_S = 1_764_108_000.0
NOW_MS = int(NOW_S * 1000)
SOURCE_CLASS = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
CHECKPOINT_CLASS = "org.apache.kafka.connect.mirror.MirrorCheckpointConnector"
LINK = "A->B.MirrorSourceConnector"
CHECKPOINTS = "A->B.MirrorCheckpointConnector"
CHECKPOINT_LATENCY = Window(20, 60, 80, 2)
REQUESTS = tuple(
    RequestMeasures(side, kind, 90, 1, 900.5, 40.0, 4_000, 800_000, 0)
    for side, kind in (("source", "Fetch"), ("source", "Metadata"), ("target", "Produce"))
)


class Clock:
    """Moved by tests."""

    def __init__(self) -> None:
        self.s = 1_000.0

    def __call__(self) -> float:
        return self.s

    def wall(self) -> float:
        return NOW_S + self.s - 1_000.0


def row(
    topic: str, partition: int, *, lag: int | None = 0, oldest_ms: int | None = None, records: int = 120
) -> PartitionMeasures:
    """A partition; at rest unless told otherwise."""
    end = None if lag is None else records + lag
    window = Window(5, 40, 12 * records, records) if records else None
    counts = (3, records) if records else ()
    return PartitionMeasures(
        topic,
        partition,
        f"A.{topic}",
        records - 1,
        end,
        lag,
        oldest_ms,
        2,
        records,
        records * 100,
        window,
        window,
        counts,
    )


def measures(rows: Sequence[PartitionMeasures], at_ms: int = NOW_MS) -> TaskMeasures:
    """Those of a copying task."""
    counts = [0] * BUCKETS
    counts[3] = sum(each.records for each in rows)
    return TaskMeasures(
        at_ms,
        partitions=tuple(rows),
        latency_counts=tuple(counts),
        latency_total_ms=12 * sum(counts),
        batches={action: (10 + place, 1_000 * place) for place, action in enumerate(DONE_WITH_BATCHES)},
        filtered=30,
        compressed_bytes=50_000,
        sampled=(1_000, 3_000),
        requests=REQUESTS,
        connections=(3, 2),
        lease_ms=7_400,
        buffered_bytes=1 << 20,
        buffer_bytes=8 << 20,
        commits=7,
        failed_commits=1,
        commit=Window(3, 9, 12, 2),
        committed_ms=at_ms - 400,
    )


def checkpoint_measures(latency: Window | None = CHECKPOINT_LATENCY) -> TaskMeasures:
    """Those of a checkpoint task with a group."""
    partitions = tuple(GroupPartition("orders", partition, "A.orders", partition, 0, latency) for partition in range(2))
    produce = replace(TaskMeasures(NOW_MS), requests=(REQUESTS[2],))
    return replace(produce, groups=(GroupMeasures("readers", NOW_MS - 300, NOW_MS - 200, partitions),))


def report(
    told: TaskMeasures | None, problems: Sequence[Problem] = (), attempt: str = "1", state: str = RUNNING
) -> TaskReport:
    """A report of a task."""
    return TaskReport(attempt, 1, state, problems=tuple(problems), settled=False, measures=told)


def problem(subject: str = "source partition orders-0") -> Problem:
    """A present one."""
    return Problem(subject, ProblemCode.PARTITION_UNREADABLE, f"{subject} can't be read", "no leader", since=NOW_S - 60)


class Told:
    """A worker's metrics, and the connectors that a scrape shows of them."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.metrics = WorkerMetrics(self.clock, self.clock.wall)
        self.connectors: list[MeasuredConnector] = []

    def source(
        self,
        rows: Sequence[Sequence[PartitionMeasures]],
        *,
        name: str = LINK,
        aliases: tuple[str, str] = ("A", "B"),
        problems: Sequence[Problem] = (),
        formats: Iterable[str] = ("legacy",),
        states: Sequence[str] = (),
    ) -> None:
        """A source connector; `rows` by its tasks."""
        for task, of_task in enumerate(rows):
            self.metrics.take(TaskId(name, task), report(measures(of_task), problems if task == 0 else ()), ())
        self.connectors.append(
            MeasuredConnector(
                name=name,
                bare_name=name,
                class_name=SOURCE_CLASS,
                kind=SOURCE,
                source=aliases[0],
                target=aliases[1],
                state="RUNNING",
                tasks=dict(enumerate(states or ["RUNNING"] * len(rows))),
                partitions=[TopicPartition(each.topic, each.partition) for of_task in rows for each in of_task],
                groups=(),
                metrics=self.metrics.connector(name),
                formats=frozenset(formats),
            )
        )

    def checkpoints(self, formats: Iterable[str] = ("legacy",)) -> None:
        """A checkpoint connector with the group `readers`."""
        self.metrics.take(TaskId(CHECKPOINTS, 0), report(checkpoint_measures()), ())
        self.connectors.append(
            MeasuredConnector(
                name=CHECKPOINTS,
                bare_name=CHECKPOINTS,
                class_name=CHECKPOINT_CLASS,
                kind=CHECKPOINT,
                source="A",
                target="B",
                state="RUNNING",
                tasks={0: "RUNNING"},
                partitions=(),
                groups=("readers",),
                metrics=self.metrics.connector(CHECKPOINTS),
                formats=frozenset(formats),
            )
        )

    def process(self) -> MeasuredProcess:
        """As of now."""
        worker = MeasuredWorker(
            flow="",
            leads=True,
            now=self.metrics.now(),
            now_ms=self.metrics.now_ms(),
            connectors=tuple(self.connectors),
            lease_s=7.5,
            leader="http://10.0.0.1:8083/",
            member="connect-10.0.0.1:8083",
            rebalancing=False,
            epoch=3,
        )
        spark = MeasuredSpark(
            up=True,
            slots=64,
            wanted=2,
            jvm=JvmFigures({"heap": 90_000_000, "nonheap": 60_000_000}, 77, {"Copy": (2, 0.65)}),
            processes={"worker": ProcessFigures(100 << 20, 4.5)},
        )
        return MeasuredProcess("1.0", (worker,), spark)

    def text(self, settings: ExpositionSettings = USUAL, text_format: Format = Format.TEXT) -> str:
        """What a scrape gives."""
        return "".join(pieces_of(self.process(), settings, text_format))


def whole(formats: Iterable[str] = ("legacy",)) -> Told:
    """What tests/contract/record_metrics.py has: a link of two tasks with a group, and a connector without quotes."""
    told = Told()
    behind = row("orders", 1, lag=5, oldest_ms=NOW_MS - 2_500)
    tasks = [[row("orders", 0), row("orders.eu-1", 0)], [behind, row("orders.eu-1", 1)]]
    told.source(tasks, formats=formats)
    plain = [[row("orders", each)._replace(remote_topic="C.orders") for each in range(2)]]
    told.source(plain, name="plain-source", aliases=("C", "B"), problems=[problem()], formats=formats)
    told.checkpoints(formats)
    return told
