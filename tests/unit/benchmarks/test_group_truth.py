"""What a group skips and repeats, where markers, aborted records and copies made twice lie between offsets and records."""

from __future__ import annotations

import math

import pytest

from benchmarks.group_truth import PartitionTruth, Verdict

# At the source a marker at 2, aborted records at 3 and 4 with their marker at 5; the copy has committed ones only.
SOURCE = [(0, 100), (1, 101), (3, 900), (4, 901), (6, 102), (7, 103)]
TARGET = [(0, 100), (1, 101), (2, 102), (3, 103)]


@pytest.mark.parametrize("position", [pytest.param(p, id=f"at_{p}") for p in (2, 3, 4, 5, 6)])
def test_from_a_marker_to_the_next_copied_record_there_is_one_place_to_go_on(position: int) -> None:
    truth = PartitionTruth(SOURCE, TARGET)
    assert [truth.judge(position, place) for place in (1, 2, 3)] == [Verdict(0, 1), Verdict(0, 0), Verdict(1, 0)]


def test_aborted_records_count_where_they_were_copied() -> None:
    target = [(offset, number) for offset, (_, number) in enumerate(SOURCE)]
    assert PartitionTruth(SOURCE, target).judge(4, 2) == Verdict(0, 1)


def test_of_a_record_that_was_copied_twice_the_later_one_counts() -> None:
    truth = PartitionTruth([(0, 7), (1, 8)], [(0, 7), (1, 8), (2, 7), (3, 8)])
    assert [truth.judge(1, place) for place in (1, 2, 3, 4)] == [
        Verdict(0, 1),
        Verdict(0, 1),
        Verdict(0, 0),
        Verdict(1, 0),
    ]


def test_what_is_not_copied_yet_is_neither_skipped_nor_repeated() -> None:
    assert PartitionTruth(SOURCE, TARGET[:1]).judge(7, 1) == Verdict(0, 0)


@pytest.mark.parametrize(("position", "place"), [(0, 0), (2, 2), (7, 3), (8, math.inf)])
def test_beyond_the_first_unread_copy_a_place_skips(position: int, place: float) -> None:
    assert PartitionTruth(SOURCE, TARGET).first_unread(position) == place


def test_a_number_that_was_written_twice_tells_nothing() -> None:
    with pytest.raises(ValueError, match="twice at the source"):
        PartitionTruth([(0, 7), (1, 7)], [])
