"""Whatever the order of fetches, acknowledgements and reports: the lag that is told is never too small.

Records get the time at which they are appended. A reader of the reports adds up windows and keeps the newest rows.
"""

from __future__ import annotations

import struct

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_measures import COPIED, PartitionMeasures
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.kafka_io.client.request_totals import RequestTotals
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch, whole_batches
from mirror_connect.kafka_io.consumer.log_ends import LogEnds
from mirror_connect.kafka_io.producer.batch_counts import BatchCounts
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.record_batch import NewRecord, ProducerBatch, first_timestamp, stamp
from mirror_connect.spark_jobs.copy import flow_measures
from mirror_connect.spark_jobs.copy.commit_measures import CommitMeasures
from mirror_connect.spark_jobs.copy.copy_measures import CopyMeasures
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.spark_jobs.copy.request_rows import RequestRows

P = TopicPartition("t", 0)
BEGUN_MS = 1_700_000_000_000

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 5)),
        st.tuples(st.just("wait"), st.integers(1, 5_000)),
        st.tuples(st.just("fetch"), st.integers(0, 4)),
        st.tuples(st.just("take"), st.booleans()),
        st.tuples(st.just("ack"), st.just(0)),
        st.tuples(st.just("report"), st.just(0)),
        st.tuples(st.just("restart"), st.just(0)),
    ),
    max_size=60,
)


class NoCluster:
    totals = RequestTotals()
    connections = 0

    def leader(self, _topic: str, _partition: int) -> None:
        return None


class Life:
    """A partition whose source, target and reader of reports are here."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, small: bool) -> None:
        monkeypatch.setattr(flow_measures, "time", self)
        self.now_ms = BEGUN_MS
        self.size = 10 if small else 20_000
        # One batch for each append: first offset, timestamp, bytes.
        self.log: list[tuple[int, int, bytes]] = []
        self.stamps: list[int] = []
        self.position = 0
        self.taken: list[ProducerBatch] = []
        self.copied = 0
        self.ends = LogEnds(NoCluster(), lambda _: self.position, read_committed=False, wait_s=0.5)  # type: ignore[arg-type]
        self.flows: dict[TopicPartition, PartitionFlow] = {}
        self.counters: dict[str, int] = {}
        self.measures = CopyMeasures(
            self.flows,
            self.ends,
            lambda _: self.position,
            RequestRows([]),
            counters=self.counters,
            counts=BatchCounts(),
            commits=CommitMeasures(),
            buffered=lambda: (0, 1),
            clocks=(self.time, self.time),
        )
        self.flow = self.flows[P] = PartitionFlow(
            TaskPartition("t", 0, "A.t"),
            0,
            self.counters,
            check_crcs=True,
            read_committed=False,
            on_corrupt=lambda _flow, _error: None,
            on_refused=lambda _flow, _error: None,
            on_written=lambda _flow: None,
            measures=self.measures.add(P),
        )
        self.told: PartitionMeasures | None = None
        self.latencies = self.ages = self.bucketed = 0

    def time(self) -> float:
        return self.now_ms / 1000

    def append(self, count: int) -> None:
        first = len(self.stamps)
        made = build([NewRecord(None, bytes(self.size), self.now_ms) for _ in range(count)])
        self.log.append((first, self.now_ms, struct.pack(">q", first) + stamp(made, -1, -1, -1)[8:]))
        self.stamps += [self.now_ms] * count

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def fetch(self, batches: int) -> None:
        """The answer tells the log's end, brings some batches, and the header of the next one."""
        self.ends.of(P).told(len(self.stamps), self.position, self.time())
        there = [each for first, _, each in self.log if first >= self.position]
        whole = b"".join(there[:batches])
        if not whole:
            return
        answer = memoryview(whole + b"".join(there[batches : batches + 1])[:70])
        size, following, epochs, newest = whole_batches(answer)
        self.flow.put(
            CompletedFetch(
                P,
                answer[:size],
                self.position,
                following,
                len(self.stamps),
                -1,
                0,
                (),
                epochs=epochs,
                newest_ms=newest,
                following_ms=first_timestamp(answer, size),
            )
        )
        self.position = following

    def take(self, latency_bound: bool) -> None:
        taken = self.flow.take(1_000_000, latency_bound=latency_bound, append_time=False)
        if taken is not None:
            self.taken.append(taken)

    def ack(self, _: int) -> None:
        if self.taken:
            batch = self.taken.pop(0)
            self.flow.acked(batch, batch.first_offset)
            self.copied += batch.count

    def restart(self, _: int) -> None:
        """What was fetched and not sent is dropped, and fetched again."""
        self.flow.clear()
        self.position = self.flow.restart() or 0

    def report(self, _: int) -> None:
        measures = self.measures.take()
        assert measures.compressed_bytes == 0
        assert min(measures.batches[COPIED]) >= 0
        for row in measures.partitions:
            self.told = row
            self.latencies += row.latency.count if row.latency else 0
            self.ages += row.age.count if row.age else 0
            self.bucketed += sum(row.latency_counts[1::2])
        self.check()

    def check(self) -> None:
        told, end = self.told, self.ends.of(P).end
        assert told is not None
        if end < 0:
            assert told.lag is told.log_end is None
            return
        assert (told.source_offset, told.log_end, told.lag) == (self.copied - 1, end, end - self.copied)
        assert (told.records, self.latencies, self.bucketed) == (self.copied,) * 3
        assert told.waiting == self.position - self.copied
        if told.lag == 0:
            assert told.oldest_ms is None
            return
        oldest = self.stamps[self.copied]
        if told.oldest_ms is None:
            # Nothing was ever fetched, nor was the end of the log ever reached.
            assert self.position == self.copied == 0
        elif self.position > self.copied:
            assert told.oldest_ms == oldest
        else:
            # An estimate. Never later than the truth, which would be too small a lag.
            assert told.oldest_ms <= oldest


NEVER_FETCHED = [("append", 1), ("wait", 10), ("fetch", 0), ("wait", 10), ("append", 1), ("fetch", 0), ("report", 0)]


@given(steps=STEPS, small=st.booleans())
@example(steps=NEVER_FETCHED, small=True)
@settings(max_examples=300)
def test_the_lag_that_is_told_is_never_too_small(steps: list[tuple[str, int]], small: bool) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        life = Life(monkeypatch, small=small)
        for name, argument in steps:
            getattr(life, name)(argument)
        life.report(0)
        # In the end all is copied, and the lag is 0.
        life.fetch(1_000)
        for _ in range(200):
            life.take(False)
            life.ack(0)
        life.report(0)
        assert life.told is not None
        assert (life.told.lag, life.told.records) == (0, len(life.stamps))
