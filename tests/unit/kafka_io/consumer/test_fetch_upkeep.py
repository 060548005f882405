"""The fetcher keeps positions, leaders and topic ids up to date: how it reacts to each error."""

from __future__ import annotations

import pytest

from mirror_connect.connectors import problems
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import MOST_LOGGED
from tests.fakes.fetched_copy import A0, B0, copying, until
from tests.fakes.source_cluster import FakeSource


@pytest.mark.kafka_test("MirrorSourceTaskTest.testSeekBehaviorDuringStart")
@pytest.mark.parametrize(("reset", "first"), [("earliest", 10), ("latest", 30)])
async def test_an_unknown_position_is_decided_by_auto_offset_reset(reset: str, first: int) -> None:
    source = FakeSource()
    log = source.log("a", start=10, batches=2)
    async with copying(source, auto_offset_reset=reset) as copy:
        copy.fetcher.add(A0, None)
        await until(lambda: copy.fetcher.state(A0).position is not None)
        log.append()
        await until(lambda: copy.reached(A0) == 40)
    assert copy.came[0][1] == first


async def test_without_a_reset_an_unknown_position_fails_that_partition_alone() -> None:
    source = FakeSource()
    source.log("a", batches=1)
    source.log("b", batches=1)
    async with copying(source, auto_offset_reset="none") as copy:
        copy.fetcher.add(A0, None)
        copy.fetcher.add(B0, 0)
        await until(lambda: copy.fetcher.state(A0).failed and copy.reached(B0) == 10)
    assert copy.notices == [
        "source partition a-0 has no position yet, and source.consumer.auto.offset.reset is none; begin with earliest or "
        "latest, and set none afterwards"
    ]


async def test_a_gap_left_by_retention_is_told_with_its_size() -> None:
    source = FakeSource()
    source.log("a", start=30, batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 12)
        await until(lambda: copy.reached(A0) == 40)
    assert copy.notices == [
        "source partition a-0: offsets 12 to 29 are gone from the source (retention or deleted records): "
        "18 offsets skipped, reading continues at 30"
    ]


async def test_gaps_of_many_partitions_are_all_told_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "BURST_S", 1.0)
    source = FakeSource()
    partitions = [TopicPartition("a", number) for number in range(MOST_LOGGED + 10)]
    for key in partitions:
        source.log("a", key.partition, start=30, batches=1)
    async with copying(source) as copy:
        for key in partitions:
            copy.fetcher.add(key, 12)
        await until(lambda: len(copy.notices) > MOST_LOGGED)
    assert copy.notices[-1] == (
        "10 more source partitions whose position was not in the log any more: 180 offsets of them skipped"
    )


async def test_a_position_beyond_the_end_is_told_and_reset() -> None:
    source = FakeSource()
    source.log("a", batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 500)
        await until(lambda: copy.reached(A0) == 10)
    assert "offset 500 lies beyond the end of the source's log" in copy.notices[0]


@pytest.mark.parametrize("code", [5, 6, 9, 56, 74, 75, 78])
async def test_a_change_of_leadership_is_followed_silently(code: int) -> None:
    source = FakeSource()
    source.log("a", batches=1, errors=[code, code])
    async with copying(source) as copy:
        await copy.read_to(10)
    assert copy.notices == []


async def test_a_partition_that_has_no_leader_for_long_is_named_until_it_has_one() -> None:
    source = FakeSource()
    log = source.log("a", batches=1, errors=[5] * 1_000_000)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: bool(copy.notices))
        line = "source partition a-0 has no leader on the source cluster; it is read as soon as it has one"
        problem = copy.fetcher.state(A0).problem
        assert problem is not None
        assert (copy.notices, problem.line) == ([line], line)
        log.errors = []
        await until(lambda: copy.reached(A0) == 10)
        assert copy.fetcher.state(A0).problem is None


async def test_for_a_partition_without_a_leader_no_other_topics_are_asked_for() -> None:
    source = FakeSource()
    others = [TopicPartition(f"b{number}", 0) for number in range(50)]
    for key in others:
        source.log(key.topic, batches=1)
    async with copying(source) as copy:
        for key in others:
            copy.fetcher.add(key, 0)
        copy.fetcher.add(A0, 0)
        await until(lambda: len(source.refreshed) > 4 and all(copy.reached(key) == 10 for key in others))
        assert source.refreshed[0] == {"a", *(key.topic for key in others)}
        assert source.refreshed[1:] == [{"a"}] * (len(source.refreshed) - 1)
        source.log("a", batches=1)
        await until(lambda: copy.reached(A0) == 10)


