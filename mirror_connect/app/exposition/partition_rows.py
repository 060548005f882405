"""What a scrape shows of each partition, or of each topic: read once, then written under several names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from mirror_connect.app.exposition.measured import MeasuredConnector, MeasuredWorker
from mirror_connect.app.metrics.connector_metrics import ConnectorMetrics
from mirror_connect.app.metrics.partition_metrics import PartitionMetrics
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_measures import Window

# So many partitions are read without a pause: about a millisecond.
AT_ONCE: Final = 100


class Detail(StrEnum):
    """Values of `metrics.detail`."""

    PARTITION = "partition"
    TOPIC = "topic"


class PartitionRow(NamedTuple):
    """A partition of a connector, or a topic (`partition` is None then).

    `age`, `latency`: latest, smallest, largest, mean, in ms. `lag_s`: the age of the oldest record that is missing.
    `behind`, `at_rest`: how many partitions are; of the others the lag is unknown.
    """

    task: int
    topic: str
    remote_topic: str
    partition: int | None
    records: int
    bytes: int
    record_rate: float
    byte_rate: float
    age: tuple[float, float, float, float] | None
    latency: tuple[float, float, float, float] | None
    lag: int | None
    lag_s: float | None
    waiting: int
    behind: int
    at_rest: int


def partition_rows(
    worker: MeasuredWorker, connector: MeasuredConnector, detail: Detail
) -> Iterator[PartitionRow | None]:
    """The rows of a connector; None after every AT_ONCE partitions, where others may have their turn.

    A partition whose task tells nothing has no row: what it was last told may be untrue by now.
    """
    metrics = connector.metrics
    if metrics is None:
        return
    telling = metrics.telling(worker.now)
    topics: dict[str, list[PartitionRow]] = {}
    untold: dict[str, list[PartitionMetrics | None]] = {}
    # A copy, as others may have their turn meanwhile.
    for place, key in enumerate(list(connector.partitions), 1):
        if place % AT_ONCE == 0:
            yield None
        row = _row(metrics, key, telling, worker)
        if detail is Detail.PARTITION:
            if row is not None:
                yield row
        elif row is None:
            untold.setdefault(key.topic, []).append(metrics.partitions.get(key))
        else:
            topics.setdefault(row.topic, []).append(row)
    seen = 0
    for rows in topics.values():
        yield _of_topic(rows, untold.get(rows[0].topic, ()))
        seen += len(rows)
        if seen >= AT_ONCE:
            seen = 0
            yield None


def _row(
    metrics: ConnectorMetrics, key: TopicPartition, telling: Mapping[int, str], worker: MeasuredWorker
) -> PartitionRow | None:
    found = metrics.known(key, telling)
    if found is None:
        return None
    told, now = found.told, worker.now
    rate = found.growth.rate(now)
    lag_s = None
    if told.lag == 0:
        lag_s = 0.0
    elif told.oldest_ms is not None:
        lag_s = max(0, worker.now_ms - told.oldest_ms) / 1000
    return PartitionRow(
        found.task,
        told.topic,
        told.remote_topic,
        told.partition,
        found.growth.records,
        found.growth.bytes,
        rate.records,
        rate.bytes,
        *_recent(found, now),
        told.lag,
        lag_s,
        told.waiting,
        int(bool(told.lag)),
        int(told.lag == 0),
    )


_Statistics = tuple[float, float, float, float]


def _recent(found: PartitionMetrics, now: float) -> tuple[_Statistics | None, _Statistics | None]:
    return _statistics(found.age.recent(now), found.told.age), _statistics(
        found.latency.recent(now), found.told.latency
    )


def _statistics(recent: Window | None, latest: Window | None) -> _Statistics | None:
    if recent is None:
        return None
    mean = recent.total / recent.count
    return mean if latest is None else latest.total / latest.count, recent.least, recent.most, mean


def _of_topic(rows: list[PartitionRow], untold: Sequence[PartitionMetrics | None]) -> PartitionRow:
    """The sums; the largest and smallest of statistics and the oldest record; what is known of any partition.

    `untold`: its partitions whose task tells nothing now. Counters have what they were last told, as they must not go back.
    A lag of 0 must be known of all partitions.
    """
    first = rows[0]
    growths = [each.growth for each in untold if each is not None]
    behind, at_rest = sum(row.behind for row in rows), sum(row.at_rest for row in rows)
    lag = sum(row.lag for row in rows if row.lag is not None)
    lag_s = max((row.lag_s for row in rows if row.lag_s is not None), default=None)
    all_known = not untold and behind + at_rest == len(rows)
    return first._replace(
        partition=None,
        records=sum(row.records for row in rows) + sum(each.records for each in growths),
        bytes=sum(row.bytes for row in rows) + sum(each.bytes for each in growths),
        record_rate=sum(row.record_rate for row in rows),
        byte_rate=sum(row.byte_rate for row in rows),
        age=_joined([row.age for row in rows]),
        latency=_joined([row.latency for row in rows]),
        lag=lag if lag or all_known else None,
        lag_s=lag_s if lag_s or (all_known and all(row.lag_s is not None for row in rows)) else None,
        waiting=sum(row.waiting for row in rows),
        behind=behind,
        at_rest=at_rest,
    )


def _joined(given: list[_Statistics | None]) -> _Statistics | None:
    known = [each for each in given if each is not None]
    if not known:
        return None
    latest, least, most, mean = zip(*known, strict=True)
    return sum(latest) / len(known), min(least), max(most), sum(mean) / len(known)
