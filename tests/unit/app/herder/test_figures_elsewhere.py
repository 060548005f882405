"""A link whose tasks run at several workers: each of them answers whole, and names the ones that it does not know."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from mirror_connect.app.herder import figures_elsewhere
from mirror_connect.app.herder.link_reads import LinkReads
from mirror_connect.app.herder.link_views import LinkView, TopicOrder
from mirror_connect.app.herder.link_watch import LinkWatch
from mirror_connect.app.metrics.figures_lines import head_line
from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_measures import BUCKETS
from tests.fakes.workers_of_group import CONNECTOR, SharingGroup

LINK = "A->B"


@pytest.fixture
async def group() -> AsyncIterator[SharingGroup]:
    """Three workers, each with a task; orders-0 is with the first one, orders-1 with the second …"""
    async with SharingGroup(3).running([["orders-0", "a-0"], ["orders-1"], ["orders-2", "b-0"]]) as running:
        yield running


def links(group: SharingGroup, worker: int) -> LinkReads:
    return group.workers[worker].herder.links


async def only(group: SharingGroup, worker: int) -> LinkView:
    return (await links(group, worker).all())[0]


def tell_all(group: SharingGroup) -> None:
    group.tell(0, 0, ("orders", 0, 5, 10, 8), ("a", 0, 0, 7, None))
    group.tell(1, 1, ("orders", 1, 7, 20, 30))
    group.tell(2, 2, ("orders", 2, 0, 30, None), ("b", 0, 3, 1, 2))


@pytest.mark.parametrize("worker", [0, 1, 2])
async def test_every_worker_shows_the_sums_of_all(group: SharingGroup, worker: int) -> None:
    tell_all(group)
    found = await only(group, worker)
    assert (found.lag.records, found.lag.behind, found.lag.unknown) == (15, 3, 0)
    assert found.lag.seconds == pytest.approx(30, abs=1)
    assert found.rate is not None
    assert found.rate.records == pytest.approx(68, rel=0.01)  # 68 records within the shortest time, one second
    assert (found.unknown_workers, found.problems, found.leads) == ((), (), worker == 0)
    assert found.last_report_ms == pytest.approx(group.hand.ms, abs=2)


@pytest.mark.parametrize("worker", [0, 1, 2])
async def test_every_worker_sorts_and_searches_the_topics_of_all(group: SharingGroup, worker: int) -> None:
    tell_all(group)
    total, rows = await links(group, worker).topics(LINK, order=TopicOrder.LAG, limit=10)
    assert (total, [(row.topic, row.lag.records) for row in rows]) == (3, [("orders", 12), ("b", 3), ("a", 0)])
    assert {row.remote_topic for row in rows} == {"A.orders", "A.b", "A.a"}
    total, rows = await links(group, worker).topics(LINK, search="A.b", limit=10)
    assert [row.topic for row in rows] == ["b"]
    remote, partitions = await links(group, worker).topic(LINK, "orders")
    assert remote == "A.orders"
    assert [(row.task, row.lag_records, row.records, row.log_end) for row in partitions] == [
        (0, 5, 10, 15),
        (1, 7, 20, 27),
        (2, 0, 30, 30),
    ]


async def test_latencies_and_problems_of_all(group: SharingGroup) -> None:
    tell_all(group)
    fast, slow = [0] * BUCKETS, [0] * BUCKETS
    fast[2], slow[8] = 90, 10
    problem = Problem("orders-1", ProblemCode.PARTITION_UNREADABLE, "It can't be read")
    group.hand.s += 0.5
    group.tell(0, 0, latency_counts=tuple(fast), filtered=4, skipped=1)
    group.tell(1, 1, latency_counts=tuple(slow), filtered=30, skipped=5, problems=(problem,), more_problems=2)
    for worker in (0, 2):
        found = await only(group, worker)
        assert found.latency is not None
        assert (found.latency.p50 < 5, found.latency.p99 > 200) == (True, True)
        assert found.problems is not None
        assert [(each.connector, each.problem.task, each.problem.code) for each in found.problems] == [
            (CONNECTOR, 1, ProblemCode.PARTITION_UNREADABLE)
        ]
        assert (found.more_problems, found.filtered, found.skipped) == (2, 34, 6)
        rows = (await links(group, worker).topics(LINK, search="orders", limit=1))[1]
        assert rows[0].problem is not None


async def test_a_worker_that_is_away_is_named_and_its_partitions_are_unknown(group: SharingGroup) -> None:
    tell_all(group)
    group.wire.away.add("http://w1:8083/")
    found = await only(group, 2)
    assert (found.unknown_workers, found.lag.records, found.lag.unknown, found.rate) == (("w1:8083",), 8, 1, None)
    assert (found.filtered, found.skipped) == (None, None)
    assert found.lag.seconds_of_all is not None
    row = (await links(group, 2).topics(LINK, search="orders", limit=1))[1][0]
    assert (row.lag.records, row.lag.unknown) == (5, 1)
    partition = (await links(group, 2).topic(LINK, "orders"))[1][1]
    assert (partition.lag_records, partition.records, partition.task) == (None, None, 1)


async def test_nobody_known_means_no_problems_known(group: SharingGroup) -> None:
    tell_all(group)
    group.wire.away |= {"http://w0:8083/", "http://w2:8083/"}
    group.workers[1].metrics.connectors.clear()
    found = await only(group, 1)
    assert (found.problems, found.rate, found.lag.records) == (None, None, None)


async def test_what_was_told_ten_seconds_ago_is_unknown(group: SharingGroup) -> None:
    tell_all(group)
    await only(group, 0)
    group.wire.away |= {"http://w1:8083/", "http://w2:8083/"}
    group.hand.s += 8
    group.tell(0, 0, ("orders", 0, 5, 10, 8))
    assert (await only(group, 0)).unknown_workers == ()
    group.hand.s += 3
    group.tell(0, 0, ("orders", 0, 5, 10, 8))
    found = await only(group, 0)
    assert (found.unknown_workers, found.lag.records, found.lag.unknown) == (("w1:8083", "w2:8083"), 5, 3)


async def test_a_task_that_moved_counts_once(group: SharingGroup) -> None:
    tell_all(group)
    assert (await only(group, 0)).lag.records == 15
    group.hand.s += 2
    # Task 1 goes on at worker 2, with one record less behind. Worker 1 has not forgotten what it knew.
    group.share({0: 0, 1: 2, 2: 2})
    group.tell(2, 1, ("orders", 1, 6, 21, 30))
    for worker in (0, 1, 2):
        found = await only(group, worker)
        assert (found.lag.records, found.lag.unknown) == (14, 0), worker


async def test_what_this_worker_ran_before_counts_at_the_new_one(group: SharingGroup) -> None:
    tell_all(group)
    group.hand.s += 2
    group.share({0: 1, 1: 1, 2: 2})
    group.tell(1, 0, ("orders", 0, 1, 14, 1), ("a", 0, 0, 8, None))
    for worker in (0, 1, 2):
        assert (await only(group, worker)).lag.records == 11, worker
        row = (await links(group, worker).topic(LINK, "orders"))[1][0]
        assert (row.lag_records, row.records) == (1, 14), worker


async def test_a_request_waits_a_second_for_one_that_hangs_and_then_no_more(
    group: SharingGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_all(group)
    group.wire.slow["http://w1:8083/"] = 60
    began = time.monotonic()
    assert (await only(group, 0)).unknown_workers == ("w1:8083",)
    assert time.monotonic() - began > 0.9
    # Its answer is given up after three seconds; nobody waits for the next one.
    asking = links(group, 0).others._others["w1:8083"].asking
    assert asking is not None
    await asking
    group.hand.s += 2
    monkeypatch.setattr(figures_elsewhere, "WAIT_S", 600.0)
    monkeypatch.setattr(figures_elsewhere, "PATIENCE_S", 600.0)
    async with asyncio.timeout(60):
        await only(group, 0)


async def test_many_requests_ask_each_worker_once(group: SharingGroup) -> None:
    tell_all(group)
    group.wire.slow = dict.fromkeys(group.wire.workers, 0.05)
    await asyncio.gather(*(links(group, 0).topics(LINK, limit=10) for _ in range(20)))
    assert sorted(url for url, _ in group.wire.asked) == ["http://w1:8083/", "http://w2:8083/"]
    await links(group, 0).topics(LINK, limit=10)
    assert len(group.wire.asked) == 2
    group.hand.s += 2
    await links(group, 0).topics(LINK, limit=10)
    assert len(group.wire.asked) == 4


async def test_rows_are_asked_for_only_when_somebody_looks(group: SharingGroup) -> None:
    tell_all(group)
    await only(group, 0)
    assert [body for _, body in group.wire.asked] == [b'{"rows": []}'] * 2
    await links(group, 0).topics(LINK, limit=10)
    assert [body for _, body in group.wire.asked[2:]] == [b'{"rows": ["c"]}'] * 2


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param((404, b"{}"), id="an_older_version"),
        pytest.param((200, b""), id="empty"),
        pytest.param((200, b"[]\n"), id="something_else"),
        pytest.param((200, head_line("w1:8083", "p")), id="cut_off"),
        pytest.param((200, head_line("w1:8083", "p") + b'{"connector":"c","figures":{"tasks":[[1]]}}\n'), id="odd_row"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_unknown(group: SharingGroup, answer: tuple[int, bytes]) -> None:
    tell_all(group)
    group.wire.instead["http://w1:8083/"] = answer
    assert (await only(group, 0)).unknown_workers == ("w1:8083",)


@pytest.mark.parametrize("url", ["", "host/A->B/x"])
async def test_a_member_without_an_address_is_never_asked(group: SharingGroup, url: str) -> None:
    assignment = group.workers[0].membership.assignment
    nameless = tuple(type(each)(url, each.worker_id, each.connectors, each.tasks) for each in assignment.workers)
    group.workers[0].membership.assigned = type(assignment)(1, True, None, workers=nameless)
    assert (await only(group, 0)).unknown_workers == ("w1:8083", "w2:8083")
    assert group.wire.asked == []


async def test_the_history_of_every_worker_has_the_rate_of_all(group: SharingGroup) -> None:
    watches = [LinkWatch(links(group, worker)) for worker in (0, 1, 2)]
    for step in range(4):
        group.tell(0, 0, ("orders", 0, 0, 1000 + 100 * step, None), ("a", 0, 0, 0, None))
        group.tell(1, 1, ("orders", 1, 0, 1000 + 200 * step, None))
        group.tell(2, 2, ("orders", 2, 0, 1000, None), ("b", 0, 0, 0, None))
        for worker, watch in enumerate(watches):
            await links(group, worker).others.refresh()
            await watch.look()
        group.hand.s += 10
    for worker in (0, 1, 2):
        points = await links(group, worker).history(LINK, 60)
        assert [(point.records, point.bytes, point.lag_records) for point in points] == [(30, 3000, 0)] * 3, worker


async def test_the_history_has_a_gap_while_a_worker_is_away(group: SharingGroup) -> None:
    watch = LinkWatch(links(group, 0))
    for step in range(4):
        group.tell(0, 0, ("orders", 0, 0, 1000 + 100 * step, None), ("a", 0, 0, 0, None))
        if step == 2:
            group.wire.away |= {"http://w1:8083/", "http://w2:8083/"}
        await links(group, 0).others.refresh()
        await watch.look()
        group.hand.s += 10
    points = await links(group, 0).history(LINK, 60)
    assert [point.records for point in points] == [10, None, None]


async def test_the_background_asks_by_itself(group: SharingGroup) -> None:
    tell_all(group)
    others = links(group, 0).others
    others.start()
    async with asyncio.timeout(60):
        while others.known() != {"w1:8083", "w2:8083"}:
            await asyncio.sleep(0.01)
    others.stop()
    assert {each.worker_id for each in others.told(CONNECTOR)} == {"w1:8083", "w2:8083"}


async def test_a_worker_that_left_the_group_is_forgotten(group: SharingGroup) -> None:
    tell_all(group)
    await only(group, 0)
    assert links(group, 0).others.known() == {"w1:8083", "w2:8083"}
    assignment = group.workers[0].membership.assignment
    group.workers[0].membership.assigned = type(assignment)(
        2, True, None, assignment.connectors, assignment.tasks, workers=assignment.workers[:2]
    )
    await only(group, 0)
    assert links(group, 0).others.known() == {"w1:8083"}
