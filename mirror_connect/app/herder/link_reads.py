"""Links as REST shows them: names and states from the topics, and figures of all tasks of the group.

Figures come from the tasks that run here, and from what the other workers tell (figures_elsewhere.py). So every worker shows
the same. What another worker does not tell is unknown.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from mirror_connect.app.errors import LinkNotFound, NotFound
from mirror_connect.app.herder.assigned import AT_ONCE, Assigned, AssignedByConnector
from mirror_connect.app.herder.connector_reads import ConnectorReads
from mirror_connect.app.herder.figures_elsewhere import FiguresElsewhere
from mirror_connect.app.herder.interfaces import Membership, Supervisor, WorkerClient
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.herder.lifecycle import State
from mirror_connect.app.herder.link_parts import NO_ROWS
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
from mirror_connect.app.herder.own_figures import group_figures, own_lines
from mirror_connect.app.herder.topic_reading import TopicReading
from mirror_connect.app.herder.views import Config, StateInfo
from mirror_connect.app.metrics.link_history import HistoryPoint
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.version import API_VERSION
from mirror_connect.connectors.problems import ProblemCode
from mirror_connect.connectors.task_protocol import TaskId

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
        ProblemCode.PARTITION_STALLED_LINK_TOO_SLOW,
        ProblemCode.PARTITION_STALLED_TRANSFORMATION,
    }
)


class LinkReads:
    """See the module. `worker_id` is host:port of the advertised REST listener; `cluster_id` that of its topics' cluster.

    `client` reaches the other workers; None if there are none. `spark`: where its tasks run.
    """

    def __init__(
        self,
        *,
        configs: ConfigStore,
        connectors: ConnectorReads,
        leadership: Leadership,
        metrics: WorkerMetrics,
        worker_id: str,
        cluster_id: Callable[[], str | None],
        membership: Membership,
        client: WorkerClient | None = None,
        spark: Supervisor | None = None,
    ) -> None:
        self._configs = configs
        self._connectors = connectors
        self._leadership = leadership
        self._worker_id = worker_id
        self._cluster_id = cluster_id
        self._membership = membership
        self._assigned = AssignedByConnector()
        self._spark = spark
        self.metrics: Final = metrics
        self.others: Final = FiguresElsewhere(client, lambda: membership.assignment.workers, worker_id, metrics.now)

    # REST.

    async def worker(self) -> WorkerView:
        """The worker that answers."""
        await self._leadership.until_ready()
        return WorkerView(self._worker_id, API_VERSION, self._cluster_id(), self.metrics.now_ms())

    async def all(self) -> list[LinkView]:
        """All links, by name."""
        await self._leadership.until_ready()
        await self.others.refresh()
        views = []
        for link in self.present():
            views.append(await self._view(link))
            await asyncio.sleep(0)
        return views

    async def topics(
        self, link: str, *, search: str = "", order: TopicOrder = TopicOrder.LAG, limit: int, offset: int = 0
    ) -> tuple[int, list[TopicView]]:
        """How many topics of a link have this text in their name or in that of their remote topic, and one page of them."""
        found = await self._looked_at(link)
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
        found = await self._looked_at(link)
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
        found = await self._looked_at(link)
        now = self.metrics.now()
        of_groups = {name: member for member in found.members for name in member.assigned.groups}
        # Once: for ten thousand groups and a long text it would be seconds.
        text = search.lower()
        names = sorted(name for name in of_groups if text in name.lower())
        return len(names), [_group_view(name, of_groups[name], now) for name in names[offset : offset + limit]]

    async def figures(self, rows_of: Collection[str]) -> AsyncIterator[bytes]:
        """What this worker tells another one, line by line."""
        await self._leadership.until_ready()
        members = [each for link in self.present() for each in link.members]
        lease = self._membership.runs_for()
        return own_lines(
            self._worker_id,
            lease if math.isfinite(lease) else None,
            self.metrics,
            members,
            rows_of,
            spark=None if self._spark is None else self._spark.readiness.name,
            places=() if self._spark is None else self._spark.places(),
        )

    async def history(self, link: str, minutes: float) -> list[HistoryPoint]:
        """The last minutes of a link, the newest point last."""
        found = await self._link(link)
        return self.metrics.history(found.name).points(minutes, self.metrics.now_ms())

    # Links.

    def present(self) -> list[Link]:
        """All links as of now, by name."""
        snapshot, now = self._configs.snapshot(), self.metrics.now()
        known = self.others.known()
        members: dict[tuple[str, str], list[Member]] = {}
        for name, config in sorted(snapshot.connectors.items()):
            assigned = self._assigned.of(name, snapshot.tasks(name), snapshot.owners.get(name))
            members.setdefault(aliases_of(config), []).append(
                self._member(self._connector(name, config), assigned, now)
            )
        links = [
            Link(f"{source}->{target}", source, target, tuple(found), self._unknown_workers(found, known))
            for (source, target), found in members.items()
        ]
        return sorted(links, key=lambda link: link.name)

    def _member(self, view: ConnectorOfLink, assigned: Assigned, now: float) -> Member:
        metrics = self.metrics.connectors.get(view.name) if self.runs(view.name) else None
        # A task that has moved to another worker was heard here a moment ago. It counts where it was heard last.
        heard: dict[int, tuple[float, str]] = {}
        telling = {} if metrics is None else metrics.telling(now)
        if metrics is not None:
            heard = {number: (now - metrics.tasks[number].heard, "") for number in telling}
        told = self.others.told(view.name)
        for each in told:
            for number in each.tasks:
                ago = each.figures.tasks[number].heard_ago + now - each.at
                if number not in heard or ago < heard[number][0]:
                    heard[number] = (ago, each.worker_id)
        if told:
            telling = {number: attempt for number, attempt in telling.items() if not heard[number][1]}
            told = [
                replace(each, tasks=frozenset(number for number in each.tasks if heard[number][1] == each.worker_id))
                for each in told
            ]
        return Member(view, assigned, metrics, telling, tuple(told))

    def _unknown_workers(self, members: Sequence[Member], known: frozenset[str]) -> tuple[str, ...]:
        running = {
            task.worker_id for each in members for task in each.view.tasks.values() if task.state == State.RUNNING.value
        }
        return tuple(sorted(running - known - {self._worker_id}))

    def runs(self, connector: str) -> bool:
        """Whether this worker runs a connector, or some of its tasks."""
        assignment = self._membership.assignment
        if not assignment.workers and not assignment.connectors:
            return self.leads  # nobody shares anything
        return connector in assignment.connectors or any(task.connector == connector for task in assignment.tasks)

    def shown(self, connector: str, tasks: Collection[int]) -> tuple[bool, frozenset[int]]:
        """What the metrics of this worker show: whether the connector itself, and which of its tasks.

        It is what is assigned to this worker. The leader shows what is assigned to nobody, too: one worker shows each.
        """
        assignment, every = self._membership.assignment, frozenset(tasks)
        if not assignment.workers and not assignment.connectors:
            return (True, every) if self.leads else (False, frozenset())  # nobody shares anything
        own = frozenset(task for task in every if TaskId(connector, task) in assignment.tasks)
        itself = connector in assignment.connectors
        if self.leads:
            others = [each for each in assignment.workers if each.worker_id != self._worker_id]
            own |= every - {task.task for each in others for task in each.tasks if task.connector == connector}
            itself = itself or not any(connector in each.connectors for each in others)
        return itself, own

    def lookup_ages(self, connector: str) -> Mapping[str, float]:
        """How old the rows of each lookup are that tasks of a connector join here, in seconds, by its name."""
        return {} if self._spark is None else self._spark.lookup_ages(connector)

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
    def leads(self) -> bool:
        """Whether this worker leads its group and has taken over."""
        return self._leadership.term is not None

    def _connector(self, name: str, config: Config) -> ConnectorOfLink:
        class_name, kind = kind_of(config)
        status = self._connectors.present_status(name)
        if status is None:
            return ConnectorOfLink(name, class_name, kind, _NO_STATUS, {})
        return ConnectorOfLink(name, class_name, kind, status.connector, dict(status.tasks))

    async def _looked_at(self, name: str) -> Link:
        """A link whose rows are read now."""
        found = await self._link(name)
        await self.others.refresh([each.view.name for each in found.members])
        return await self._link(name)

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
        heard = [each.last_report_ms(now, now_ms) for each in link.members]
        return LinkView(
            name=link.name,
            source=link.source,
            target=link.target,
            state=link.state,
            leads=self.leads,
            leader_url=self._leadership.leader,
            trace=None,
            connectors=tuple(each.view for each in link.members),
            topics=len({topic for each in link.copying for topic in each.assigned.topics}),
            partitions=sum(len(each.assigned.partitions) for each in link.copying),
            lag=await link.lag(now_ms),
            rate=link.rate(now),
            latency=link.latency(now),
            filtered=link.filtered(),
            skipped=link.skipped(),
            groups=len({group for each in link.members for group in each.assigned.groups}),
            since_ms=self.metrics.history(link.name).since_ms(link.state, now_ms),
            problems=problems,
            more_problems=more,
            last_report_ms=max((each for each in heard if each is not None), default=None),
            unknown_workers=link.unknown_workers,
        )

    def _problems(self, link: Link, now: float) -> tuple[tuple[ProblemOfLink, ...] | None, int]:
        if not any(each.told for each in link.members) and (link.unknown_workers or not self.leads):
            return None, 0
        told = [(each.view.name, *each.problems(now)) for each in link.members]
        found = tuple(ProblemOfLink(name, problem) for name, problems, _ in told for problem in problems)
        return found, sum(more for *_, more in told)

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
    found = None if member.metrics is None else group_figures(member.metrics, name, now)
    if found is None or found.task not in member.telling:
        told = ((each.rows or NO_ROWS, each.tasks) for each in member.elsewhere)
        groups = (row for rows, tasks in told if (row := rows.groups.get(name)) is not None and row.task in tasks)
        found = next(groups, None)
    if found is None:
        return GroupView(name, None, None, None, None, None, None, ())
    return GroupView(
        group=name,
        partitions=found.partitions,
        read_again=found.read_again,
        skipped=found.skipped,
        untranslated=found.untranslated,
        checkpoint_latency_ms=found.checkpoint_latency_ms,
        synced_ms=found.synced_ms,
        topics=tuple(found.topics),
    )
