"""The flow of one partition: what it merges, re-encodes and drops, and its source offset."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.spark_jobs.copy.partition_flow import MERGED_BATCHES
from tests.fakes.partition_flows import (
    Heard,
    batch,
    compressed,
    fetched,
    flow,
    take,
)


def test_a_batch_of_usual_size_goes_alone() -> None:
    whole = flow(Heard())
    whole.put(fetched(0, 200, batch(0, 100), batch(100, 100)))
    first, second = take(whole), take(whole)
    assert first is not None
    assert second is not None
    assert [(each.first_offset, each.count) for each in (first, second)] == [(0, 100), (100, 100)]


def test_small_neighbours_that_wait_are_merged() -> None:
    heard = Heard()
    small = flow(heard)
    small.put(fetched(0, 30, *(batch(offset, 1) for offset in range(30))))
    producer_batch = take(small)
    assert producer_batch is not None
    assert (producer_batch.first_offset, producer_batch.last_offset, producer_batch.count) == (0, 29, 30)


@pytest.mark.parametrize("records", [1, 100], ids=["merged", "as_they_are"])
def test_what_is_sent_keeps_nothing_of_what_was_fetched_alive(records: int) -> None:
    frame = bytearray(batch(0, records) + batch(records, records))
    copying = flow(Heard())
    copying.put(CompletedFetch(TopicPartition("orders", 0), memoryview(frame), 0, 2 * records, 2 * records, -1, 0, ()))
    while (producer_batch := take(copying)) is not None:
        copying.acked(producer_batch, -1)
    del producer_batch
    frame.append(0)  # BufferError while any slice of it exists


def test_a_batch_re_encoded_in_pieces_covers_the_same_offsets_and_can_be_taken_up_between_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("mirror_connect.kafka_io.records.record_rewrite.REWRITTEN_RECORDS", 100)
    whole = batch(0, 450)
    copying = flow(Heard(), 30)
    copying.put(fetched(30, 460, whole, *(batch(offset, 1) for offset in range(450, 460))))
    first, second = take(copying), take(copying)
    assert first is not None
    assert second is not None
    assert [(each.first_offset, each.last_offset, each.count) for each in (first, second)] == [
        (30, 129, 100),
        (130, 229, 100),
    ]
    copying.acked(first, 0)
    assert copying.source_offset == 129
    copying.clear()
    assert copying.restart() == 230
    copying.put(fetched(230, 460, whole, *(batch(offset, 1) for offset in range(450, 460))))
    taken = []
    while (producer_batch := take(copying)) is not None:
        taken.append((producer_batch.first_offset, producer_batch.last_offset))
    assert taken == [(230, 329), (330, 429), (430, 449), (450, 459)]


def test_small_batches_that_decompress_to_much_are_merged_in_parts_and_none_is_left_out() -> None:
    heard = Heard()
    copying = flow(heard)
    small = [compressed(offset, 900_000) for offset in range(40)]
    copying.put(fetched(0, 40, *small))
    taken = []
    while (producer_batch := take(copying)) is not None:
        taken.append((producer_batch.first_offset, producer_batch.last_offset))
    assert len(taken) > 2
    assert [first for first, _ in taken] == [0, *(last + 1 for _, last in taken[:-1])]
    assert taken[-1][1] == 39
    assert heard.counters["merged"] == 40


@pytest.mark.parametrize(
    ("latency_bound", "merged"), [(False, [MERGED_BATCHES, MERGED_BATCHES, 100]), (True, [2 * MERGED_BATCHES + 100])]
)
def test_the_event_loop_is_not_held_up_for_more_than_a_distance_needs(latency_bound: bool, merged: list[int]) -> None:
    copying = flow(Heard())
    count = 2 * MERGED_BATCHES + 100
    copying.put(fetched(0, count, *(compressed(offset, 10) for offset in range(count))))
    taken = []
    while (producer_batch := take(copying, latency_bound=latency_bound)) is not None:
        taken.append(producer_batch.count)
    assert taken == merged


def test_what_waits_because_of_the_distance_is_merged_if_it_is_larger_too() -> None:
    larger = flow(Heard())
    larger.put(fetched(0, 200, batch(0, 100), batch(100, 100)))
    producer_batch = take(larger, latency_bound=True)
    assert producer_batch is not None
    assert producer_batch.count == 200


def test_what_does_not_fit_into_a_merged_batch_comes_next() -> None:
    mixed = flow(Heard())
    mixed.put(fetched(0, 102, batch(0, 1), batch(1, 1), batch(2, 100)))
    assert [each.count for each in (take(mixed), take(mixed)) if each is not None] == [2, 100]


def test_the_position_waits_for_the_acknowledgement() -> None:
    waiting = flow(Heard(), 50)
    waiting.put(fetched(50, 150, batch(50, 100)))
    producer_batch = take(waiting)
    assert waiting.source_offset == 49
    assert producer_batch is not None
    waiting.acked(producer_batch, 0)
    assert waiting.source_offset == 149


@pytest.mark.parametrize(
    ("bases", "others"),
    [
        pytest.param([7, 107, 207], [], id="nobody_else"),
        pytest.param([7, 132, 232], [(107, 25)], id="records_between_ours"),
        pytest.param([7, -1, 300], [], id="unknown_after_a_repetition"),
        pytest.param([107, 7, 107], [], id="a_target_that_lost_its_end"),
    ],
)
def test_records_of_others_on_the_target_are_told(bases: list[int], others: list[tuple[int, int]]) -> None:
    heard = Heard()
    copying = flow(heard)
    copying.put(fetched(0, 300, batch(0, 100), batch(100, 100), batch(200, 100)))
    for base in bases:
        producer_batch = take(copying)
        assert producer_batch is not None
        copying.acked(producer_batch, base)
    assert heard.others == others


def test_the_position_does_not_pass_what_was_looked_at_and_not_sent() -> None:
    mixed = flow(Heard())
    mixed.put(fetched(0, 101, batch(0, 1), batch(1, 100)))
    producer_batch = take(mixed)
    assert producer_batch is not None
    mixed.acked(producer_batch, 0)
    assert mixed.source_offset == 0


def test_offsets_without_records_behind_the_last_batch_are_done() -> None:
    thinned = flow(Heard())
    thinned.put(fetched(0, 500, batch(0, 100)))
    producer_batch = take(thinned)
    assert producer_batch is not None
    thinned.acked(producer_batch, 0)
    take(thinned)
    assert thinned.source_offset == 499


def test_records_below_the_wanted_offset_are_left_out() -> None:
    middle = flow(Heard(), 70)
    middle.put(fetched(70, 100, batch(0, 100)))
    producer_batch = take(middle)
    assert producer_batch is not None
    assert (producer_batch.first_offset, producer_batch.count) == (70, 30)


@pytest.mark.parametrize("stop", [True, False])
def test_what_was_fetched_is_given_back(stop: bool) -> None:
    given_back: list[int] = []
    piece = fetched(0, 100, batch(0, 100))
    piece._released = given_back.append
    released = flow(Heard())
    released.put(piece)
    if stop:
        released.clear()
    else:
        take(released)
        take(released)
    assert len(given_back) == 1
