"""Makes the measures of a source task for its next report: only what changed, and a bounded number of partitions at a time.

The lag of a partition is the distance from its source offset to the end of its log. The oldest record that is not on the
target is the first one that is not acknowledged: its timestamp is in the header of a batch in flight, held or fetched. If
nothing is fetched at present, the next record is not older than the last one that was fetched (records come in the order of
their times, more or less). Nor was it in the log when all of the log was last known to be fetched.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import islice
from typing import Final

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_measures import (
    COPIED,
    DROPPED,
    MERGED,
    MOST_ROWS,
    REENCODED,
    REPEATED,
    SPLIT,
    PartitionMeasures,
    TaskMeasures,
)
from mirror_connect.kafka_io.consumer.log_ends import LogEnd, LogEnds
from mirror_connect.kafka_io.producer.batch_counts import BatchCounts
from mirror_connect.spark_jobs.copy.commit_measures import CommitMeasures
from mirror_connect.spark_jobs.copy.flow_measures import CopyTotals, FlowMeasures
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.record_failures import ErrorCounts
from mirror_connect.spark_jobs.copy.request_rows import RequestRows

# Partitions that are behind are looked at again without a reason, so many in each report.
LOOKED_AT: Final = 100
# The event loop may do something else after so many: they take about half a millisecond.
AT_ONCE: Final = 100
# More of them have no room in a report.
MOST_COLLECTED: Final = 2 * MOST_ROWS
# In the last report of an epoch nothing is left to the next one.
MOST_LAST_ROWS: Final = 10 * MOST_ROWS

_Told = tuple[int | None, int | None, int | None, int | None, int]


class CopyMeasures:
    """Of one task. `flows`: its partitions. `position(partition)`: the next offset to fetch, see Fetcher.position.

    `counters`: of the task, see TaskReport. `buffered`: as Fetcher.buffered. `clocks`: seconds since 1970, and those of
    time.monotonic().
    """

    def __init__(
        self,
        flows: Mapping[TopicPartition, PartitionFlow],
        log_ends: LogEnds,
        position: Callable[[TopicPartition], int | None],
        requests: RequestRows,
        *,
        counters: Mapping[str, int],
        counts: BatchCounts,
        commits: CommitMeasures,
        buffered: Callable[[], tuple[int, int]],
        errors: ErrorCounts | None = None,
        clocks: tuple[Callable[[], float], Callable[[], float]] = (time.time, time.monotonic),
    ) -> None:
        self.totals = CopyTotals()
        self._flows = flows
        self._log_ends = log_ends
        self._position = position
        self._requests = requests
        self._counters = counters
        self._counts = counts
        self._commits = commits
        self._buffered = buffered
        self._errors = errors or ErrorCounts()
        self._wall, self._monotonic = clocks
        self._partitions: dict[FlowMeasures, TopicPartition] = {}
        # In the order in which they changed: each has its turn.
        self._pending: dict[TopicPartition, None] = {}
        self._behind: dict[TopicPartition, None] = {}
        self._told: dict[TopicPartition, _Told] = {}
        self._gone: dict[TopicPartition, None] = {}
        # Rows of the next report, and of how many partitions they were to be; None before the first one.
        self._made: list[PartitionMeasures] = []
        # Given away since these rows were made.
        self._left: set[TopicPartition] = set()
        self._looked_at: int | None = None

    def add(self, partition: TopicPartition) -> FlowMeasures:
        """The measures of a partition that the task has from now on."""
        measures = FlowMeasures(self.totals)
        self._partitions[measures] = partition
        self._pending[partition] = None
        self._gone.pop(partition, None)
        return measures

    def forget(self, partition: TopicPartition, measures: FlowMeasures) -> None:
        """Another task has the partition now."""
        self._partitions.pop(measures, None)
        self._pending.pop(partition, None)
        self._behind.pop(partition, None)
        self._told.pop(partition, None)
        self._gone[partition] = None
        self._left.add(partition)

    def take(self, *, last: bool = False) -> TaskMeasures:
        """What changed since the last call. `last`: with many more partitions, as no other report follows."""
        if last:
            # Also what has changed since `make_some` began.
            self._collect(len(self.totals.touched))
            self._looked_at = self._looked_at or 0
        while self.make_some(last=last):
            pass
        self._drop_left()
        rows, self._made, self._looked_at = tuple(self._made), [], None
        totals, counts, commits, errors = self.totals, self._counts, self._commits, self._errors
        buffered, limit = self._buffered()
        copied_bytes = self._counters.get("bytes", 0) - totals.rewritten_bytes
        gone, self._gone = tuple(self._gone), {}
        return TaskMeasures(
            int(self._wall() * 1000),
            partitions=rows,
            more_partitions=len(self._pending) + len(totals.touched),
            gone=gone,
            latency_counts=tuple(totals.latency_counts),
            latency_total_ms=totals.latency_total_ms,
            batches={
                COPIED: (self._counters.get("batches", 0) - totals.rewritten, copied_bytes),
                MERGED: (totals.merged, totals.merged_bytes),
                REENCODED: (totals.reencoded, totals.reencoded_bytes),
                SPLIT: (counts.split, counts.split_bytes),
                DROPPED: (totals.dropped, totals.dropped_bytes),
                REPEATED: (counts.repeated, counts.repeated_bytes),
            },
            filtered=totals.filtered,
            record_errors=errors.errors,
            records_skipped=errors.skipped,
            errors_logged=errors.logged,
            last_error_ms=errors.last_ms,
            dead_letters=errors.letters,
            failed_dead_letters=errors.failed_letters,
            compressed_bytes=copied_bytes - totals.plain_bytes,
            sampled=(totals.sample.compressed, totals.sample.uncompressed),
            requests=self._requests.take(),
            connections=self._requests.connections,
            buffered_bytes=buffered,
            buffer_bytes=limit,
            commits=commits.commits,
            failed_commits=commits.failed,
            commit=commits.took.take(),
            committed_ms=commits.committed_ms,
        )

    def make_some(self, *, last: bool = False) -> bool:
        """Makes some of what `take` then takes. True if there is more to make."""
        if self._looked_at is None:
            self._looked_at = 0
            self._collect(MOST_COLLECTED)
        most = MOST_LAST_ROWS if last else MOST_ROWS
        looked_at = min(AT_ONCE, most - self._looked_at, len(self._pending))
        self._make_rows(looked_at)
        self._looked_at += looked_at
        return bool(self._pending) and self._looked_at < most

    def _drop_left(self) -> None:
        if self._left:
            self._made = [row for row in self._made if row[:2] not in self._left]
            self._left.clear()

    def _collect(self, most: int) -> None:
        """Notes which partitions may have changed, of the touched ones so many. The others stay touched."""
        touched, partitions = self.totals.touched[:most], self._partitions
        del self.totals.touched[:most]
        for each in touched:
            each.is_touched = False
        self._pending.update({partitions[each]: None for each in touched if each in partitions})
        changed = self._log_ends.changed
        self._pending.update(changed)
        changed.clear()
        looked_at = list(islice(self._behind, LOOKED_AT))
        for partition in looked_at:
            del self._behind[partition]
            self._behind[partition] = None
        self._pending.update(dict.fromkeys(looked_at))

    def _make_rows(self, most: int) -> None:
        self._drop_left()
        now_ms, now = self._wall() * 1000, self._monotonic()
        # Those without news cost about as much as the others, so they count, too.
        for partition in list(islice(self._pending, most)):
            del self._pending[partition]
            flow = self._flows.get(partition)
            if flow is None:
                continue
            end = self._log_ends.of(partition)
            told = self._judge(flow, partition, end, now_ms - now * 1000)
            if told[2] == 0:
                self._behind.pop(partition, None)
            else:
                self._behind[partition] = None
            measures = flow.measures
            measures.settle()
            age, latency = measures.age.take(), measures.latency.take()
            if age is None and latency is None and self._told.get(partition) == told:
                continue
            self._told[partition] = told
            counts, measures.latency_counts = measures.latency_counts, {}
            self._made.append(
                PartitionMeasures(
                    partition.topic,
                    partition.partition,
                    flow.partition.remote_topic,
                    *told,
                    measures.records,
                    measures.bytes,
                    age,
                    latency,
                    tuple(number for each in counts.items() for number in each),
                )
            )

    def _judge(self, flow: PartitionFlow, partition: TopicPartition, end: LogEnd, monotonic_to_wall: float) -> _Told:
        """Source offset, log end, lag, timestamp of the oldest missing record, offsets that wait."""
        position, begins_at = self._position(partition), flow.begins_at
        if begins_at is None:
            begins_at = position
        elif position is not None:
            # It is lower after a truncation, or if another topic has the name now. Nothing of that is copied yet.
            begins_at = min(begins_at, position)
        if begins_at is None:
            return None, end.end if end.is_known else None, None, None, 0
        waiting = 0 if position is None else position - begins_at
        oldest: int | None = flow.oldest_ms()
        if not end.is_known:
            return begins_at - 1, None, None, oldest if oldest is not None and oldest >= 0 else None, waiting
        lag = max(0, end.end - begins_at)
        if lag == 0:
            return begins_at - 1, end.end, 0, None, waiting
        if oldest is None or oldest < 0:
            reached_ms = end.reached_at * 1000 + monotonic_to_wall
            bound = max(flow.measures.newest_ms, reached_ms)
            oldest = int(bound) if bound >= 0 else None
        return begins_at - 1, end.end, lag, oldest, waiting
