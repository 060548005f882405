"""What is summed up of a partition's batches."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_measures import BUCKETS, LATENCY_BUCKETS_MS, Window
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.records.compression import ZSTD, compress
from mirror_connect.kafka_io.records.record_batch import NO_TIMESTAMP, NewRecord, ProducerBatch, stamp
from mirror_connect.kafka_io.records.record_rewrite import build
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
