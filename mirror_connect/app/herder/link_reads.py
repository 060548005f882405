"""Links as REST shows them: names and states from the topics, as on every worker, and figures from the tasks that run here.

The leader runs all tasks. So on other workers figures and problems are unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

from mirror_connect.app.errors import LinkNotFound, NotFound
from mirror_connect.app.herder.assigned import AT_ONCE, AssignedByConnector
from mirror_connect.app.herder.connector_reads import ConnectorReads
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.herder.lifecycle import State
from mirror_connect.app.herder.link_views import (
    ConnectorOfLink,
    GroupView,
    LinkView,
    PartitionView,
    ProblemOfLink,
    TopicOrder,
    TopicView,
    WorkerView,
)
from mirror_connect.app.herder.links import Link, Member, aliases_of, kind_of
from mirror_connect.app.herder.topic_reading import TopicReading
from mirror_connect.app.herder.views import Config, StateInfo
from mirror_connect.app.metrics.link_history import HistoryPoint
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.version import API_VERSION
from mirror_connect.connectors.problems import ProblemCode

# Of a connector without a status: it is so new, or nobody leads.
_NO_STATUS: Final = StateInfo(State.UNASSIGNED.value, "", None, None)
_PARTITION: Final = "partition "
# The subject of these is a topic or a partition; that of others may have the name of a topic by chance, as a group's.
_OF_TOPICS: Final = frozenset(
    {
        ProblemCode.TOPIC_NOT_CREATED,
        ProblemCode.TOPIC_NOT_COPIED,
        ProblemCode.TOPIC_RECREATED,
        ProblemCode.PARTITION_UNREADABLE,
        ProblemCode.PARTITION_READ_DENIED,
        ProblemCode.PARTITION_WITHOUT_POSITION,
        ProblemCode.PARTITION_EPOCHS_UNKNOWN,
        ProblemCode.PARTITION_TRUNCATED,
        ProblemCode.PARTITION_UNWRITABLE,
        ProblemCode.PARTITION_WRITE_DENIED,
        ProblemCode.PRODUCER_STATE_LOST,
        ProblemCode.PARTITION_STALLED_BATCH_CORRUPT,
        ProblemCode.PARTITION_STALLED_BATCH_REFUSED,
        ProblemCode.PARTITION_STALLED_RECORD_TOO_LARGE,
    }
)


class LinkReads:
    """See the module. `worker_id` is host:port of the advertised REST listener; `cluster_id` that of its topics' cluster."""

    def __init__(
        self,
        *,
        configs: ConfigStore,
        connectors: ConnectorReads,
        leadership: Leadership,
        metrics: WorkerMetrics,
        worker_id: str,
        cluster_id: Callable[[], str | None],
    ) -> None:
        self._configs = configs
        self._connectors = connectors
        self._leadership = leadership
        self._worker_id = worker_id
        self._cluster_id = cluster_id
        self._assigned = AssignedByConnector()
        self.metrics: Final = metrics

    # --- REST -------------------------------------------------------------------------------------------------------

    async def worker(self) -> WorkerView:
        """The worker that answers."""
        await self._leadership.until_ready()
        return WorkerView(self._worker_id, API_VERSION, self._cluster_id(), self.metrics.now_ms())

    async def all(self) -> list[LinkView]:
        """All links, by name."""
        await self._leadership.until_ready()
        views = []
        for link in self.present():
            views.append(await self._view(link))
            await asyncio.sleep(0)
        return views

    async def topics(
        self, link: str, *, search: str = "", order: TopicOrder = TopicOrder.LAG, limit: int, offset: int = 0
    ) -> tuple[int, list[TopicView]]:
        """How many topics of a link have this text in their name or in that of their remote topic, and one page of them."""
        found = await self._link(link)
        reading = self._reading(found)
        names = reading.topics(search)
        if order is not TopicOrder.NAME:
            keys = {}
            async for name in _in_turns(names, reading):
                keys[name] = reading.rank(name, order)
            names.sort(key=keys.__getitem__)
        rows = [reading.topic(name) async for name in _in_turns(names[offset : offset + limit], reading)]
        return len(names), rows

    async def topic(self, link: str, topic: str) -> tuple[str | None, list[PartitionView]]:
        """The remote topic and the partitions of a source topic. NotFound."""
        found = await self._link(link)
        reading = self._reading(found)
        rows = []
        for member in found.copying:
            for place, partition in enumerate(member.assigned.topics.get(topic, ())):
                rows.append(reading.partition(member, partition))
                if place % AT_ONCE == 0:
                    await asyncio.sleep(0)
        if not rows:
            raise NotFound(f"Link {link} copies no topic {topic}")
        return reading.remote_topic(topic), sorted(rows, key=lambda row: row.partition)

    async def groups(self, link: str, *, search: str = "", limit: int, offset: int = 0) -> tuple[int, list[GroupView]]:
        """How many groups of a link have this text in their names, and one page of them, by name."""
        found = await self._link(link)
        now = self.metrics.now()
        of_groups = {name: member for member in found.members for name in member.assigned.groups}
        # Once: for ten thousand groups and a long text it would be seconds.
        text = search.lower()
        names = sorted(name for name in of_groups if text in name.lower())
        return len(names), [_group_view(name, of_groups[name], now) for name in names[offset : offset + limit]]

    async def history(self, link: str, minutes: float) -> list[HistoryPoint]:
        """The last minutes of a link, the newest point last."""
        found = await self._link(link)
        return self.metrics.history(found.name).points(minutes, self.metrics.now_ms())

    # --- links ------------------------------------------------------------------------------------------------------

    def present(self) -> list[Link]:
        """All links as of now, by name."""
        snapshot, leads = self._configs.snapshot(), self._leads
        members: dict[tuple[str, str], list[Member]] = {}
        for name, config in sorted(snapshot.connectors.items()):
            assigned = self._assigned.of(name, snapshot.tasks(name))
            metrics = self.metrics.connectors.get(name) if leads else None
            members.setdefault(aliases_of(config), []).append(Member(self._connector(name, config), assigned, metrics))
        links = [
            Link(f"{source}->{target}", source, target, tuple(found)) for (source, target), found in members.items()
        ]
        return sorted(links, key=lambda link: link.name)

    def forget_unused(self) -> None:
        """Forgets what no connector, task or link is there for any more."""
        snapshot, links = self._configs.snapshot(), self.present()
        self._assigned.keep(snapshot.connectors)
        self.metrics.keep(snapshot.connectors.keys(), {link.name for link in links})
        for member in (each for link in links for each in link.members):
            metrics = self.metrics.connectors.get(member.view.name)
            count = snapshot.task_count(member.view.name)
            if metrics is None or metrics.keeps(member.assigned, count):
                continue
            # One that is stopped has no tasks. It may go on, and then its counters do so, too.
            if count:
                metrics.keep(member.assigned.partitions, member.assigned.groups, count)

    @property
    def _leads(self) -> bool:
        return self._leadership.term is not None

    def _connector(self, name: str, config: Config) -> ConnectorOfLink:
        class_name, kind = kind_of(config)
        status = self._connectors.present_status(name)
        if status is None:
            return ConnectorOfLink(name, class_name, kind, _NO_STATUS, {})
        return ConnectorOfLink(name, class_name, kind, status.connector, dict(status.tasks))

    async def _link(self, name: str) -> Link:
        await self._leadership.until_ready()
        found = next((link for link in self.present() if link.name == name), None)
        if found is None:
            raise LinkNotFound(name)
        return found

    def _reading(self, link: Link) -> TopicReading:
        now = self.metrics.now()
        return TopicReading(link, self._lines(link, now), now, self.metrics.now_ms())

    async def _view(self, link: Link) -> LinkView:
        now, now_ms = self.metrics.now(), self.metrics.now_ms()
        problems, more = self._problems(link, now)
        heard = [
            task.heard_ms
            for each in link.members
            if each.metrics is not None
            for task in each.metrics.tasks.values()
            if task.heard_ms is not None
        ]
        return LinkView(
            name=link.name,
            source=link.source,
            target=link.target,
            state=link.state,
            leads=self._leads,
            leader_url=self._leadership.leader,
            trace=None,
            connectors=tuple(each.view for each in link.members),
            topics=len({topic for each in link.copying for topic in each.assigned.topics}),
            partitions=sum(len(each.assigned.partitions) for each in link.copying),
            lag=await link.lag(now, now_ms),
            rate=link.rate(now),
            latency=link.latency(now),
            groups=len({group for each in link.members for group in each.assigned.groups}),
            since_ms=self.metrics.history(link.name).since_ms(link.state, now_ms),
            problems=problems,
            more_problems=more,
            last_report_ms=max(heard, default=None),
        )

    def _problems(self, link: Link, now: float) -> tuple[tuple[ProblemOfLink, ...] | None, int]:
        if not self._leads:
            return None, 0
        told = [(each.view.name, each.metrics) for each in link.members if each.metrics is not None]
        found = tuple(ProblemOfLink(name, problem) for name, each in told for problem in each.present_problems(now))
        return found, sum(each.more_problems(now) for _, each in told)

    def _lines(self, link: Link, now: float) -> Mapping[str, str]:
        """The line of the first problem with each topic or partition, by the name in its subject."""
        found: dict[str, str] = {}
        for each in self._problems(link, now)[0] or ():
            if each.problem.code in _OF_TOPICS:
                # Such as orders, orders-0, or source partition orders-0.
                found.setdefault(each.problem.subject.rpartition(_PARTITION)[2], each.problem.line)
        return found


async def _in_turns(topics: Sequence[str], reading: TopicReading) -> AsyncIterator[str]:
    """These topics. After some partitions the loop gets its turn."""
    seen = 0
    for topic in topics:
        yield topic
        seen += reading.partitions(topic)
        if seen >= AT_ONCE:
            seen = 0
            await asyncio.sleep(0)


def _group_view(name: str, member: Member, now: float) -> GroupView:
    found = None if member.metrics is None else member.metrics.group(name, now)
    if found is None:
        return GroupView(name, None, None, None, None, None, None, ())
    return GroupView(
        group=name,
        partitions=len(found.told.partitions),
        read_again=found.read_again,
        skipped=found.skipped,
        untranslated=found.untranslated,
        checkpoint_latency_ms=found.latency_ms,
        synced_ms=found.told.synced_ms,
        topics=tuple(dict.fromkeys(each.topic for each in found.told.partitions)),
    )
