"""Batches that a topic finds too large are split; a single record that is too large stops its partition."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.kafka_io.producer import target_partition
from mirror_connect.kafka_io.producer.oversize import too_large
from mirror_connect.kafka_io.records import batch_split
from mirror_connect.kafka_io.records.record_batch import ProducerBatch
from tests.fakes.producer_rig import (
    Feed,
    Rig,
    batch,
    batches,
    until,
)


async def test_a_batch_that_is_too_large_is_split_and_what_is_behind_it_follows(rig: Rig) -> None:
    rig.target.limit = 1_000
    feed = Feed([batch(0, [50] * 60), batch(60, [50] * 3), batch(63, [50] * 3)])
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 66)
    assert feed.acknowledged == list(range(66))
    assert rig.target.log("a.orders", 0).end == 66


async def test_it_is_known_where_the_pieces_of_a_split_batch_lie_and_what_is_behind_them(rig: Rig) -> None:
    rig.target.limit = 1_000
    feed = Feed([batch(0, [50]), batch(1, [50] * 60), batch(61, [50] * 3), batch(64, [50] * 3)])
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 67)
    assert (feed.unplaced, feed.misplaced) == (0, [])


@pytest.mark.parametrize("told", [False, True], ids=["who_may_not_ask_for_it", "who_may_ask_for_it"])
async def test_the_log_has_one_line_of_each_topic_that_takes_no_batches_so_large(rig: Rig, told: bool) -> None:
    rig.target.limit, rig.target.describes = 2_000, told
    topics = ("a.orders", "a.bills")
    feeds = [(topic, partition, Feed(batches(2, records=100))) for topic in topics for partition in range(3)]
    size = feeds[0][2].batches[0].size
    for topic, partition, feed in feeds:
        rig.feed(feed, partition, topic)
    await until(lambda: all(len(feed.acknowledged) == 200 for _, _, feed in feeds) and len(rig.notices) >= len(topics))
    # A line for each batch that was refused would have come by now, and the first three of a topic were at once.
    await asyncio.sleep(0.05)
    assert sorted(rig.notices) == sorted(too_large(topic, size, 2_000 if told else None) for topic in topics)


async def test_what_a_topic_takes_is_still_known_when_a_partition_is_taken_again(rig: Rig) -> None:
    rig.target.limit, rig.target.describes = 2_000, True
    feed = Feed([batch(0, [50] * 100)])
    side = rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 100 and bool(rig.notices))
    await rig.producer.release([side], 1)
    before = len(rig.target.requests)
    back = Feed([batch(100, [50] * 100)])
    again = rig.feed(back)
    await until(lambda: len(back.acknowledged) == 100)
    sizes = [len(b"".join(each.batches[0].batch)) for each in rig.target.requests[before:]]
    assert (max(sizes) <= 2_000, len(sizes) > 1, again.limit) == (True, True, 2_000)


async def test_a_record_larger_than_half_a_batch_is_not_taken_for_too_large(rig: Rig) -> None:
    rig.target.limit = 1_000
    feed = Feed([batch(0, [900, 100, 100])])
    rig.feed(feed)
    await until(lambda: len(feed.acknowledged) == 3)
    assert feed.error is None


async def test_a_single_record_too_large_stops_its_partition_and_names_what_to_set(rig: Rig) -> None:
    rig.target.limit = 1_000
    feed = Feed([batch(17, [5_000])])
    rig.feed(feed)
    await until(lambda: feed.error is not None)
    assert "offset 17" in str(feed.error)
    assert "max.message.bytes of topic a.orders" in str(feed.error)


async def test_a_batch_too_large_that_cannot_be_taken_apart_stops_its_partition_and_names_what_to_set(rig: Rig) -> None:
    rig.target.limit = 1_000
    whole = batch(17, [600, 600])
    whole.records, whole.codec = b"no zstd" + whole.records, 4
    feed, good = Feed([whole]), Feed(batches(5))
    rig.feed(feed)
    rig.feed(good, 1)
    await until(lambda: feed.error is not None and len(good.acknowledged) == 15)
    assert "offset 17" in str(feed.error)
    assert "can't be decompressed as zstd; raise max.message.bytes of topic a.orders" in str(feed.error)


async def test_a_batch_too_large_with_too_many_records_stops_its_partition_and_names_what_to_set(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_split, "SPLIT_RECORDS", 50)
    rig.target.limit = 1_000
    bomb, good = Feed([batch(0, [50] * 3), batch(3, [50] * 51), batch(54, [50])]), Feed([batch(0, [50] * 50)])
    rig.feed(bomb)
    rig.feed(good, 1)
    await until(lambda: bomb.error is not None and len(good.acknowledged) == 50)
    assert (bomb.acknowledged, rig.producer.failed.done()) == ([0, 1, 2], False)
    assert bomb.error is not None
    assert bomb.error.offset == 3
    assert "offset 3 for a.orders-0 has 51 records in" in str(bomb.error)
    assert "splitting more than 50 records would delay other partitions" in str(bomb.error)
    assert "raise max.message.bytes of topic a.orders" in str(bomb.error)


@pytest.mark.parametrize("known", [False, True], ids=["refused", "limit_known"])
async def test_batches_of_many_partitions_are_split_one_in_each_turn_of_the_loop(
    known: bool, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns, split_in = 0, []

    def turn() -> None:
        nonlocal turns
        turns += 1
        asyncio.get_running_loop().call_soon(turn)

    def splitting(whole: ProducerBatch, limit: int) -> list[ProducerBatch]:
        split_in.append(turns)
        return batch_split.split(whole, limit)

    monkeypatch.setattr(target_partition, "split", splitting)
    rig.target.limit = 10_000
    turn()
    feeds = [Feed([batch(0, [50] * 300)]) for _ in range(5)]
    for number, feed in enumerate(feeds):
        side = rig.feed(feed, number)
        if known:
            side.set_largest(10_000)
    await until(lambda: all(len(feed.acknowledged) == 300 for feed in feeds))
    assert len(split_in) >= 5
    assert len(set(split_in)) == len(split_in)
    assert [feed.acknowledged for feed in feeds] == [list(range(300))] * 5
