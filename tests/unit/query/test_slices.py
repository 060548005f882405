"""How records are divided among Spark's tasks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.query.slices import MOST_SLICES, Slice, slices_of

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)


def test_a_partition_is_a_slice_and_an_empty_one_is_none() -> None:
    assert slices_of({A1: (5, 9), A0: (7, 7)}) == [Slice("a", 1, 5, 9)]


@pytest.mark.parametrize(("end", "expected"), [(10, 1), (11, 2), (100_000, MOST_SLICES)])
def test_a_long_log_has_more_of_them_but_not_without_end(end: int, expected: int) -> None:
    assert len(slices_of({A0: (0, end)}, most=10)) == expected


@given(st.integers(0, 10**12), st.integers(0, 10**9), st.integers(1, 10**6))
def test_slices_are_the_whole_log_without_gap_or_overlap(first: int, length: int, most: int) -> None:
    found = slices_of({A0: (first, first + length)}, most)
    places = [(each.first, each.end) for each in found]
    assert all(begin < end for begin, end in places)
    assert [begin for begin, _ in places[1:]] == [end for _, end in places[:-1]]
    if length:
        assert (places[0][0], places[-1][1]) == (first, first + length)
    else:
        assert not places
