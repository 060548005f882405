"""What one worker knows of a connector at one moment, as plain values: workers of a group tell each other.

None is unknown. Durations are in seconds unless the name ends with `_ms`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from mirror_connect.app.metrics.figures import Lag, Rate
from mirror_connect.app.metrics.shown_problem import ShownProblem


class TaskFigures(NamedTuple):
    """A task that tells what it measures. `heard_ago`: since its last report. `lag`: of the partitions of its config."""

    heard_ago: float
    lag: Lag


@dataclass(frozen=True, slots=True)
class ConnectorFigures:
    """The sums. `tasks`: those that run at this worker and tell, by number.

    `records`, `bytes`, `filtered`, `skipped`, `latency_counts`: since the process started. `recent_counts`: the latencies of
    the last minute, `recent_most` the largest of them, 0 if it is not known. `rate`: None if no task tells.
    """

    tasks: Mapping[int, TaskFigures] = field(default_factory=dict)
    records: int = 0
    bytes: int = 0
    filtered: int = 0
    skipped: int = 0
    rate: Rate | None = None
    latency_counts: tuple[int, ...] = ()
    recent_counts: tuple[int, ...] = ()
    recent_most: int = 0
    problems: tuple[ShownProblem, ...] = ()
    more_problems: int = 0


class PartitionFigures(NamedTuple):
    """A source partition, as `task` tells of it. On the wire: behind topic and number, in this order."""

    task: int
    remote_topic: str
    source_offset: int | None
    log_end: int | None
    lag_records: int | None
    lag_seconds: float | None
    records: int
    bytes: int
    records_rate: float
    bytes_rate: float


class GroupFigures(NamedTuple):
    """A consumer group. On the wire: behind its name, in this order. Members as in link_views.GroupView."""

    task: int
    partitions: int
    read_again: int | None
    skipped: int | None
    untranslated: int
    checkpoint_latency_ms: float | None
    synced_ms: int | None
    topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class ConnectorRows:
    """Each partition, topic and group. `latencies`: of topics, as `ConnectorFigures.recent_counts` and `recent_most`."""

    partitions: Mapping[tuple[str, int], PartitionFigures] = field(default_factory=dict)
    latencies: Mapping[str, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    groups: Mapping[str, GroupFigures] = field(default_factory=dict)


class TaskPlace(NamedTuple):
    """Where a task runs on a Spark cluster: Spark's id of the executor, and the host by which Spark knows it."""

    connector: str
    task: int
    executor: str
    host: str


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """All that a worker tells. `process` names its process: counts begin at 0 with each.

    `version` is that of mirror-connect, and `lease` says for how many seconds the worker surely keeps what it runs. `rows`:
    of the connectors that were asked for. `spark`: the name of its Readiness; `places`: of tasks on a cluster.
    """

    worker_id: str
    process: str
    version: str | None = None
    lease: float | None = None
    spark: str | None = None
    places: tuple[TaskPlace, ...] = ()
    connectors: Mapping[str, ConnectorFigures] = field(default_factory=dict)
    rows: Mapping[str, ConnectorRows] = field(default_factory=dict)
