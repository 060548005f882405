"""What is summed up of a partition's batches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_measures import BUCKETS, LATENCY_BUCKETS_MS, Window
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.compression import ZSTD, compress
from mirror_connect.kafka_io.records.record_batch import NO_TIMESTAMP, NewRecord, ProducerBatch, stamp
from mirror_connect.spark_jobs.copy import flow_measures
from mirror_connect.spark_jobs.copy.flow_measures import PAUSE_S, CopyTotals, FlowMeasures

NOW_MS = 1_700_000_000_000


class Clock:
    def __init__(self) -> None:
        self.now_ms = float(NOW_MS)

    def time(self) -> float:
        return self.now_ms / 1000


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(flow_measures, "time", clock)
    return clock


@pytest.fixture
def measures() -> FlowMeasures:
    return FlowMeasures(CopyTotals())


def batch(count: int, first_ms: int, newest_ms: int, **fields: int) -> ProducerBatch:
    return ProducerBatch(bytes(100), count, 0, count - 1, 0, first_ms, newest_ms, **fields)


def ack(measures: FlowMeasures, acknowledged: ProducerBatch) -> None:
    measures.acked(acknowledged, acknowledged.size)


@pytest.mark.usefixtures("clock")
def test_latencies_are_those_of_a_batchs_newest_and_first_record(measures: FlowMeasures) -> None:
    ack(measures, batch(10, NOW_MS - 40, NOW_MS - 3))
    assert measures.latency_counts == {2: 5, 5: 5}
    assert [LATENCY_BUCKETS_MS[bucket] for bucket in measures.latency_counts] == [50, 5]
    assert measures.latency.take() == Window(3, 40, 215, 10)
    assert measures.latency.take() is None
    assert (measures.records, measures.bytes) == (10, 161)


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("first_ms", "newest_ms", "window"),
    [
        pytest.param(NOW_MS + 5_000, NOW_MS + 6_000, Window(0, 0, 0, 4), id="a_clock_ahead"),
        pytest.param(NOW_MS - 1, NOW_MS - 9, Window(9, 9, 36, 4), id="records_not_in_order"),
        pytest.param(NO_TIMESTAMP, NO_TIMESTAMP, None, id="no_timestamps"),
        pytest.param(NO_TIMESTAMP, NOW_MS - 9, Window(9, 9, 36, 4), id="the_first_has_no_timestamp"),
        pytest.param(-(1 << 63), NOW_MS - 9, Window(9, 9, 36, 4), id="before_1970"),
        pytest.param(0, 0, Window(NOW_MS, NOW_MS, 4 * NOW_MS, 4), id="of_1970"),
    ],
)
def test_odd_times_give_no_odd_latencies(
    measures: FlowMeasures, first_ms: int, newest_ms: int, window: Window | None
) -> None:
    ack(measures, batch(4, first_ms, newest_ms))
    assert measures.latency.take() == window


@pytest.mark.usefixtures("clock")
def test_the_sources_append_time_counts_where_the_bytes_have_another(measures: FlowMeasures) -> None:
    ack(measures, batch(2, 1_000, NOW_MS - 7, append_time=NOW_MS - 7))
    assert measures.latency.take() == Window(7, 7, 14, 2)


def test_every_record_counts_although_not_every_batch_is_measured(measures: FlowMeasures, clock: Clock) -> None:
    for _ in range(50):
        ack(measures, batch(3, NOW_MS, NOW_MS))
        clock.now_ms += PAUSE_S * 1000 / 10
    measures.settle()
    totals = measures.totals
    assert sum(totals.latency_counts) == sum(measures.latency_counts.values()) == measures.records == 150
    window = measures.latency.take()
    assert window is not None
    assert (window.count, window.total) == (150, totals.latency_total_ms)


def test_a_clock_that_goes_back_stops_no_measuring(measures: FlowMeasures, clock: Clock) -> None:
    ack(measures, batch(1, NOW_MS, NOW_MS))
    clock.now_ms -= 3_600_000
    ack(measures, batch(1, NOW_MS - 3_600_500, NOW_MS - 3_600_500))
    assert measures.latency.take() == Window(0, 500, 500, 2)


@pytest.mark.usefixtures("clock")
def test_the_longest_latency_has_a_bucket(measures: FlowMeasures) -> None:
    ack(measures, batch(1, 0, 0))
    assert measures.totals.latency_counts[BUCKETS - 1] == 1


@pytest.mark.usefixtures("clock")
def test_age_is_that_at_the_fetch(measures: FlowMeasures) -> None:
    content = stamp(build([NewRecord(None, b"v", NOW_MS - 40), NewRecord(None, b"v", NOW_MS - 20)]), -1, -1, -1)
    fetch = CompletedFetch(TopicPartition("t", 0), memoryview(content), 5, 7, 7, 7, 0, (), newest_ms=NOW_MS - 20)
    measures.fetched(fetch)
    assert measures.age.take() == Window(20, 40, 60, 2)


def fetched(at: int, following: int, newest_ms: int, first_ms: int) -> CompletedFetch:
    records = ProducerBatch(b"v", 1, at, at, 0, first_ms, newest_ms)
    content = memoryview(stamp(records, -1, -1, -1))
    return CompletedFetch(TopicPartition("t", 0), content, at, following, 7, 7, 0, (), newest_ms=newest_ms)


@pytest.mark.usefixtures("clock")
def test_a_first_record_without_a_time_has_no_age_of_fifty_years(measures: FlowMeasures) -> None:
    measures.fetched(fetched(5, 7, NOW_MS - 20, NO_TIMESTAMP))
    assert measures.age.take() == Window(20, 20, 40, 2)


def test_a_fetch_without_a_whole_batch_takes_no_age_away(measures: FlowMeasures, clock: Clock) -> None:
    measures.fetched(fetched(5, 7, NOW_MS, NOW_MS))
    clock.now_ms += 1
    # The length of its batch is corrupt, so it has no next offset.
    measures.fetched(fetched(1_000, -1, NO_TIMESTAMP, NO_TIMESTAMP))
    clock.now_ms += 1_000
    measures.fetched(fetched(1_000, 1_001, NOW_MS + 1_001, NOW_MS + 1_001))
    assert measures.age.take() == Window(0, 0, 0, 3)


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["ack", "fetch", "settle"]),
            st.integers(-(1 << 63), (1 << 63) - 1),
            st.integers(-(1 << 63), (1 << 63) - 1),
            st.integers(1, 1_000),
            st.integers(0, 200),
        )
    )
)
def test_whatever_producers_write_durations_are_at_most_those_since_1970(
    steps: list[tuple[str, int, int, int, int]],
) -> None:
    clock, measures = Clock(), FlowMeasures(CopyTotals())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flow_measures, "time", clock)
        for what, first_ms, newest_ms, count, later_ms in steps:
            clock.now_ms += later_ms
            if what == "settle":
                measures.settle()
            elif what == "ack":
                ack(measures, batch(count, first_ms, newest_ms))
            else:
                measures.fetched(fetched(9, 9 + count, newest_ms, first_ms))
    counts = measures.totals.latency_counts
    assert min(counts) >= 0
    assert 0 <= measures.totals.latency_total_ms <= sum(counts) * clock.now_ms
    for window in (measures.latency.take(), measures.age.take()):
        if window is not None:
            assert 0 <= window.least <= window.most <= clock.now_ms
            assert window.least * window.count <= window.total <= window.most * window.count


@pytest.mark.usefixtures("clock")
def test_what_compression_saves_is_sampled(measures: FlowMeasures) -> None:
    records = compress(ZSTD, bytes(10_000))
    ack(measures, ProducerBatch(records, 1, 0, 0, ZSTD, NOW_MS, NOW_MS))
    ack(measures, ProducerBatch(records, 1, 0, 0, ZSTD, NOW_MS, NOW_MS))
    totals = measures.totals
    assert (totals.sample.compressed, totals.sample.uncompressed) == (len(records), 10_000)
    assert (totals.rewritten, totals.plain_bytes) == (0, 0)


@pytest.mark.usefixtures("clock")
def test_what_cannot_be_decompressed_is_no_sample(measures: FlowMeasures) -> None:
    ack(measures, ProducerBatch(b"nonsense", 1, 0, 0, ZSTD, NOW_MS, NOW_MS))
    assert (measures.totals.sample.compressed, measures.totals.sample.uncompressed) == (0, 0)
