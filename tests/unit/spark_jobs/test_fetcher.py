"""The fetcher against a source in memory: order, back-pressure, and each thing that can go wrong with a partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.spark_jobs import outage
from mirror_connect.spark_jobs.fetcher import Fetched, Fetcher, SourcePartition
from tests.fakes.source_cluster import FakeSource, batch

A0 = SourcePartition("a", 0)
A1 = SourcePartition("a", 1)
B0 = SourcePartition("b", 0)


@dataclass
class Copy:
    """What came, as (partition, fetch offset, next offset); `held` are those not released yet."""

    fetcher: Fetcher = None  # type: ignore[assignment]
    notices: list[str] = field(default_factory=list)
    came: list[tuple[SourcePartition, int, int]] = field(default_factory=list)
    held: list[Fetched] = field(default_factory=list)
    holds: Callable[[SourcePartition], bool] = lambda _: False

    def take(self, fetched: Fetched) -> None:
        self.came.append((fetched.partition, fetched.fetch_offset, fetched.next_offset))
        if self.holds(fetched.partition):
            self.held.append(fetched)
        else:
            fetched.release()

    def reached(self, partition: SourcePartition) -> int:
        return max((after for came, _, after in self.came if came == partition), default=-1)


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def copying(source: FakeSource, limit: int = 1 << 20, **settings: str) -> AsyncIterator[Copy]:
    copy = Copy()
    quick = {"retry.backoff.ms": "2", "retry.backoff.max.ms": "10", "fetch.max.wait.ms": "20"}
    named = {name.replace("_", "."): value for name, value in settings.items()}
    copy.fetcher = Fetcher(
        source, {**quick, **named}, on_records=copy.take, on_notice=copy.notices.append, buffer_limit_bytes=limit
    )
    running = asyncio.create_task(copy.fetcher.run())
    try:
        yield copy
        assert not running.done(), running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_records_come_in_order_from_the_given_position() -> None:
    source = FakeSource()
    source.log("a", batches=5)
    async with copying(source, max_partition_fetch_bytes="200") as copy:
        copy.fetcher.add(A0, 20)
        await until(lambda: copy.reached(A0) == 50)
    assert copy.came == [(A0, 20, 40), (A0, 40, 50)]


async def test_a_first_batch_with_a_wrong_length_is_handed_over_for_the_reader_to_find_out() -> None:
    source = FakeSource()
    content = bytearray(batch(0, 10))
    content[10] = 1
    source.log("a").batches.append((0, 10, bytes(content)))
    async with copying(source) as copy:
        copy.holds = lambda _: True
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.held != [])
        assert (copy.held[0].fetch_offset, bytes(copy.held[0].buffer)) == (0, bytes(content))
        assert copy.fetcher.state(A0).position == 0


async def test_a_position_within_a_batch_is_named_beside_the_whole_batch() -> None:
    source = FakeSource()
    source.log("a", batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 7)
        await until(lambda: copy.reached(A0) == 10)
    assert copy.came == [(A0, 7, 10)]


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
        "source partition a-0 has no known position and auto.offset.reset is none: set it to earliest or latest"
    ]


async def test_a_gap_left_by_retention_is_told_with_its_size() -> None:
    source = FakeSource()
    source.log("a", start=30, batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 12)
        await until(lambda: copy.reached(A0) == 40)
    assert copy.notices == [
        "source partition a-0: offsets 12 to 29 are gone from the source (retention or deleted records): "
        "18 offsets skipped, reading on at 30"
    ]


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
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 10)
    assert copy.notices == []


async def test_a_partition_that_has_no_leader_for_long_is_named_until_it_has_one() -> None:
    source = FakeSource()
    log = source.log("a", batches=1, errors=[5] * 1_000_000)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: bool(copy.notices))
        line = "source partition a-0 has no leader on the source cluster; it is read as soon as it has one"
        assert (copy.notices, copy.fetcher.state(A0).error) == ([line], line)
        log.errors = []
        await until(lambda: copy.reached(A0) == 10)
        assert copy.fetcher.state(A0).error == ""


async def test_a_broker_that_does_not_answer_is_a_line_until_it_does_and_one_that_leads_nothing_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outage, "SHOWN_AFTER_S", 0.0)
    source = FakeSource()
    source.log("a", 0, batches=1)
    other = source.log("a", 1, batches=1, leader=2)
    source.down.add(2)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        copy.fetcher.add(A1, 0)
        await until(lambda: copy.reached(A0) == 10 and bool(copy.fetcher.outages()))
        (line,) = copy.fetcher.outages()
        assert line.startswith("The source broker fake:2 can't be read from since ")
        other.leader, other.epoch = 1, 1
        await until(lambda: copy.reached(A1) == 10)
        assert copy.fetcher.outages() == []


async def test_a_partition_follows_its_leader_to_another_broker() -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 10)
        log.leader, log.epoch = 2, 1
        log.append()
        await until(lambda: copy.reached(A0) == 20)
    node, request = source.fetches[-1]
    assert (node, [p.leader_epoch for p in request.partitions]) in ((2, [1]), (2, []))


@pytest.mark.parametrize(("code", "words"), [(29, "grant READ on the topic"), (2, "CORRUPT_MESSAGE")])
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
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 30)
        del source.logs["a", 0]
        await until(lambda: copy.fetcher.state(A0).error != "")
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
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 30)
        copy.came.clear()
        source.ids["a"] = b"new"
        source.log("a", batches=1)
        await until(lambda: copy.reached(A0) == 10)
    assert copy.came == [(A0, 0, 10)]
    assert copy.notices == [
        "source topic a was deleted and created again (its id was b2xk and is bmV3): "
        "partition 0 is read from the beginning of the new one"
    ]


async def test_a_topic_made_again_and_filled_beyond_the_old_position_is_read_whole() -> None:
    source = FakeSource()
    source.log("a", batches=3)
    source.ids["a"] = b"old"
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 30)
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
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 30)
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


async def test_told_to_stop_at_a_topic_made_again_a_partition_stands_still_and_others_go_on() -> None:
    source = FakeSource()
    source.log("a", batches=3)
    source.log("b", batches=1)
    source.ids.update(a=b"old", b=b"other")
    async with copying(source) as copy:
        copy.fetcher._stop_at_new_topic = "So it is asked for."
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
        "partition 0 stands still. So it is asked for."
    ]
    assert (state.error, state.position, state.topic_id, copy.reached(A0)) == (copy.notices[0], 30, b"old", 30)


async def test_a_broker_that_is_gone_and_back_is_told_once_each() -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 10)
        source.down.add(1)
        await until(lambda: len(copy.notices) == 1 and source.refreshes > 3)
        source.down.clear()
        log.append()
        await until(lambda: copy.reached(A0) == 20)
    assert copy.notices == [
        "source broker fake:1: Connection refused; tried again until it answers",
        "source broker fake:1: answers again",
    ]


async def test_an_unreachable_cluster_is_told_once_and_awaited() -> None:
    source = FakeSource()
    source.log("a", batches=1)
    source.unreachable = True
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: source.refreshes > 3)
        source.unreachable = False
        await until(lambda: copy.reached(A0) == 10)
    assert [notice.split(":")[0] for notice in copy.notices] == ["source cluster"] * 2


@pytest.mark.parametrize("code", [70, 71])
async def test_a_lost_fetch_session_is_begun_anew_without_a_word(code: int) -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 10)
        source.session_error = code
        log.append()
        await until(lambda: copy.reached(A0) == 20)
    assert (copy.notices, source.session_error) == ([], 0)


async def test_the_preferred_replica_is_read_instead_of_the_leader() -> None:
    source = FakeSource()
    source.log("a", batches=1, preferred=2)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 10)
    assert source.fetches[-1][0] == 2


async def test_a_preferred_replica_that_is_gone_gives_way_to_the_leader() -> None:
    source = FakeSource()
    log = source.log("a", batches=1, preferred=2)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 10)
        source.down.add(2)
        log.preferred = -1
        log.append()
        await until(lambda: copy.reached(A0) == 20)
    assert source.fetches[-1][0] == 1


async def test_a_preferred_replica_is_forgotten_after_metadata_max_age() -> None:
    source = FakeSource()
    log = source.log("a", batches=1, preferred=2)
    async with copying(source, metadata_max_age_ms="30") as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 10)
        log.preferred = -1
        log.errors.clear()
        seen = len(source.fetches)
        await until(lambda: any(node == 1 for node, _ in source.fetches[seen:]))


async def test_a_full_partition_waits_while_others_go_on() -> None:
    source = FakeSource()
    slow = source.log("a")
    quick = source.log("b")
    for _ in range(100):
        slow.append(size=1000)
        quick.append(size=1000)
    async with copying(source, limit=16_000) as copy:
        copy.holds = lambda partition: partition == A0
        copy.fetcher.add(A0, 0)
        copy.fetcher.add(B0, 0)
        await until(lambda: copy.reached(B0) == 1000)
        assert sum(len(fetched.buffer) for fetched in copy.held) <= 16_000
        assert copy.reached(A0) < 1000


async def test_freed_room_is_used_again() -> None:
    source = FakeSource()
    log = source.log("a")
    for _ in range(100):
        log.append(size=1000)
    async with copying(source, limit=8_000) as copy:
        copy.holds = lambda _: True
        copy.fetcher.add(A0, 0)
        while copy.reached(A0) < 1000:
            await until(lambda: bool(copy.held))
            copy.held.pop(0).release()


async def test_unreleased_bytes_stay_within_the_limit() -> None:
    source = FakeSource()
    for partition in range(8):
        log = source.log("a", partition, leader=1 + partition % 2)
        for _ in range(50):
            log.append(size=1000)
    async with copying(source, limit=20_000) as copy:
        copy.holds = lambda _: True
        for partition in range(8):
            copy.fetcher.add(SourcePartition("a", partition), 0)
        await until(lambda: len(copy.held) > 0)
        await asyncio.sleep(0.1)
        held = sum(len(fetched.buffer) for fetched in copy.held)
        # One batch per broker may come above the limit.
        assert 5_000 <= held <= 22_000


async def test_releasing_twice_frees_once() -> None:
    source = FakeSource()
    source.log("a", batches=2)
    async with copying(source, max_partition_fetch_bytes="100") as copy:
        copy.holds = lambda _: True
        copy.fetcher.add(A0, 0)
        await until(lambda: len(copy.held) == 2)
        copy.held[0].release()
        used = copy.fetcher._budget.used
        copy.held[0].release()
        assert copy.fetcher._budget.used == used > 0


async def test_a_removed_partition_brings_nothing_more() -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    source.log("b", batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        copy.fetcher.add(B0, 0)
        await until(lambda: copy.reached(A0) == 10)
        copy.fetcher.remove(A0)
        log.append()
        source.logs["b", 0].append()
        await until(lambda: copy.reached(B0) == 20)
    assert copy.reached(A0) == 10


async def test_a_partition_added_again_is_read_from_its_new_position_only() -> None:
    source = FakeSource()
    source.log("a", batches=3)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 30)
        copy.came.clear()
        copy.fetcher.add(A0, 10)
        await until(lambda: copy.reached(A0) == 30)
    assert copy.came == [(A0, 10, 30)]


async def test_a_paused_fetcher_hands_nothing_over_until_resumed() -> None:
    source = FakeSource()
    log = source.log("a", batches=1)
    async with copying(source) as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 10)
        copy.fetcher.pause()
        log.append()
        await asyncio.sleep(0.06)
        assert copy.reached(A0) == 10
        copy.fetcher.resume()
        await until(lambda: copy.reached(A0) == 20)


async def test_a_batch_larger_than_asked_for_still_comes() -> None:
    source = FakeSource()
    log = source.log("a")
    log.append(size=100)
    async with copying(source, max_partition_fetch_bytes="1", fetch_max_bytes="1") as copy:
        copy.fetcher.add(A0, 0)
        await until(lambda: copy.reached(A0) == 10)


@pytest.mark.parametrize(
    ("name", "value"),
    [("auto.offset.reset", "newest"), ("isolation.level", "serializable"), ("fetch.max.bytes", "many")],
)
def test_a_wrong_setting_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=name):
        Fetcher(FakeSource(), {name: value}, on_records=lambda _: None, on_notice=lambda _: None)
