"""Positions follow acknowledgements, and what the group has is not committed again."""

from __future__ import annotations

import pytest

from mirror_connect.app.mirror_maker.positions import Positions
from mirror_connect.connectors.partitions import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


@pytest.fixture
def positions() -> Positions:
    found = Positions()
    found.assign([A, B], {A: 5})
    return found


def test_a_partition_begins_where_the_group_has_committed(positions: Positions) -> None:
    assert (positions.next_offset(A), positions.next_offset(B), positions.unknown) == (5, None, [B])
    assert positions.to_commit() == {}


def test_the_offset_after_the_last_copied_record_is_committed_once(positions: Positions) -> None:
    positions.copied(A, 8)
    assert positions.to_commit() == {A: 9}
    positions.committed({A: 9})
    assert positions.to_commit() == {}


def test_what_is_copied_during_a_commit_is_committed_by_the_next_one(positions: Positions) -> None:
    positions.copied(A, 8)
    offsets = positions.to_commit()
    positions.copied(A, 9)
    positions.committed(offsets)
    assert positions.to_commit() == {A: 10}


def test_where_a_partition_begins_without_a_position_is_committed_too(positions: Positions) -> None:
    positions.begin({B: 70, A: 1})
    assert (positions.next_offset(A), positions.to_commit()) == (5, {B: 70})


def test_a_position_that_goes_back_is_named_and_committed(positions: Positions) -> None:
    assert [positions.copied(B, 3), positions.copied(A, 8), positions.copied(A, -1)] == [False, False, True]
    assert positions.to_commit() == {A: 0, B: 4}


def test_reports_about_partitions_of_others_change_nothing(positions: Positions) -> None:
    positions.assign([B], {B: 3})
    positions.copied(A, 8)
    assert positions.partitions == {B}
    with pytest.raises(KeyError):
        positions.next_offset(A)


def test_without_partitions_nothing_is_committed(positions: Positions) -> None:
    positions.copied(A, 8)
    positions.drop()
    assert (positions.to_commit(), positions.partitions) == ({}, frozenset())
