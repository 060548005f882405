"""Which connectors make a link: those with the same aliases of source and target cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from mirror_connect.app.herder.assigned import Assigned
from mirror_connect.app.herder.link_views import ConnectorOfLink, worst
from mirror_connect.app.herder.views import Config
from mirror_connect.app.metrics.connector_metrics import ConnectorMetrics
from mirror_connect.app.metrics.figures import Lag, Latency, Rate
from mirror_connect.app.metrics.latencies import latency_of
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
    """A connector of a link. `metrics`: what its tasks have told; None if they run elsewhere, or nothing was told."""

    view: ConnectorOfLink
    assigned: Assigned
    metrics: ConnectorMetrics | None

    @property
    def copies(self) -> bool:
        """Whether it copies topics."""
        return self.view.kind == SOURCE


@dataclass(frozen=True, slots=True)
class Link:
    """All connectors of one direction, in the order of their names."""

    name: str
    source: str
    target: str
    members: tuple[Member, ...]

    @property
    def copying(self) -> list[Member]:
        """Those that copy topics."""
        return [each for each in self.members if each.copies]

    @property
    def state(self) -> str:
        """That of the worst connector or task."""
        views = [each.view for each in self.members]
        return worst(state.state for view in views for state in (view.state, *view.tasks.values()))

    def told(self) -> Iterator[ConnectorMetrics]:
        """What the tasks of each copying connector have told."""
        return (each.metrics for each in self.copying if each.metrics is not None)

    async def lag(self, now: float, now_ms: int) -> Lag:
        """Of all partitions. The loop gets its turn meanwhile: there may be ten thousand."""
        lags = []
        for each in self.copying:
            if each.metrics is None:
                lags.append(Lag(None, None, unknown=len(each.assigned.partitions)))
                continue
            telling = each.metrics.telling(now)
            for portion in each.assigned.portions:
                lags.append(each.metrics.lag(portion, telling, now_ms))
                await asyncio.sleep(0)
        return Lag.of_all(lags)

    def rate(self, now: float) -> Rate | None:
        """Of the last 15 seconds."""
        return Rate.of_all(each.rate(now) for each in self.told())

    def latency(self, now: float) -> Latency | None:
        """Of the last minute."""
        counted = [each.latencies.counted(now) for each in self.told()]
        if not counted:
            return None
        counts = [sum(of_bucket) for of_bucket in zip(*(counts for counts, _ in counted), strict=True)]
        return latency_of(counts, max(most for _, most in counted))