@pytest.mark.parametrize(("code", "words"), [(29, "grant READ on topic"), (2, "CORRUPT_MESSAGE")])
async def test_trouble_of_one_partition_is_told_once_and_others_go_on(code: int, words: str) -> None:
    source = FakeSource()
    source.log("a", batches=1, errors=[code] * 6)
    other = source.log("b", batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        copy.fetcher.add(B0, 0)
        await until(lambda: copy.reached(B0) == 10)
        other.append()
        await until(lambda: copy.reached(B0) == 20 and copy.reached(A0) == 10)
    assert [words in copy.notices[0], "is read again" in copy.notices[1], len(copy.notices)] == [True, True, 2]


@pytest.mark.parametrize("side", ["source", "target"])
async def test_what_a_user_is_told_names_the_cluster_that_is_read(side: str) -> None:
    source = FakeSource()
    source.log("a", batches=1, errors=[29])
    source.log("b", start=30, batches=1)
    async with copying(source, side=side) as copy:
        copy.fetcher.add(A0, 0)
        copy.fetcher.add(B0, 12)
        copy.fetcher.add(TopicPartition("d", 0), 0)
        await until(lambda: copy.reached(A0) == 10 and copy.reached(B0) == 40 and len(copy.notices) == 4)
    assert sorted(copy.notices) == [
        f"{side} partition a-0 can't be read: not authorized; grant READ on topic a to the {side} user",
        f"{side} partition a-0 is read again from offset 0",
        f"{side} partition b-0: offsets 12 to 29 are gone from the {side} (retention or deleted records): "
        "18 offsets skipped, reading continues at 30",
        f"{side} partition d-0 does not exist on the {side} cluster; it is read as soon as it does",
    ]


async def test_a_topic_that_does_not_exist_is_told_once_and_read_when_it_does() -> None:
    source = FakeSource()
    async with copying(source) as copy:
        copy.fetcher.add(A0, None)
        await until(lambda: source.refreshes > 3)
        assert copy.notices == [
            "source partition a-0 does not exist on the source cluster; it is read as soon as it does"
        ]
        source.log("a", batches=1)
        await until(lambda: copy.reached(A0) == 10)


async def test_a_topic_created_again_is_read_from_its_beginning() -> None:
    source = FakeSource()
    source.log("a", batches=3)
    source.ids["a"] = b"old"
    async with copying(source) as copy:
        await copy.read_to(30)
        del source.logs["a", 0]
        await until(lambda: copy.fetcher.state(A0).problem is not None)
        copy.came.clear()
        source.ids["a"] = b"new"
        source.log("a", batches=1)
        await until(lambda: copy.reached(A0) == 10)
    assert copy.came == [(A0, 0, 10)]
    assert any("was deleted and created again" in notice for notice in copy.notices)


@pytest.mark.parametrize("reset", ["latest", "none"])
async def test_a_topic_created_again_unseen_is_read_from_its_beginning_whatever_auto_offset_reset_says(
    reset: str,
) -> None:
    source = FakeSource()
    source.log("a", batches=3)
    source.ids["a"] = b"old"
    async with copying(source, auto_offset_reset=reset) as copy:
        await copy.read_to(30)
        copy.came.clear()
        source.ids["a"] = b"new"
        source.log("a", batches=1)
        await until(lambda: copy.reached(A0) == 10)
    assert copy.came == [(A0, 0, 10)]
    assert copy.notices == [
        "source topic a was deleted and created again (its id was b2xk and is bmV3): "
        "partition 0 is read from the beginning of the new one"
    ]


@pytest.mark.parametrize("stop", [None, "Set on.topic.recreated"])
async def test_of_a_topic_of_many_partitions_that_is_made_again_some_are_told_and_the_others_counted(
    monkeypatch: pytest.MonkeyPatch, stop: str | None
) -> None:
    monkeypatch.setattr(problems, "BURST_S", 0.05)
    source = FakeSource()
    partitions = [TopicPartition("a", number) for number in range(50)]
    for key in partitions:
        source.log("a", key.partition, batches=1)
    source.ids["a"] = b"old"
    async with copying(source, stop_at_new_topic=stop) as copy:
        for key in partitions:
            copy.fetcher.add(key, 0)
        await until(lambda: all(copy.reached(key) == 10 for key in partitions))
        source.ids["a"] = b"new"
        for key in partitions:
            source.log("a", key.partition, batches=1)
        await until(lambda: len(copy.notices) > MOST_LOGGED)
    told = [line for line in copy.notices if "topic a was deleted and created again (its id was" in line]
    what = "are stalled" if stop else "are read from the beginning of the new ones"
    assert (len(told), copy.notices[-1]) == (
        MOST_LOGGED,
        f"30 more partitions of source topics that were deleted and created again {what}",
    )


async def test_a_topic_made_again_and_filled_beyond_the_old_position_is_read_whole() -> None:
    source = FakeSource()
    source.log("a", batches=3)
    source.ids["a"] = b"old"
    async with copying(source) as copy:
        await copy.read_to(30)
        copy.came.clear()
        # No error and no metadata in between: only the id tells them apart.
        source.ids["a"] = b"new"
        source.log("a", batches=7)
        await until(lambda: copy.reached(A0) == 70)
    assert (copy.came[0][1], len(copy.notices)) == (0, 1)


async def test_a_topic_made_again_whose_first_records_are_gone_is_told_as_a_gap_even_with_latest() -> None:
    source = FakeSource()
    source.log("a", batches=3)
    source.ids["a"] = b"old"
    async with copying(source, auto_offset_reset="latest") as copy:
        await copy.read_to(30)
        copy.came.clear()
        source.ids["a"] = b"new"
        source.log("a", start=40, batches=3)
        await until(lambda: copy.reached(A0) == 70)
    assert copy.came[0][1] == 40
    assert "offsets 0 to 39 are gone from the source" in copy.notices[-1]


@pytest.mark.parametrize("takes_ids", [True, False])
async def test_a_position_of_a_former_topic_leads_to_the_beginning_of_the_present_one(takes_ids: bool) -> None:
    source = FakeSource()
    source.takes_ids = takes_ids
    source.log("a", batches=5)
    source.ids["a"] = b"new"
    async with copying(source) as copy:
        copy.fetcher.add(A0, 30, b"old")
        await until(lambda: copy.reached(A0) == 50)
    assert (copy.came[0][1], len(copy.notices)) == (0, 1)


async def test_a_position_of_the_present_topic_is_read_on_from() -> None:
    source = FakeSource()
    source.log("a", batches=5)
    source.ids["a"] = b"same"
    async with copying(source) as copy:
        copy.fetcher.add(A0, 30, b"same")
        await until(lambda: copy.reached(A0) == 50)
    assert (copy.came[0][1], copy.notices) == (30, [])


@pytest.mark.parametrize("stop", [None, "see there"], ids=["copy", "stop"])
async def test_a_position_of_a_newer_topic_than_the_metadata_know_is_read_on_from(stop: str | None) -> None:
    source = FakeSource()
    source.ids["a"] = b"old"
    source.log("a", batches=1)
    async with copying(source, stop_at_new_topic=stop) as copy:
        await copy.read_to(10)
        # Another task has the partition while the topic is made again.
        copy.fetcher.remove(A0)
        source.ids["a"] = b"new"
        source.log("a", batches=5)
        copy.came.clear()
        copy.fetcher.add(A0, 20, b"new")
        await until(lambda: copy.reached(A0) == 50)
    assert (copy.came[0], copy.notices) == ((A0, 20, 50), [])


async def test_told_to_stop_at_a_topic_made_again_a_partition_stands_still_and_others_go_on() -> None:
    source = FakeSource()
    source.log("a", batches=3)
    source.log("b", batches=1)
    source.ids.update(a=b"old", b=b"other")
    async with copying(source, stop_at_new_topic="so it is asked for.") as copy:
        copy.fetcher.add(A0, 0)
        copy.fetcher.add(B0, 0)
        await until(lambda: copy.reached(A0) == 30 and copy.reached(B0) == 10)
        source.ids["a"] = b"new"
        source.log("a", batches=7)
        await until(lambda: copy.fetcher.state(A0).failed)
        source.logs["b", 0].append()
        await until(lambda: copy.reached(B0) == 20)
        state = copy.fetcher.state(A0)
    assert copy.notices == [
        "source topic a was deleted and created again (its id was b2xk and is bmV3): "
        "partition 0 is stalled; so it is asked for."
    ]
    assert state.problem is not None
    assert (state.problem.line, state.position, state.topic_id, copy.reached(A0)) == (copy.notices[0], 30, b"old", 30)
