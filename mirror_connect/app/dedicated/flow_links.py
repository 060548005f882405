"""The links of all flows of a process, of whose workers some lead their flow, and some may not be up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from mirror_connect.app.dedicated.flow_runner import FlowRunner
from mirror_connect.app.errors import ConnectError, LinkNotFound, NotReady
from mirror_connect.app.herder.lifecycle import State
from mirror_connect.app.herder.link_reads import LinkReads
from mirror_connect.app.herder.link_views import (
    GroupView,
    LinkView,
    PartitionView,
    TopicOrder,
    TopicView,
    WorkerView,
)
from mirror_connect.app.metrics.figures import Lag
from mirror_connect.app.metrics.link_history import HistoryPoint
from mirror_connect.app.version import API_VERSION

# The text of the error may hold anything; the log hides secrets.
NOT_UP: Final = "The flow is not up. The log of this process says why"


class FlowLinks:
    """See the module. `worker_id`: host:port of the process's REST listener."""

    def __init__(self, flows: Sequence[FlowRunner], worker_id: str) -> None:
        self._flows = flows
        self._worker_id = worker_id

    async def worker(self) -> WorkerView:
        """See rest.links.Links."""
        return WorkerView(self._worker_id, API_VERSION, None, int(time.time() * 1000))

    async def all(self) -> list[LinkView]:
        """See rest.links.Links."""
        views = []
        for runner in self._flows:
            up = runner.worker if runner.up else None
            found = [] if up is None else await _all(up.herder.links)
            views += found or [_without_connectors(runner, None if up is not None else NOT_UP)]
        return sorted(views, key=lambda view: view.name)

    async def topics(
        self, link: str, *, search: str = "", order: TopicOrder = TopicOrder.LAG, limit: int, offset: int = 0
    ) -> tuple[int, list[TopicView]]:
        """See rest.links.Links."""
        return await self._of(link).topics(link, search=search, order=order, limit=limit, offset=offset)

    async def topic(self, link: str, topic: str) -> tuple[str | None, list[PartitionView]]:
        """See rest.links.Links."""
        return await self._of(link).topic(link, topic)

    async def groups(self, link: str, *, search: str = "", limit: int, offset: int = 0) -> tuple[int, list[GroupView]]:
        """See rest.links.Links."""
        return await self._of(link).groups(link, search=search, limit=limit, offset=offset)

    async def history(self, link: str, minutes: float) -> list[HistoryPoint]:
        """See rest.links.Links."""
        return await self._of(link).history(link, minutes)

    def _of(self, link: str) -> LinkReads:
        """A flow's connectors have its aliases, so a flow is a link."""
        runner = next((each for each in self._flows if each.flow.name == link), None)
        if runner is None:
            raise LinkNotFound(link)
        if runner.worker is None or not runner.up:
            raise NotReady(f"flow {link} is not up")
        return runner.worker.herder.links


async def _all(links: LinkReads) -> list[LinkView]:
    try:
        return await links.all()
    except ConnectError:
        return []  # it starts or ends; the other flows are shown


def _without_connectors(runner: FlowRunner, trace: str | None) -> LinkView:
    """A flow that is not up, or whose connectors are not written yet."""
    flow, state = runner.flow, State.UNASSIGNED.value
    return LinkView(
        name=flow.name,
        source=flow.source,
        target=flow.target,
        state=state,
        leads=False,
        leader_url=None,
        trace=trace,
        connectors=(),
        topics=0,
        partitions=0,
        lag=Lag(None, None),
        rate=None,
        latency=None,
        filtered=None,
        skipped=None,
        groups=0,
        since_ms=runner.metrics.history(flow.name).since_ms(state, runner.metrics.now_ms()),
        problems=None,
        more_problems=0,
        last_report_ms=None,
    )
