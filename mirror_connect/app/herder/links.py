"""Which connectors make a link: those with the same aliases of source and target cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.app.herder.assigned import AT_ONCE, Assigned
from mirror_connect.app.herder.link_parts import OwnPart, Part, ToldConnector, ToldPart
from mirror_connect.app.herder.link_views import ConnectorOfLink, worst
from mirror_connect.app.herder.views import Config
from mirror_connect.app.metrics.connector_figures import TaskFigures
from mirror_connect.app.metrics.connector_metrics import ConnectorMetrics
from mirror_connect.app.metrics.figures import Lag, Latency, Rate
from mirror_connect.app.metrics.latencies import latency_of_all
from mirror_connect.app.metrics.shown_problem import ShownProblem
from mirror_connect.connectors import CONNECTORS, MirrorCheckpoint, MirrorHeartbeat, MirrorSource

SOURCE: Final = "source"
_KINDS: Final[Mapping[str, str]] = {
    MirrorSource.class_name: SOURCE,
    MirrorCheckpoint.class_name: "checkpoint",
    MirrorHeartbeat.class_name: "heartbeat",
}
# An alias that a config does not give. The target's has a default, as in MirrorMaker.
_NO_ALIAS: Final = "?"
_TARGET: Final = "target"


def kind_of(config: Config) -> tuple[str, str | None]:
    """The full class name of a connector, and its kind: source, checkpoint or heartbeat; None for an unknown class."""
    written = config.get("connector.class") or ""
    definition = CONNECTORS.get(written)
    class_name = written if definition is None else definition.class_name
    return class_name, _KINDS.get(class_name)


def aliases_of(config: Config) -> tuple[str, str]:
    """Source and target of a connector, as its config has them: a reference to a config provider is not resolved."""
    return config.get("source.cluster.alias") or _NO_ALIAS, config.get("target.cluster.alias") or _TARGET


@dataclass(frozen=True, slots=True)
class Member:
    """A connector of a link. `metrics`: what its tasks here have told; None if none runs here, or nothing was told.

    `telling`: the tasks that count here, with their attempts. `elsewhere`: what other workers have told of it lately.
    """

    view: ConnectorOfLink
    assigned: Assigned
    metrics: ConnectorMetrics | None
    telling: Mapping[int, str] = field(default_factory=dict)
    elsewhere: tuple[ToldConnector, ...] = ()

    @property
    def copies(self) -> bool:
        """Whether it copies topics."""
        return self.view.kind == SOURCE

    @property
    def told(self) -> bool:
        """Whether any worker has told anything of it."""
        return self.metrics is not None or bool(self.elsewhere)

    def parts(self, now: float, now_ms: int) -> list[Part]:
        """What each worker knows of its topics."""
        own = [] if self.metrics is None else [OwnPart(self.metrics, self.telling, now, now_ms)]
        return [*own, *map(ToldPart, self.elsewhere)]

    def told_elsewhere(self) -> dict[int, TaskFigures]:
        """The tasks that count at other workers."""
        return {number: each.figures.tasks[number] for each in self.elsewhere for number in each.tasks}

    async def lag(self, now_ms: int) -> Lag:
        """Of all partitions. The loop gets its turn meanwhile: there may be ten thousand."""
        elsewhere = self.told_elsewhere()
        lags = [task.lag for task in elsewhere.values()]
        async for task, lag in lags_by_task(self.metrics, self.assigned, self.telling, now_ms):
            if task not in elsewhere:
                lags.append(lag)
        return Lag.of_all(lags)

    def rate(self, now: float) -> Rate | None:
        """Of all tasks that tell; None without any."""
        own = self.metrics.growth.rate(now) if self.metrics is not None and self.telling else None
        return Rate.of_all([own, *(each.figures.rate for each in self.elsewhere)])

    def filtered(self) -> int:
        """Records that transformations have dropped, at all workers that tell."""
        own = 0 if self.metrics is None else self.metrics.filtered
        return own + sum(each.figures.filtered for each in self.elsewhere)

    def skipped(self) -> int:
        """Records that were left out because of an error or their size, at all workers that tell."""
        own = 0 if self.metrics is None else self.metrics.skipped
        return own + sum(each.figures.skipped for each in self.elsewhere)

    def latencies(self, now: float) -> list[tuple[Sequence[int], int]]:
        """Of the last minute, of each worker."""
        own = [] if self.metrics is None else [self.metrics.latencies.counted(now)]
        return [*own, *((each.figures.recent_counts, each.figures.recent_most) for each in self.elsewhere)]

    def last_report_ms(self, now: float, now_ms: int) -> int | None:
        """When a task told something last."""
        own = [] if self.metrics is None else [each.heard_ms for each in self.metrics.tasks.values()]
        told = [
            now_ms - int((now - each.at + task.heard_ago) * 1000)
            for each in self.elsewhere
            for task in each.figures.tasks.values()
        ]
        return max((each for each in (*own, *told) if each is not None), default=None)

    def problems(self, now: float) -> tuple[list[ShownProblem], int]:
        """The present ones, and how many others there are."""
        found = [] if self.metrics is None else self.metrics.present_problems(now)
        more = 0 if self.metrics is None else self.metrics.more_problems(now)
        for each in self.elsewhere:
            found += each.figures.problems
            more += each.figures.more_problems
        return found, more


async def lags_by_task(
    metrics: ConnectorMetrics | None, assigned: Assigned, telling: Mapping[int, str], now_ms: int
) -> AsyncIterator[tuple[int, Lag]]:
    """The lag of each piece of each task's partitions, as this worker knows it."""
    seen = 0
    for task, portion in assigned.portions:
        if metrics is None:
            yield task, Lag(None, None, unknown=len(portion))
            continue
        yield task, metrics.lag(portion, telling, now_ms)
        seen += len(portion)
        if seen >= AT_ONCE:
            seen = 0
            await asyncio.sleep(0)


@dataclass(frozen=True, slots=True)
class Link:
    """All connectors of one direction, in the order of their names. `unknown_workers`: see LinkView."""

    name: str
    source: str
    target: str
    members: tuple[Member, ...]
    unknown_workers: tuple[str, ...] = ()

    @property
    def copying(self) -> list[Member]:
        """Those that copy topics."""
        return [each for each in self.members if each.copies]

    @property
    def state(self) -> str:
        """That of the worst connector or task."""
        views = [each.view for each in self.members]
        return worst(state.state for view in views for state in (view.state, *view.tasks.values()))

    async def lag(self, now_ms: int) -> Lag:
        """Of all partitions."""
        return Lag.of_all([await each.lag(now_ms) for each in self.copying])

    def rate(self, now: float) -> Rate | None:
        """Of the last 15 seconds; None as well while a worker with a part of it is unknown."""
        return None if self.unknown_workers else Rate.of_all(each.rate(now) for each in self.copying)

    def filtered(self) -> int | None:
        """Records that transformations have dropped; None if nobody tells, or a worker with a part of it is unknown."""
        return self._sum_of(Member.filtered)

    def skipped(self) -> int | None:
        """Records that were left out because of an error or their size; None as with `filtered`."""
        return self._sum_of(Member.skipped)

    def _sum_of(self, count: Callable[[Member], int]) -> int | None:
        told = [count(each) for each in self.copying if each.told]
        return sum(told) if told and not self.unknown_workers else None

    def latency(self, now: float) -> Latency | None:
        """Of the last minute, as far as it is known."""
        return latency_of_all(counted for each in self.copying for counted in each.latencies(now))
