"""Offset ranges as a task records them, and their records: segments."""

import random
from dataclasses import replace

import pytest

from mirror_connect.connectors.records.binary import UnreadableRecord
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy
from mirror_connect.connectors.translation.offset_ranges import (
    NO_ID,
    RANGES_IN_SEGMENT,
    SLOTS,
    OffsetRange,
    RangeLogState,
    RangeRecorder,
    Segment,
    offset_ranges_topic,
)
from tests.fakes.range_logs import Log, compacted, index_of, offsets, recorded


@pytest.mark.parametrize("seed", range(12))
def test_a_batch_with_gaps_is_recorded_as_its_ranges_would_be_one_by_one(seed: int) -> None:
    chance = random.Random(seed)
    whole, single = RangeRecorder("t", 0), RangeRecorder("t", 0)
    upstream = downstream = 0
    for _ in range(30):
        if chance.random() < 0.1:
            upstream = chance.randint(0, upstream)
        ranges = []
        gaps, most = chance.choice([[0, 1, 1, 5], [1, 1, 7], [1, 7, 8, 2_000]]), chance.choice([1, 4, 300])
        for _ in range(chance.choice([1, 3, 300])):
            upstream += chance.choice(gaps)
            ranges.append((upstream, count := chance.randint(1, most)))
            upstream += count
        downstream += chance.choice([0, 0, 2])
        linked = chance.random() < 0.8
        whole.acked_ranges(ranges, downstream, linked=linked)
        for i, (begins, count) in enumerate(ranges):
            single.acked(begins, count, downstream, linked=linked or i > 0)
            downstream += count
        if chance.random() < 0.5:
            assert whole.changed() == single.changed()
    assert whole.changed() == single.changed()


@pytest.mark.parametrize("seed", range(8))
def test_a_segment_that_grows_has_the_bytes_of_one_that_is_encoded_at_once(seed: int) -> None:
    chance = random.Random(seed)
    recorder = RangeRecorder("t", 3, b"s" * 16, remote=chance.choice(["", "sales"]))
    upstream = downstream = 0
    for _ in range(600):
        upstream += chance.choice([0, 0, 1, 200])
        downstream += chance.choice([0, 0, 3])
        count = chance.choice([1, 5, 90_000])
        recorder.acked(upstream, count, downstream, linked=chance.random() < 0.5)
        upstream, downstream = upstream + count, downstream + count
        if chance.random() < 0.02:
            recorder.topics_are(b"s" * 16, bytes([chance.randint(1, 2)]) * 16)
        if chance.random() < 0.3:
            for key, value in recorder.changed():
                segment = Segment.decode(key, value)
                assert (segment.key(), segment.value()) == (key, value)
    (*_, (key, value)) = recorder.changed() or [(segment.key(), segment.value())]
    assert sum(each.length for each in Segment.decode(key, value).ranges) > 0


def test_another_topic_of_the_same_name_begins_a_new_incarnation() -> None:
    recorder = RangeRecorder("t", 0, b"s" * 16, b"t" * 16)
    recorder.acked(0, 10, 0)
    recorder.topics_are(b"n" * 16, b"t" * 16)
    recorder.acked(0, 5, 10)
    made = index_of(recorder.changed())
    assert made.newest is not None
    assert (made.newest.source_id, made.newest.since, offsets(made, 3, 7)) == (b"n" * 16, 1, [13, None])


def test_a_restart_that_follows_on_goes_on_with_the_same_range() -> None:
    log = recorded((0, 10, 0))
    recorder = RangeRecorder("t", 0)
    recorder.resume(index_of(log).newest, 10)
    recorder.acked(10, 5, 10)
    index = index_of(log + recorder.changed())
    assert (len(index.newest.ranges) if index.newest else 0, offsets(index, 14)) == (1, [14])


