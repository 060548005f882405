"""Looks at every link once a second: since when it has its state, and every ten seconds a point of its history."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Final

from mirror_connect.app.herder.link_reads import LinkReads
from mirror_connect.app.herder.links import Link, Member
from mirror_connect.app.metrics.connector_metrics import NO_COUNTS
from mirror_connect.app.metrics.latencies import latency_of_all
from mirror_connect.app.metrics.link_history import STEP_S, HistoryPoint

log = logging.getLogger(__name__)

LOOK_S: Final = 1.0


# A connector at one worker process.
_Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Counted:
    """What a connector had counted at one worker, and when: another worker told it some seconds ago."""

    at: float
    records: int
    bytes: int
    latency_counts: tuple[int, ...]

    @classmethod
    def by(cls, member: Member, now: float) -> dict[_Key, _Counted]:
        """At each worker."""
        name, own = member.view.name, member.metrics
        found = {
            (name, each.process): cls(
                each.at, each.figures.records, each.figures.bytes, each.figures.latency_counts or NO_COUNTS
            )
            for each in member.elsewhere
        }
        if own is not None:
            found[name, ""] = cls(now, own.growth.records, own.growth.bytes, own.latency_counts)
        return found


class LinkWatch:
    """See the module."""

    def __init__(self, links: LinkReads) -> None:
        self._links = links
        self._metrics = links.metrics
        self._step: int | None = None
        self._last: dict[_Key, _Counted] | None = None
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
        now = self._metrics.now()
        last, self._last = self._last, {}
        for link in links:
            await asyncio.sleep(0)
            counted = {key: each for member in link.copying for key, each in _Counted.by(member, now).items()}
            self._last |= counted
            if last is not None:
                grown = [
                    (last[key], present)
                    for key, present in counted.items()
                    if key in last and present.at > last[key].at
                ]
                self._metrics.history(link.name).add(await self._point(link, grown, step * STEP_S * 1000))

    async def _point(self, link: Link, grown: list[tuple[_Counted, _Counted]], time_ms: int) -> HistoryPoint:
        lag = await link.lag(self._metrics.now_ms())
        state = link.state
        # Of a connector that was there at the last point. None of them tells anything: the rate is unknown, and not 0.
        if not grown or link.rate(self._metrics.now()) is None:
            return HistoryPoint(time_ms, lag.records, lag.seconds_of_all, None, None, None, None, state)
        records = sum((new.records - old.records) / (new.at - old.at) for old, new in grown)
        bytes_ = sum((new.bytes - old.bytes) / (new.at - old.at) for old, new in grown)
        latency = latency_of_all(
            ([after - before for after, before in zip(new.latency_counts, old.latency_counts, strict=True)], 0)
            for old, new in grown
        )
        p50, p99 = (None, None) if latency is None else (round(latency.p50, 1), round(latency.p99, 1))
        rates = round(records, 3), round(bytes_, 1)
        return HistoryPoint(time_ms, lag.records, lag.seconds_of_all, *rates, p50, p99, state)
