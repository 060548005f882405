"""Looks at every link once a second: since when it has its state, and every ten seconds a point of its history."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.app.herder.link_reads import LinkReads
from mirror_connect.app.herder.links import Link
from mirror_connect.app.metrics.connector_metrics import ConnectorMetrics
from mirror_connect.app.metrics.latencies import latency_of
from mirror_connect.app.metrics.link_history import STEP_S, HistoryPoint

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a connector had counted at a moment."""

    records: int
    bytes: int
    latency_counts: tuple[int, ...]

    @classmethod
    def by(cls, connector: ConnectorMetrics) -> _Counted:
        return cls(connector.growth.records, connector.growth.bytes, connector.latency_counts)


@dataclass(slots=True)
class _Moment:
    """The last point of a history: when it was, and what each connector had counted by then."""

    now: float
    counted: dict[str, _Counted] = field(default_factory=dict)


class LinkWatch:
    """See the module."""

    def __init__(self, links: LinkReads) -> None:
        self._links = links
        self._metrics = links.metrics
        self._step: int | None = None
        self._last: _Moment | None = None
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins, in the background."""
        self._watching = asyncio.create_task(self._watch())

    def stop(self) -> None:
        """Ends it."""
        if self._watching is not None:
            self._watching.cancel()

    async def _watch(self) -> None:
        failed = False
        while True:
            try:
                await self.look()
                failed = False
            except Exception:
                if not failed:
                    log.exception("A bug: the history of links has gaps. Copying goes on")
                failed = True
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Looks at all links once."""
        links, now_ms = self._links.present(), self._metrics.now_ms()
        for link in links:
            self._metrics.history(link.name).since_ms(link.state, now_ms)
        step = now_ms // (STEP_S * 1000)
        if step == self._step:
            return
        self._step = step
        await asyncio.sleep(0)
        self._links.forget_unused()
        last, self._last = self._last, _Moment(self._metrics.now())
        for link in links:
            await asyncio.sleep(0)
            counted = {each.name: _Counted.by(each) for each in link.told()}
            self._last.counted |= counted
            if last is not None:
                before = {name: last.counted[name] for name in counted if name in last.counted}
                point = await self._point(link, counted, before, self._last.now - last.now, step * STEP_S * 1000)
                self._metrics.history(link.name).add(point)

    async def _point(
        self, link: Link, counted: dict[str, _Counted], before: dict[str, _Counted], seconds: float, time_ms: int
    ) -> HistoryPoint:
        now = self._metrics.now()
        lag = await link.lag(now, self._metrics.now_ms())
        state = link.state
        # Of a connector that was there at the last point. None of them tells anything: the rate is unknown, and not 0.
        if not before or link.rate(now) is None:
            return HistoryPoint(time_ms, lag.records, lag.seconds_of_all, None, None, None, None, state)
        records = sum(counted[name].records - then.records for name, then in before.items())
        bytes_ = sum(counted[name].bytes - then.bytes for name, then in before.items())
        counts = [
            sum(of_bucket)
            for of_bucket in zip(
                *(
                    [new - old for new, old in zip(counted[name].latency_counts, then.latency_counts, strict=True)]
                    for name, then in before.items()
                ),
                strict=True,
            )
        ]
        latency = latency_of(counts)
        p50, p99 = (None, None) if latency is None else (round(latency.p50, 1), round(latency.p99, 1))
        rates = round(records / seconds, 3), round(bytes_ / seconds, 1)
        return HistoryPoint(time_ms, lag.records, lag.seconds_of_all, *rates, p50, p99, state)