def test_only_what_changed_is_written_again() -> None:
    recorder = RangeRecorder("t", 0)
    for offset in range(0, 2 * RANGES_IN_SEGMENT + 2, 2):
        recorder.acked(offset, 1, offset // 2)
    sizes = [len(recorder.changed())]
    recorder.acked(10_000, 1, 10_000)
    assert [*sizes, len(recorder.changed()), len(recorder.changed())] == [2, 1, 0]


def test_segments_lie_in_a_ring() -> None:
    recorder = RangeRecorder("t", 0)
    log: Log = []
    for offset in range(0, 2 * RANGES_IN_SEGMENT * (SLOTS + 3), 2):
        recorder.acked(offset, 1, offset // 2)
        if offset % 1000 == 0:
            log += recorder.changed()
    log = compacted(log + recorder.changed())
    index = index_of(log)
    last = 2 * RANGES_IN_SEGMENT * (SLOTS + 3) - 2
    assert (len(log), index.translate(0), offsets(index, last - 1, last)) == (SLOTS, None, [last // 2, last // 2])


def test_a_segment_is_read_as_it_was_written() -> None:
    recorder = RangeRecorder("to-pic", 3, b"s" * 16, NO_ID)
    recorder.acked(5, 10, 1 << 40)
    recorder.acked(3, 1, (1 << 40) + 10)
    recorder.acked(1 << 50, 7, (1 << 50) + 3, linked=False)
    ((key, value),) = recorder.changed()
    segment = Segment.decode(key, value)
    assert (segment.key(), segment.value(), segment.topic, len(segment.ranges)) == (key, value, "to-pic", 3)


def test_what_is_owed_is_kept_with_a_segment() -> None:
    segment = Segment("t", 0, 300, 2, NO_ID, NO_ID, RangeLogState(10, 20, 12, 5, 15), ())
    assert Segment.decode(segment.key(), segment.value()) == segment


def test_a_name_that_a_route_gave_stands_behind_what_former_releases_read() -> None:
    segment = Segment("t", 0, 3, 2, NO_ID, NO_ID, RangeLogState(10, 20, 12), (OffsetRange(12, 22, 4),), "sales")
    without = replace(segment, remote="")
    assert Segment.decode(segment.key(), segment.value()) == segment
    assert segment.value() == without.value() + b"\0\5sales"


@pytest.mark.parametrize("cut", [0, 1, 2, 20, 41, 43, -1])
def test_cut_off_bytes_are_refused(cut: int) -> None:
    ((key, value),) = recorded((0, 300, 0))
    with pytest.raises(UnreadableRecord, match=r"^value of offset ranges: [^\n]+$"):
        Segment.decode(key, value[:cut])


def test_another_version_is_refused() -> None:
    ((key, value),) = recorded((0, 300, 0))
    with pytest.raises(UnreadableRecord, match="version 1, only 0 is known"):
        Segment.decode(key, b"\0\1" + value[2:])


@pytest.mark.parametrize(
    ("topic", "partition", "before", "offset_range"),
    [
        pytest.param("x" * 250, 0, RangeLogState(), OffsetRange(0, 0, 1), id="name"),
        pytest.param("t", -1, RangeLogState(), OffsetRange(0, 0, 1), id="partition"),
        pytest.param("t", 0, RangeLogState(), OffsetRange(0, 2**62, 1), id="range"),
        # A reader keeps the floor of the offsets between them as a 64-bit number below -3.
        pytest.param("t", 0, RangeLogState(5, 2**63 - 2, 5), OffsetRange(10, 2**63 - 2, 1), id="standing"),
    ],
)
def test_what_no_topic_can_hold_is_refused(
    topic: str, partition: int, before: RangeLogState, offset_range: OffsetRange
) -> None:
    segment = Segment(topic, partition, 0, 0, NO_ID, NO_ID, before, (offset_range,))
    with pytest.raises(UnreadableRecord, match=r"^(key|value) of offset ranges: [^\n]+$"):
        Segment.decode(segment.key(), segment.value())


@pytest.mark.parametrize("number", [2**62 + 1, 2**63 - 1])
def test_a_number_that_no_segment_reaches_is_refused(number: int) -> None:
    segment = Segment("t", 0, number, number, NO_ID, NO_ID, RangeLogState(), (OffsetRange(0, 0, 1),))
    with pytest.raises(UnreadableRecord, match=f"segment {number} since {number}"):
        Segment.decode(segment.key(), segment.value())


@pytest.mark.parametrize("source_id", [b"s" * 16, b"n" * 16], ids=["same_topic", "made_again"])
def test_behind_the_last_number_they_begin_anew(source_id: bytes) -> None:
    ranges = tuple(OffsetRange(2 * i, i, 1) for i in range(RANGES_IN_SEGMENT))
    last = Segment("t", 0, 2**62, 7, b"s" * 16, b"t" * 16, RangeLogState(), ranges)
    recorder = RangeRecorder("t", 0, source_id, b"t" * 16)
    recorder.resume(Segment.decode(last.key(), last.value()), reading_from=511)
    recorder.acked(600, 10, 256)
    recorder.acked(700, 10, 266)
    log = [(last.key(), last.value()), *recorder.changed()]
    newest = Segment.decode(*log[-1])
    assert (newest.number, newest.since, offsets(index_of(log), 605, 705)) == (0, 0, [261, 271])


def test_the_topic_is_internal_by_kafkas_own_rule() -> None:
    policy = DefaultReplicationPolicy("_", "_")
    assert (offset_ranges_topic(policy, "A"), policy.is_internal(offset_ranges_topic(policy, "A"))) == (
        "mm2-offset-runs_A_internal",
        True,
    )
