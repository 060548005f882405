"""Links as REST shows them: what connectors of one direction copy, how far behind they are, and what hinders them.

None is unknown. Times are milliseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mirror_connect.app.herder.lifecycle import State
from mirror_connect.app.herder.views import StateInfo
from mirror_connect.app.metrics.figures import Lag, Latency, Rate
from mirror_connect.app.metrics.shown_problem import ShownProblem

# The worst comes first: the state of a link is that of its worst connector or task.
WORST_FIRST: Final = (
    State.FAILED,
    State.UNASSIGNED,
    State.RESTARTING,
    State.PAUSED,
    State.STOPPED,
    State.RUNNING,
)


def worst(states: Iterable[str]) -> str:
    """The state of a link whose connectors and tasks have these."""
    found = set(states)
    return next((each for each in WORST_FIRST if each in found), State.UNASSIGNED).value


class TopicOrder(StrEnum):
    """How topics are sorted: by name, or the largest first."""

    LAG = "lag"
    SECONDS = "seconds"
    RATE = "rate"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class WorkerView:
    """The worker that answers. `kafka_cluster_id`: None in a process whose flows have clusters of their own."""

    worker_id: str
    version: str
    kafka_cluster_id: str | None
    time_ms: int


@dataclass(frozen=True, slots=True)
class ConnectorOfLink:
    """A connector with its tasks by number. `kind`: source, checkpoint or heartbeat; None for an unknown class."""

    name: str
    class_name: str
    kind: str | None
    state: StateInfo
    tasks: dict[int, StateInfo]


@dataclass(frozen=True, slots=True)
class ProblemOfLink:
    """A problem, and whose it is."""

    connector: str
    problem: ShownProblem


@dataclass(frozen=True, slots=True)
class LinkView:
    """All connectors from `source` to `target`.

    `leads`: whether this worker leads the group; `leader_url` is another one that does. `unknown_workers`: ids of other
    workers with running tasks that don't tell their figures. The sums leave these tasks out. `problems`: None if no worker
    tells any. `trace`: why a flow of dedicated mode is not up. `since_ms`: since when it has its state.
    `last_report_ms`: when a task told something last. `filtered`: records that transformations have dropped. `skipped`:
    records that were left out because of an error or their size.
    """

    name: str
    source: str
    target: str
    state: str
    leads: bool
    leader_url: str | None
    trace: str | None
    connectors: tuple[ConnectorOfLink, ...]
    topics: int
    partitions: int
    lag: Lag
    rate: Rate | None
    latency: Latency | None
    filtered: int | None
    skipped: int | None
    groups: int
    since_ms: int
    problems: tuple[ProblemOfLink, ...] | None
    more_problems: int
    last_report_ms: int | None
    unknown_workers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TopicView:
    """A source topic of a link. `problem`: the line of the first one that concerns it."""

    topic: str
    remote_topic: str | None
    partitions: int
    lag: Lag
    rate: Rate | None
    latency: Latency | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A source partition. `source_offset`: the last one that the target has.

    `records`, `bytes`: acknowledged since the start of the worker that copies it.
    """

    partition: int
    source_offset: int | None
    log_end: int | None
    lag_records: int | None
    lag_seconds: float | None
    records: int | None
    bytes: int | None
    task: int
    problem: str | None


@dataclass(frozen=True, slots=True)
class GroupView:
    """A consumer group. If it moved to the target now, it would read `read_again` records twice and `skipped` records never.

    In `untranslated` partitions it would begin as its auto.offset.reset says.
    """

    group: str
    partitions: int | None
    read_again: int | None
    skipped: int | None
    untranslated: int | None
    checkpoint_latency_ms: float | None
    synced_ms: int | None
    topics: tuple[str, ...]
