"""What a scrape of the metrics shows of a worker, and of a source of MirrorMaker 1."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Final, TypeVar

from mirror_connect.app.exposition.measured import LEGACY, NEW, SOURCE, MeasuredConnector, MeasuredWorker
from mirror_connect.app.herder.interfaces import Membership
from mirror_connect.app.herder.lifecycle import State
from mirror_connect.app.herder.link_reads import LinkReads
from mirror_connect.app.herder.links import Link, Member
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.connectors import MirrorSource
from mirror_connect.connectors.mirror.settings import METRIC_NAMES_KEY
from mirror_connect.connectors.partitions import TopicPartition

Row = TypeVar("Row")

_TARGET: Final = "target"
_FORMATS: Final = frozenset({LEGACY, NEW})


def measured_worker(
    links: LinkReads,
    configs: Mapping[str, Mapping[str, str | None]],
    membership: Membership,
    *,
    flow: str,
    member: str | None,
) -> MeasuredWorker:
    """Of a worker of Connect. `configs`: of its connectors. `member`: the client id in its group; None without a group."""
    metrics, runs_for = links.metrics, membership.runs_for()
    present = links.present() if runs_for > 0 else []
    connectors = [
        found
        for link in present
        for each in link.members
        if (found := _connector(links, link, each, configs.get(each.view.name, {}), flow)) is not None
    ]
    in_group = member is not None
    return MeasuredWorker(
        flow=flow,
        leads=membership.leads_for() > 0,
        wanted_tasks={
            (link.source, link.target, _name(each, flow)): len(each.assigned.tasks)
            for link in (present if links.leads else [])
            for each in link.members
        },
        now=metrics.now(),
        now_ms=metrics.now_ms(),
        connectors=tuple(connectors),
        lease_s=runs_for if runs_for > 0 and math.isfinite(runs_for) else None,
        leader=membership.leader_url if in_group else None,
        member=member,
        rebalancing=_rebalances(membership, in_group=in_group),
        rebalances=membership.rebalances() if in_group else None,
        epoch=membership.generation if in_group and membership.generation >= 0 else None,
    )


def _connector(
    links: LinkReads, link: Link, member: Member, config: Mapping[str, str | None], flow: str
) -> MeasuredConnector | None:
    """What this worker shows of a connector; None if that is nothing."""
    view, assigned = member.view, member.assigned
    every = assigned.tasks | view.tasks.keys()
    itself, tasks = links.shown(view.name, every)
    if not (itself or tasks):
        return None
    asked = (config.get(METRIC_NAMES_KEY.name) or LEGACY).split(",")
    return MeasuredConnector(
        name=_name(member, flow),
        itself=itself,
        bare_name=view.name,
        class_name=view.class_name,
        kind=view.kind,
        source=link.source,
        target=link.target,
        # Without a worker there is no status yet.
        state=view.state.state if itself and view.state.worker_id else None,
        tasks={number: each.state for number, each in sorted(view.tasks.items()) if number in tasks},
        partitions=_of(assigned.partitions, every, tasks),
        groups=_of(assigned.groups, every, tasks),
        metrics=member.metrics,
        lookups=links.lookup_ages(view.name),
        formats=frozenset(each.strip() for each in asked) & _FORMATS,
    )


def _rebalances(membership: Membership, *, in_group: bool) -> bool | None:
    if not in_group:
        return None
    known = membership.rebalances()
    return membership.leader_url is None or (known is not None and known.rebalancing)


def _name(member: Member, flow: str) -> str:
    """Each flow of dedicated mode has a MirrorSourceConnector. Strimzi's operator names its connectors so."""
    return f"{flow}.{member.view.name}" if flow else member.view.name


def _of(rows: Mapping[Row, int], all_tasks: frozenset[int], tasks: frozenset[int]) -> Collection[Row]:
    """Those of these tasks."""
    return rows if all_tasks <= tasks else [row for row, task in rows.items() if task in tasks]


def measured_source(metrics: WorkerMetrics, *, flow: str, name: str, lease_s: float) -> MeasuredWorker:
    """Of a source of MirrorMaker 1, which has no statuses: a task that reports runs. `name` stands for the alias."""
    now = metrics.now()
    connectors = [
        MeasuredConnector(
            name=each.name,
            bare_name=each.name,
            class_name=MirrorSource.class_name,
            kind=SOURCE,
            source=name,
            target=_TARGET,
            state=State.RUNNING.value,
            tasks={number: State.RUNNING.value for number, task in sorted(each.tasks.items()) if task.is_heard(now)},
            partitions=tuple(
                TopicPartition(*key) for key, known in each.partitions.items() if known.task in each.tasks
            ),
            groups=(),
            metrics=each,
        )
        for each in metrics.connectors.values()
    ]
    return MeasuredWorker(
        flow=flow, leads=True, now=now, now_ms=metrics.now_ms(), connectors=tuple(connectors), lease_s=lease_s
    )
