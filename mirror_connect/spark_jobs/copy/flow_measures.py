"""Measures one partition's way to the target: what was acknowledged, how old it was, how long it took.

This runs for every batch, so it only adds up. Latencies are those of a batch's newest and of its first record, as nothing
else is in a header. Half of the batch's records count for each. A partition that is acknowledged more often than every
PAUSE_S is measured that often: what is acknowledged in between has waited about as long.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import Final

from mirror_connect.connectors.task_measures import BUCKETS, LATENCY_BUCKETS_MS, Window
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.records.compression_sample import CompressionSample
from mirror_connect.kafka_io.records.record_batch import NO_TIMESTAMP, ProducerBatch
from mirror_connect.spark_jobs.copy.acknowledged import Acknowledged

# Between two measured latencies of a partition.
PAUSE_S: Final = 0.05


class CopyTotals:
    """Sums of one task, see TaskMeasures. `touched`: partitions of which something may have changed.

    `rewritten`: acknowledged batches that are not as they came, `plain_bytes`: of those that are, without compression. All
    others are compressed and as they came: these are not counted here, as they are the most.
    """

    __slots__ = (
        "dropped",
        "dropped_bytes",
        "filtered",
        "latency_counts",
        "latency_total_ms",
        "merged",
        "merged_bytes",
        "plain_bytes",
        "reencoded",
        "reencoded_bytes",
        "rewritten",
        "rewritten_bytes",
        "sample",
        "touched",
    )

    def __init__(self) -> None:
        self.touched: list[FlowMeasures] = []
        self.latency_counts = [0] * BUCKETS
        self.latency_total_ms = 0
        self.rewritten = self.rewritten_bytes = self.plain_bytes = self.merged = self.merged_bytes = 0
        self.reencoded = self.reencoded_bytes = self.dropped = self.dropped_bytes = self.filtered = 0
        self.sample = CompressionSample()


class DurationSum:
    """Sums durations until they are taken as a Window."""

    __slots__ = ("count", "least", "most", "total")

    def __init__(self) -> None:
        self.least = self.most = self.total = self.count = 0

    def add(self, least: int, most: int, count: int) -> None:
        """So many durations between these two."""
        if self.count == 0:
            self.least, self.most = least, most
        elif least < self.least:
            self.least = least
        if most > self.most:  # noqa: PLR1730 - twice as fast, and this is for every batch
            self.most = most
        self.total += (least + most) * count >> 1
        self.count += count

    def take(self) -> Window | None:
        """All since the last call; None if there were none."""
        if self.count == 0:
            return None
        found = Window(self.least, self.most, self.total, self.count)
        self.least = self.most = self.total = self.count = 0
        return found


class FlowMeasures:
    """Of one partition. `records`, `bytes`: acknowledged by the target.

    `newest_ms`: the newest timestamp in the last fetch. `age`, `latency`, `latency_counts`: since they were last taken, see
    PartitionMeasures.
    """

    __slots__ = (
        "_aged",
        "_counted",
        "_measured",
        "_newest",
        "_unaged",
        "age",
        "bytes",
        "is_touched",
        "latency",
        "latency_counts",
        "newest_ms",
        "records",
        "totals",
    )

    def __init__(self, totals: CopyTotals) -> None:
        self.totals = totals
        self.records = self.bytes = 0
        self.newest_ms = NO_TIMESTAMP
        self.age, self.latency = DurationSum(), DurationSum()
        self.latency_counts: dict[int, int] = {}
        self.is_touched = False
        # When a latency was last measured, and how many records had one by then.
        self._measured = 0.0
        # The same of ages.
        self._aged = 0.0
        self._unaged = 0
        self._newest: tuple[int, int] | None = None
        self._counted = 0

    def touch(self) -> None:
        """Something has changed."""
        if not self.is_touched:
            self.is_touched = True
            self.totals.touched.append(self)

    def fetched(self, fetch: CompletedFetch) -> None:
        """The source sent these batches."""
        self.touch()
        self.newest_ms = newest = fetch.newest_ms
        # Without a whole batch, as one with a corrupt length is, there is no next offset.
        self._unaged += max(0, fetch.next_offset - fetch.fetch_offset)
        now = time.time()
        if not self._aged <= now < self._aged + PAUSE_S:
            self._aged = now
            count, self._unaged = self._unaged, 0
            if newest >= 0:
                now_ms = int(now * 1000)
                least = max(0, now_ms - newest)
                self.age.add(least, _longest(least, now_ms, fetch.oldest_ms), count)

    def acked(self, batch: ProducerBatch, size: int) -> None:
        """The target has acknowledged this batch of so many bytes."""
        if not self.is_touched:
            self.touch()
        self.records += batch.count
        self.bytes += size
        if batch.rewritten:
            self.totals.rewritten += 1
            self.totals.rewritten_bytes += size
        elif not batch.codec:
            self.totals.plain_bytes += size
        if not self._measured <= (now := time.time()) < self._measured + PAUSE_S:
            self._measured = now
            self._measure(batch, now)

    def committed(self, acknowledged: Acknowledged) -> None:
        """A transaction with these batches was committed."""
        if not self.is_touched:
            self.touch()
        self.records += acknowledged.records
        self.bytes += acknowledged.bytes
        self.totals.rewritten += acknowledged.rewritten
        self.totals.rewritten_bytes += acknowledged.rewritten_bytes
        self.totals.plain_bytes += acknowledged.plain_bytes
        self._measure_times(acknowledged.newest_ms, acknowledged.first_ms, time.time())

    def _measure(self, batch: ProducerBatch, now: float) -> None:
        """Measures the latency of this batch; those acknowledged just before count as having the same."""
        if not batch.rewritten and batch.codec:
            self.totals.sample.take(batch, now)
        self._measure_times(batch.max_timestamp, batch.first_ms, now)

    def _measure_times(self, newest: int, first_ms: int, now: float) -> None:
        count, self._counted = self.records - self._counted, self.records
        if newest < 0:
            self._newest = None
            return
        # A clock that is ahead of ours is no reason for a negative latency.
        now_ms = int(now * 1000)
        least = now_ms - newest if newest < now_ms else 0
        most = _longest(least, now_ms, first_ms)
        self._newest = least, most
        self._add(least, most, count)

    def settle(self) -> None:
        """Counts what was acknowledged since the last measured latency, before the sums are taken."""
        count, self._counted = self.records - self._counted, self.records
        if count and self._newest is not None:
            self._add(*self._newest, count)

    def _add(self, least: int, most: int, count: int) -> None:
        totals = self.totals
        self.latency.add(least, most, count)
        totals.latency_total_ms += (least + most) * count >> 1
        low, counts, all_counts = bisect_left(LATENCY_BUCKETS_MS, least), self.latency_counts, totals.latency_counts
        if count > 1 and (high := bisect_left(LATENCY_BUCKETS_MS, most)) != low:
            older = count >> 1
            count -= older
            counts[high] = counts.get(high, 0) + older
            all_counts[high] += older
        counts[low] = counts.get(low, 0) + count
        all_counts[low] += count

    def merged(self, batches: int, size: int) -> None:
        """So many batches became one of this size."""
        self.totals.merged += batches
        self.totals.merged_bytes += size

    def reencoded(self, size: int) -> None:
        """A batch of this size is re-encoded."""
        self.totals.reencoded += 1
        self.totals.reencoded_bytes += size

    def filtered(self, records: int) -> None:
        """Transformations have dropped so many records."""
        self.touch()
        self.totals.filtered += records

    def dropped(self, size: int) -> None:
        """A batch of this size is not copied."""
        self.touch()
        self.totals.dropped += 1
        self.totals.dropped_bytes += size


def _longest(least: int, now_ms: int, first_ms: int) -> int:
    """The duration of the first record; a first one without a timestamp, beside others that have one, counts as these."""
    return least if first_ms < 0 else max(least, now_ms - first_ms)
