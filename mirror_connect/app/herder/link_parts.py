"""What one worker knows of a connector: this worker from the reports of its own tasks, another one as it has told.

A connector's tasks may run at several workers. Each task counts at one of them: where it was heard last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from mirror_connect.app.metrics.connector_figures import ConnectorFigures, ConnectorRows, PartitionFigures
from mirror_connect.app.metrics.connector_metrics import ConnectorMetrics
from mirror_connect.app.metrics.figures import Lag, Rate
from mirror_connect.connectors.partitions import TopicPartition

NO_ROWS = ConnectorRows()


@dataclass(frozen=True, slots=True)
class ToldConnector:
    """What another worker has told. `tasks`: those that count there. `process` names the worker's process.

    `rows`: None if nobody has asked for them lately. `at`: when it came, in seconds of the clock of reports.
    """

    worker_id: str
    process: str
    at: float
    figures: ConnectorFigures
    tasks: frozenset[int]
    rows: ConnectorRows | None = None


class Part(Protocol):
    """The rows that one worker knows, as of one moment."""

    def lag(self, partitions: Sequence[TopicPartition]) -> Lag:
        """Of these partitions together; those that it does not know are unknown."""

    def rates(self, partitions: Iterable[TopicPartition]) -> list[Rate]:
        """Those that it knows."""

    def partition(self, partition: TopicPartition) -> PartitionFigures | None:
        """A partition; None if it does not know it."""

    def remote_topic(self, partitions: Iterable[TopicPartition]) -> str | None:
        """The topic on the target of the first of these that it knows, or knew."""

    def latencies(self, topic: str) -> tuple[Sequence[int], int] | None:
        """Of the last minute: records by bucket, and the largest latency; None without records."""


class OwnPart:
    """That of this worker; `telling`: the tasks that count here, with their attempts."""

    def __init__(self, metrics: ConnectorMetrics, telling: Mapping[int, str], now: float, now_ms: int) -> None:
        self._metrics = metrics
        self._telling = telling
        self._now = now
        self._now_ms = now_ms

    def lag(self, partitions: Sequence[TopicPartition]) -> Lag:
        """See Part."""
        return self._metrics.lag(partitions, self._telling, self._now_ms)

    def rates(self, partitions: Iterable[TopicPartition]) -> list[Rate]:
        """See Part."""
        known = (self._metrics.known(partition, self._telling) for partition in partitions)
        return [each.growth.rate(self._now) for each in known if each is not None]

    def partition(self, partition: TopicPartition) -> PartitionFigures | None:
        """See Part."""
        known = self._metrics.known(partition, self._telling)
        if known is None:
            return None
        lag, rate, told = self.lag([partition]), known.growth.rate(self._now), known.told
        return PartitionFigures(
            known.task,
            told.remote_topic,
            told.source_offset,
            told.log_end,
            lag.records,
            lag.seconds,
            known.growth.records,
            known.growth.bytes,
            rate.records,
            rate.bytes,
        )

    def remote_topic(self, partitions: Iterable[TopicPartition]) -> str | None:
        """See Part."""
        told = (self._metrics.partitions.get(partition) for partition in partitions)
        return next((each.told.remote_topic for each in told if each is not None), None)

    def latencies(self, topic: str) -> tuple[Sequence[int], int] | None:
        """See Part."""
        return self._metrics.latencies_of_topic(topic, self._now)


class ToldPart:
    """That of another worker."""

    def __init__(self, told: ToldConnector) -> None:
        self._tasks = told.tasks
        self._rows = told.rows or NO_ROWS

    def lag(self, partitions: Sequence[TopicPartition]) -> Lag:
        """See Part."""
        records, behind, unknown, any_known = 0, 0, 0, False
        seconds: float | None = None
        # Ten thousand partitions in a few milliseconds: so nothing else is called for each of them.
        rows, tasks = self._rows.partitions, self._tasks
        for key in partitions:
            row = rows.get(key)
            if row is None or row.task not in tasks:
                unknown += 1
                continue
            lag = row.lag_records
            if lag is None:
                unknown += 1
            else:
                any_known = True
                if lag == 0:
                    continue
                records, behind = records + lag, behind + 1
            if row.lag_seconds is not None and (seconds is None or row.lag_seconds > seconds):
                seconds = row.lag_seconds
        at_rest = 0.0 if any_known and not behind else None
        return Lag(records if any_known else None, at_rest if seconds is None else seconds, behind, unknown)

    def rates(self, partitions: Iterable[TopicPartition]) -> list[Rate]:
        """See Part."""
        rows = (self.partition(partition) for partition in partitions)
        return [Rate(row.records_rate, row.bytes_rate) for row in rows if row is not None]

    def partition(self, partition: TopicPartition) -> PartitionFigures | None:
        """See Part."""
        row = self._rows.partitions.get(partition)
        return row if row is not None and row.task in self._tasks else None

    def remote_topic(self, partitions: Iterable[TopicPartition]) -> str | None:
        """See Part."""
        rows = (self._rows.partitions.get(partition) for partition in partitions)
        return next((row.remote_topic for row in rows if row is not None), None)

    def latencies(self, topic: str) -> tuple[Sequence[int], int] | None:
        """See Part."""
        return self._rows.latencies.get(topic)
