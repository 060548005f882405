"""The fetcher against a source whose log is truncated and grows again: what it reports, and where it continues."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.connectors import problems
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.problems import MOST_LOGGED
from tests.fakes.fetched_copy import A0, B0, Copy, copying, until
from tests.fakes.source_cluster import FakeSource


def told(position: int, before: int, partition: str = "a-0", side: str = "source") -> str:
    return (
        f"{side} partition {partition} was truncated at offset {position} (unclean leader election?): "
        f"offsets {position} to {before - 1}, which had been read, are gone from the {side} ({before - position} offsets); "
        f"reading continues at {position}"
    )


def read_on(copy: Copy, partition: TopicPartition = A0) -> list[tuple[int, int]]:
    return [(first, after) for key, first, after in copy.came if key == partition]


@pytest.mark.parametrize("takes_epochs", [True, False], ids=["each_fetch_is_checked", "only_leaders_are_asked"])
@pytest.mark.parametrize("regrown", [1, 5], ids=["shorter_than_before", "longer_than_before"])
async def test_what_a_log_has_behind_a_truncation_is_read_and_what_is_gone_is_told(
    takes_epochs: bool, regrown: int
) -> None:
    source = FakeSource()
    source.takes_epochs = takes_epochs
    log = source.log("a", batches=5)
    async with copying(source) as copy:
        await copy.read_to(50)
        copy.came.clear()
        log.truncate(30)
        for _ in range(regrown):
            log.append()
        await until(lambda: copy.reached(A0) == log.end)
    assert read_on(copy)[0][0] == 30
    assert copy.notices == [told(30, 50)]


async def test_a_leader_that_does_not_change_is_asked_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        for end in range(10, 60, 10):
            await until(lambda end=end: copy.reached(A0) == end)  # type: ignore[misc]
            log.append()
    assert (source.checks, copy.notices) == ([], [])
    assert {wanted.last_epoch for _, fetch in source.fetches for wanted in fetch.partitions} == {-1, 0}


async def test_a_clean_change_of_leaders_is_checked_once_and_tells_nothing() -> None:
    source = FakeSource()
    log = source.log("a", batches=2)
    async with copying(source) as copy:
        await copy.read_to(20)
        log.leader = 2
        log.truncate(20)
        log.append()
        await until(lambda: copy.reached(A0) == 30)
        log.append()
        await until(lambda: copy.reached(A0) == 40)
    assert [check.wanted for check in source.checks] == [{A0: (1, 0)}]
    assert copy.notices == []


@pytest.mark.parametrize("grown", [0, 5], ids=["beyond_the_end", "grown_past_it"])
async def test_a_position_of_a_log_that_was_truncated_meanwhile_leads_to_where_it_was(grown: int) -> None:
    source = FakeSource()
    log = source.log("a", batches=5, epoch=3)
    log.truncate(20)
    for _ in range(grown):
        log.append()
    async with copying(source, auto_offset_reset="latest") as copy:
        copy.fetcher.add(A0, 50, None, 3)
        await until(lambda: copy.fetcher.state(A0).position == max(20, log.end) and bool(copy.notices))
        log.append()
        await until(lambda: copy.reached(A0) == log.end)
    assert read_on(copy)[0][0] == 20
    assert copy.notices == [told(20, 50)]


async def test_a_position_in_the_present_log_is_asked_for_once_before_it_is_read() -> None:
    source = FakeSource()
    log = source.log("a", batches=3, epoch=3)
    log.truncate(30)
    log.append()
    async with copying(source) as copy:
        copy.fetcher.add(A0, 30, None, 3)
        await until(lambda: copy.reached(A0) == 40)
    assert ([check.wanted for check in source.checks], copy.notices) == ([{A0: (4, 3)}], [])
    assert source.fetches[0][1].partitions[0].last_epoch == 3


async def test_a_position_without_an_epoch_is_read_by_its_offset() -> None:
    source = FakeSource()
    log = source.log("a", batches=5)
    log.truncate(20)
    for _ in range(5):
        log.append()
    async with copying(source) as copy:
        copy.fetcher.add(A0, 50)
        await until(lambda: copy.reached(A0) == 70)
    assert (read_on(copy)[0][0], source.checks, copy.notices) == (50, [], [])


async def test_an_older_leader_that_comes_back_is_followed_to_the_first_record_that_was_another_one() -> None:
    source = FakeSource()
    log = source.log("a", batches=2)
    first = [*log.batches]
    async with copying(source) as copy:
        await copy.read_to(20)
        for _ in range(3):
            log.append()
        longer = [*log.batches]
        # Nobody has read of these before another one leads, which hasn't got them.
        log.batches, log.epoch = first, 1
        log.append()
        await until(lambda: copy.reached(A0) == 30)
        copy.came.clear()
        log.batches, log.epoch = longer, 2
        await until(lambda: copy.reached(A0) == 50)
    assert read_on(copy)[0][0] == 20
    assert copy.notices == [told(20, 30)]


async def test_a_second_truncation_below_the_first_one_is_told_too() -> None:
    source = FakeSource()
    log = source.log("a", batches=3)
    async with copying(source) as copy:
        await copy.read_to(30)
        for end in (20, 10):
            log.truncate(end)
            log.append()
            log.append()
            await until(lambda end=end: copy.came[-1][2] == end + 20)  # type: ignore[misc]
    assert copy.notices == [told(20, 30), told(10, 40)]


async def test_offsets_that_retention_took_are_a_gap_and_no_truncation() -> None:
    source = FakeSource()
    log = source.log("a", batches=2, epoch=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 5, None, 1)
        await until(lambda: copy.reached(A0) == 20)
        copy.fetcher.remove(A0)
        log.truncate(20)
        for _ in range(3):
            log.append()
        log.start, log.batches = 40, log.batches[4:]
        copy.fetcher.add(A0, 20, None, 1)
        await until(lambda: copy.reached(A0) == 50)
    assert copy.notices == [
        "source partition a-0: offsets 20 to 39 are gone from the source (retention or deleted records): "
        "20 offsets skipped, reading continues at 40"
    ]


async def test_where_retention_took_the_place_of_a_truncation_reading_goes_on_behind_both() -> None:
    source = FakeSource()
    log = source.log("a", batches=5)
    async with copying(source, auto_offset_reset="latest") as copy:
        await copy.read_to(50)
        copy.came.clear()
        log.truncate(20)
        for _ in range(4):
            log.append()
        # All that a broker remembers of leaders then is that the present one's records begin here.
        log.start, log.batches = 40, log.batches[4:]
        await until(lambda: copy.reached(A0) == 60)
    assert (read_on(copy)[0][0], copy.notices) == (40, [told(40, 50)])


async def test_what_follows_a_truncation_is_read_from_its_beginning_whatever_auto_offset_reset_says() -> None:
    source = FakeSource()
    log = source.log("a", batches=2)
    async with copying(source, auto_offset_reset="latest") as copy:
        await copy.read_to(20)
        for _ in range(3):
            log.append()
        longer = log.batches
        log.batches, log.epoch = longer[:2], 1
        log.append()
        await until(lambda: copy.reached(A0) == 30)
        copy.came.clear()
        log.batches, log.epoch, log.start = longer[3:], 2, 30
        await until(lambda: copy.reached(A0) == 50)
    assert read_on(copy)[0][0] == 30
    assert copy.notices == [
        told(20, 30),
        "source partition a-0: offsets 20 to 29 are gone from the source (retention or deleted records): "
        "10 offsets skipped, reading continues at 30",
    ]


async def test_without_a_reset_a_truncated_partition_stands_still_and_says_where() -> None:
    source = FakeSource()
    log = source.log("a", batches=5)
    source.log("b", batches=1)
    async with copying(source, auto_offset_reset="none") as copy:
        copy.fetcher.add(A0, 0)
        copy.fetcher.add(B0, 0)
        await until(lambda: copy.reached(A0) == 50)
        log.truncate(30)
        log.append()
        await until(lambda: copy.fetcher.state(A0).failed)
        source.logs["b", 0].append()
        await until(lambda: copy.reached(B0) == 20)
        problem = copy.fetcher.state(A0).problem
        assert problem is not None
        assert (problem.line, copy.reached(A0)) == (copy.notices[0], 50)
    assert copy.notices == [
        "source partition a-0 was truncated at offset 30 (unclean leader election?): offsets 30 to 49, which had "
        "been read, are gone from the source, and source.consumer.auto.offset.reset is none; earliest continues there"
    ]


async def test_truncations_of_many_partitions_are_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(problems, "BURST_S", 1.0)
    source = FakeSource()
    partitions = [TopicPartition("a", number) for number in range(MOST_LOGGED + 10)]
    for key in partitions:
        source.log("a", key.partition, batches=3, epoch=7).truncate(12 - 2)
    async with copying(source) as copy:
        for key in partitions:
            copy.fetcher.add(key, 30, None, 7)
        await until(lambda: len(copy.notices) > MOST_LOGGED)
    assert copy.notices[-1] == (
        "10 more source partitions whose logs were truncated: 200 offsets of them are gone from the source"
    )
    # One request for all of them, and one more when the metadata have told that it is still the same topic.
    assert [len(check.wanted) for check in source.checks[:2]] == [len(partitions)] * 2


async def test_a_topic_made_again_is_no_truncation() -> None:
    source = FakeSource()
    source.log("a", batches=5)
    source.ids["a"] = b"old"
    async with copying(source) as copy:
        await copy.read_to(50)
        copy.came.clear()
        source.ids["a"] = b"new"
        source.log("a", batches=2)
        await until(lambda: copy.reached(A0) == 20)
    assert read_on(copy) == [(0, 20)]
    assert len(copy.notices) == 1
    assert "was deleted and created again" in copy.notices[0]


async def test_an_answer_that_may_be_another_topics_is_believed_only_when_the_metadata_say_the_same() -> None:
    source = FakeSource()
    source.log("a", batches=1)
    source.ids["a"] = b"old"
    answer = source._ended

    def made_again(*asked):  # type: ignore[no-untyped-def]
        source.ids["a"] = b"new"
        return answer(*asked)

    source._ended = made_again  # type: ignore[method-assign]
    async with copying(source) as copy:
        copy.fetcher.add(A0, 50, b"old", 0)
        await until(lambda: copy.reached(A0) == 10)
    assert (read_on(copy), len(source.checks)) == ([(0, 10)], 1)
    assert len(copy.notices) == 1
    assert "was deleted and created again" in copy.notices[0]


async def test_a_leader_that_knows_nothing_of_the_epoch_is_told_once_and_read_by_offsets() -> None:
    source = FakeSource()
    log = source.log("a", batches=5, epoch=2)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 20, None, 9)
        await until(lambda: copy.reached(A0) == 50)
        copy.fetcher.remove(A0)
        log.append()
        copy.fetcher.add(A0, 50, None, 9)
        await until(lambda: copy.reached(A0) == 60)
    line = (
        "source partition a-0: its leader knows nothing of leader epoch 9, in which the record before offset 20 was "
        "written; only offsets show whether its log was truncated"
    )
    assert copy.notices == [line, line.replace("offset 20", "offset 50")]
    assert read_on(copy) == [(20, 50), (50, 60)]


async def test_a_follower_that_lags_is_not_believed() -> None:
    source = FakeSource()
    log = source.log("a", batches=3, preferred=2)
    answer = source._read

    def lagging(node, key, wanted, room):  # type: ignore[no-untyped-def]
        if node == 2 and wanted.offset > 20:
            return answer(node, key, wanted, room)._replace(diverging=(0, 20), records=memoryview(b""))
        return answer(node, key, wanted, room)

    source._read = lagging  # type: ignore[method-assign]
    async with copying(source) as copy:
        copy.fetcher.add(A0, 25, None, 0)
        await until(lambda: len(source.checks) > 2)
        log.preferred = -1
        await until(lambda: copy.reached(A0) == 30)
    assert (read_on(copy), copy.notices) == ([(25, 30)], [])


async def test_a_leader_that_can_not_be_asked_is_tried_until_it_answers() -> None:
    source = FakeSource()
    log = source.log("a", batches=3)
    log.truncate(20)
    log.append()
    source.down.add(1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 30, None, 0)
        await asyncio.sleep(0.1)
        assert source.fetches == []
        source.down.clear()
        await until(lambda: copy.reached(A0) == 30)
    assert read_on(copy) == [(20, 30)]
    assert told(20, 30) in copy.notices
