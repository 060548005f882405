"""What a scrape shows of a process, as plain values: its workers with their connectors, and Spark. None is unknown."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from mirror_connect.app.metrics.connector_metrics import ConnectorMetrics
from mirror_connect.app.metrics.rebalances import RebalanceFigures
from mirror_connect.connectors.partitions import TopicPartition

# Values of `metric.names.formats`.
LEGACY: Final = "legacy"
NEW: Final = "new"

SOURCE: Final = "source"
CHECKPOINT: Final = "checkpoint"


@dataclass(frozen=True, slots=True)
class MeasuredConnector:
    """A connector that runs in this process, or a part of whose tasks do: `tasks`, `partitions` and `groups` are those.

    `name`: with the flow before it where several flows have connectors of one name; `bare_name`: its own.
    `kind`: source, checkpoint or heartbeat; None for an unknown class. `state`, `tasks`: as in the status topic; `state` is
    None at a worker that runs tasks alone. `itself`: whether the connector runs here, and not its tasks alone.
    `metrics`: what its tasks have told; None before they have told anything. `lookups`: the age of the rows of each lookup
    that tasks join here, in seconds, by its name.
    `formats`: where MirrorMaker's metrics are, LEGACY or NEW or both.
    """

    name: str
    bare_name: str
    class_name: str
    kind: str | None
    source: str
    target: str
    state: str | None
    tasks: Mapping[int, str]
    partitions: Collection[TopicPartition]
    groups: Collection[str]
    metrics: ConnectorMetrics | None
    itself: bool = True
    lookups: Mapping[str, float] = field(default_factory=dict)
    formats: frozenset[str] = frozenset({LEGACY})


@dataclass(frozen=True, slots=True)
class MeasuredWorker:
    """A worker, or a flow of dedicated mode, or a source of MirrorMaker 1; `flow` is empty in a process that has one.

    `leads`: whether it leads its group. `wanted_tasks`: at the leader, how many tasks each connector's config asks for, by
    source, target and name. `now`: seconds of the clock of its metrics; `now_ms`: ms since 1970.
    `leader`: the URL of the worker that leads. `member`: the client id of its group's member, `epoch` the generation,
    `rebalances` what there was of them; None without a group.
    """

    flow: str
    leads: bool
    now: float
    now_ms: int
    connectors: tuple[MeasuredConnector, ...] = ()
    wanted_tasks: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    lease_s: float | None = None
    leader: str | None = None
    member: str | None = None
    rebalancing: bool | None = None
    epoch: int | None = None
    rebalances: RebalanceFigures | None = None


@dataclass(frozen=True, slots=True)
class JvmFigures:
    """Of Spark's JVM: bytes used by area (heap, nonheap), threads, collections with their seconds by collector."""

    memory: Mapping[str, int] = field(default_factory=dict)
    threads: int | None = None
    collections: Mapping[str, tuple[int, float]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> JvmFigures:
        """As the driver tells it (spark_jobs/jvm_figures.py)."""
        collections = {name: (int(count), float(seconds)) for name, (count, seconds) in body["collections"].items()}
        return cls(dict(body["memory"]), body["threads"], collections)


def together(jvms: Sequence[JvmFigures]) -> JvmFigures | None:
    """The figures of several JVMs as one; None of none."""
    if len(jvms) <= 1:
        return jvms[0] if jvms else None
    memory: dict[str, int] = {}
    collections: dict[str, tuple[int, float]] = {}
    for each in jvms:
        for area, used in each.memory.items():
            memory[area] = memory.get(area, 0) + used
        for name, (count, seconds) in each.collections.items():
            before = collections.get(name, (0, 0.0))
            collections[name] = before[0] + count, before[1] + seconds
    threads = [each.threads for each in jvms if each.threads is not None]
    return JvmFigures(memory, sum(threads) if threads else None, collections)


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """Resident bytes and processor seconds of a kind of process."""

    memory: int
    cpu_s: float


@dataclass(frozen=True, slots=True)
class MeasuredSpark:
    """The Spark applications together; `slots`: None before a driver has reported.

    `processes`: by kind, with the worker's own.
    """

    up: bool
    slots: int | None
    wanted: int
    jvm: JvmFigures | None = None
    processes: Mapping[str, ProcessFigures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MeasuredProcess:
    """All of it."""

    version: str
    workers: tuple[MeasuredWorker, ...]
    spark: MeasuredSpark | None = None
