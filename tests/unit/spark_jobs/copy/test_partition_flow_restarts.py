"""A flow whose topic was created again, or whose log was truncated."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.spark_jobs.copy.partition_flow import NOTHING_YET
from mirror_connect.spark_jobs.copy.source_offsets_writer import LastOffset
from tests.fakes.partition_flows import (
    Heard,
    batch,
    fetched,
    flow,
    take,
)


def test_a_topic_that_begins_anew_is_read_from_its_beginning() -> None:
    anew = flow(Heard(), 5_000)
    anew.put(fetched(0, 100, batch(0, 100)))
    producer_batch = take(anew)
    assert producer_batch is not None
    assert producer_batch.first_offset == 0


@pytest.mark.parametrize("size", [1, 100], ids=["merged", "as_they_are"])
def test_a_topic_made_again_begins_when_the_target_has_all_of_the_former_one(size: int) -> None:
    again = flow(Heard(), 0)
    again.put(fetched(0, size, batch(0, size), topic_id=b"old"))
    again.put(fetched(0, size, batch(0, size), topic_id=b"new"))
    former = take(again)
    assert former is not None
    assert (take(again), again.waiting(), again.source_offset, again.topic_id) == (None, True, NOTHING_YET, b"old")
    again.acked(former, 0)
    assert (again.source_offset, again.topic_id) == (size - 1, b"old")
    anew = take(again)
    assert anew is not None
    assert (anew.first_offset, anew.count) == (0, size)
    assert (again.source_offset, again.topic_id) == (NOTHING_YET, b"new")
    again.acked(anew, size)
    assert (again.source_offset, again.topic_id) == (size - 1, b"new")


def test_a_position_whose_topic_was_not_known_is_one_of_the_topic_that_is_read_on_from_it() -> None:
    unknown = flow(Heard(), 100)
    unknown.put(fetched(100, 200, batch(100, 100), topic_id=b"id"))
    assert take(unknown) is not None
    assert unknown.topic_id == b"id"


def test_behind_a_truncation_a_flow_goes_on_when_the_target_has_all_that_was_taken_before() -> None:
    back = flow(Heard(), 0)
    back.put(fetched(0, 200, batch(0, 100), batch(100, 100), epoch=3))
    back.put(fetched(100, 300, batch(100, 100), batch(200, 100), epoch=5))
    former = [take(back), take(back)]
    assert (take(back), back.waiting()) == (None, True)
    for number, each in enumerate(former):
        assert each is not None
        back.acked(each, 100 * number)
    assert back.moved() == LastOffset(199, None, 3)
    again = [take(back)]
    assert back.moved() == LastOffset(99, None, 3)
    again.append(take(back))
    for number, each in enumerate(again):
        assert each is not None
        assert each.first_offset == 100 + 100 * number
        back.acked(each, 200 + 100 * number)
        assert back.moved() == LastOffset(199 + 100 * number, None, 5)


def test_a_position_that_is_the_same_again_behind_a_truncation_is_another_one() -> None:
    same = flow(Heard(), 100, leader_epoch=3)
    same.put(fetched(100, 200, batch(100, 100), epoch=3))
    same.put(fetched(100, 200, batch(100, 100), epoch=5))
    positions = []
    for number in range(2):
        producer_batch = take(same)
        assert producer_batch is not None
        same.acked(producer_batch, 100 * number)
        positions.append(same.moved())
    assert positions == [LastOffset(199, None, 3), LastOffset(199, None, 5)]


def test_a_position_goes_with_the_epoch_of_its_own_record_and_not_with_that_of_what_follows() -> None:
    mixed = flow(Heard(), 100, leader_epoch=1)
    piece = fetched(100, 300, batch(100, 100), batch(200, 100))
    piece.epochs = [(100, 1), (200, 2)]
    mixed.put(piece)
    assert mixed.moved() == LastOffset(99, None, 1)
    for number, epoch in enumerate((1, 2)):
        producer_batch = take(mixed)
        assert producer_batch is not None
        mixed.acked(producer_batch, 100 * number)
        assert mixed.moved() == LastOffset(199 + 100 * number, None, epoch)


def test_behind_offsets_that_are_gone_the_epoch_is_not_known_before_a_record_is_copied() -> None:
    gap = flow(Heard(), 100, leader_epoch=1)
    gap.put(fetched(200, 300, batch(200, 100), epoch=4))
    assert gap.moved() == LastOffset(99, None, 1)
    producer_batch = take(gap)
    assert producer_batch is not None
    assert gap.moved() in (LastOffset(199, None, -1), LastOffset(NOTHING_YET, None, -1), None)
    gap.acked(producer_batch, 0)
    assert gap.moved() == LastOffset(299, None, 4)


def test_a_position_that_came_back_and_goes_back_has_the_epoch_that_the_fetcher_was_told() -> None:
    back = flow(Heard(), 100, leader_epoch=3)
    piece = fetched(50, 150, batch(50, 100), epoch=5)
    piece.epoch_before = 2
    back.put(piece)
    assert take(back) is not None
    assert back.moved() == LastOffset(49, None, 2)


def test_what_is_read_again_after_a_refusal_is_asked_for_with_the_epoch_before_it() -> None:
    refused = flow(Heard(), 100, leader_epoch=1)
    piece = fetched(100, 300, batch(100, 100), batch(200, 100))
    piece.epochs = [(100, 1), (200, 2)]
    refused.put(piece)
    first = take(refused)
    assert first is not None
    assert take(refused) is not None
    refused.acked(first, 0)
    error = PartitionRefusedError("no")
    error.offset = 200
    refused.failed(error)
    assert (refused.restart(), refused.leader_epoch) == (200, 1)
