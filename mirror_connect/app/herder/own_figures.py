"""What this worker tells the others of its group: the sums of its connectors, and rows of those that are asked for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection

from mirror_connect.app.herder.link_parts import OwnPart
from mirror_connect.app.herder.links import Member, lags_by_task
from mirror_connect.app.metrics.connector_figures import (
    ConnectorFigures,
    ConnectorRows,
    GroupFigures,
    PartitionFigures,
    TaskFigures,
    TaskPlace,
)
from mirror_connect.app.metrics.connector_metrics import ConnectorMetrics
from mirror_connect.app.metrics.figures import Lag
from mirror_connect.app.metrics.figures_lines import (
    END_LINE,
    figures_line,
    head_line,
    in_pieces,
    places_lines,
    rows_lines,
)
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.version import API_VERSION
from mirror_connect.connectors.partitions import TopicPartition


async def own_lines(
    worker_id: str,
    lease: float | None,
    metrics: WorkerMetrics,
    members: Collection[Member],
    rows_of: Collection[str],
    *,
    spark: str | None = None,
    places: Collection[TaskPlace] = (),
) -> AsyncIterator[bytes]:
    """Line by line, with turns for other work between. `members`: those that run here, at least a part of them.

    `spark`, `places`: see WorkerFigures.
    """
    yield head_line(worker_id, metrics.process, API_VERSION, lease, spark)
    for line in places_lines(places):
        yield line
    for member in members:
        if member.metrics is None:
            continue
        yield figures_line(member.view.name, await _sums(member, member.metrics, metrics))
        await asyncio.sleep(0)
    for member in members:
        if member.metrics is None or member.view.name not in rows_of:
            continue
        async for rows in _rows(member, member.metrics, metrics):
            for line in rows_lines(member.view.name, rows):
                yield line
                await asyncio.sleep(0)
    yield END_LINE


async def _sums(member: Member, of: ConnectorMetrics, metrics: WorkerMetrics) -> ConnectorFigures:
    lags: dict[int, list[Lag]] = {number: [] for number in member.telling}
    async for task, lag in lags_by_task(of, member.assigned, member.telling, metrics.now_ms()):
        if task in lags:
            lags[task].append(lag)
    now = metrics.now()
    counts, most = of.latencies.counted(now)
    return ConnectorFigures(
        tasks={number: TaskFigures(now - of.tasks[number].heard, Lag.of_all(each)) for number, each in lags.items()},
        records=of.growth.records,
        bytes=of.growth.bytes,
        filtered=of.filtered,
        skipped=of.skipped,
        rate=member.rate(now),
        latency_counts=of.latency_counts,
        recent_counts=tuple(counts) if any(counts) else (),
        recent_most=most,
        problems=tuple(of.present_problems(now)),
        more_problems=of.more_problems(now),
    )


async def _rows(member: Member, of: ConnectorMetrics, metrics: WorkerMetrics) -> AsyncIterator[ConnectorRows]:
    now = metrics.now()
    part = OwnPart(of, member.telling, now, metrics.now_ms())
    topics: dict[str, None] = {}
    for keys in in_pieces(list(of.partitions)):
        rows: dict[tuple[str, int], PartitionFigures] = {}
        for key in keys:
            row = part.partition(TopicPartition(*key))
            if row is not None:
                rows[key] = row
                topics[key[0]] = None
        yield ConnectorRows(rows)
    for names in in_pieces(topics):
        counted = {topic: part.latencies(topic) for topic in names}
        yield ConnectorRows(
            latencies={topic: (tuple(found[0]), found[1]) for topic, found in counted.items() if found is not None}
        )
    for groups in in_pieces(list(of.groups)):
        told = {name: found for name in groups if (found := group_figures(of, name, now)) is not None}
        yield ConnectorRows(groups=told)


def group_figures(of: ConnectorMetrics, name: str, now: float) -> GroupFigures | None:
    """A group, if the task that has it tells of it."""
    found = of.group(name, now)
    if found is None:
        return None
    return GroupFigures(
        task=found.task,
        partitions=len(found.told.partitions),
        read_again=found.read_again,
        skipped=found.skipped,
        untranslated=found.untranslated,
        checkpoint_latency_ms=found.latency_ms,
        synced_ms=found.told.synced_ms,
        topics=tuple(dict.fromkeys(each.topic for each in found.told.partitions)),
    )
