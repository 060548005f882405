"""Following a whole link: which partitions are looked at when, what trouble does to it, and what it may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from mirror_connect.cli.verify import follow
from mirror_connect.cli.verify.findings import Fault
from mirror_connect.cli.verify.follow import Follower, FollowOptions
from mirror_connect.cli.verify.follow_report import FollowWatcher
from mirror_connect.cli.verify.link import Link, Positions, described_link
from mirror_connect.cli.verify.rate import Rate
from mirror_connect.cli.verify.reading import LOOK_BYTES, CannotCompareError, Key
from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.wire import EARLIEST, LATEST
from mirror_connect.spark_jobs.fetched import Fetched, SourcePartition
from tests.fakes.encoded_batches import some_records
from tests.fakes.partition_logs import packed
from tests.fakes.peeked_logs import MemoryPeek

BATCHES = packed(some_records(1, 400, size=20))
WHOLE = FollowOptions(cpu_share=None)


class MemoryCluster:
    """Both clusters' readers, by the place they are of; `logs` are shared by the tests with the follower."""

    logs: dict[str, dict[Key, MemoryPeek]]
    ids: dict[tuple[str, str], bytes]
    away: dict[str, bool]

    def __init__(self, place: str, _properties: object, *, committed: bool, rate: Rate, **_: Any) -> None:
        self.place = place
        self.committed = committed
        self.rate = rate

    async def open(self, _topics: Iterable[str]) -> None:
        pass

    async def close(self) -> None:
        pass

    def has(self, key: Key) -> bool:
        return key in self.logs[self.place]

    async def topic_ids(self, topics: Iterable[str]) -> dict[str, bytes | None]:
        return {topic: self.ids.get((self.place, topic)) for topic in topics}

    async def offsets(self, wanted: Mapping[Key, int]) -> dict[Key, int | None]:
        found: dict[Key, int | None] = {}
        for key, what in wanted.items():
            log = self.logs[self.place][key]
            if what == EARLIEST:
                found[key] = log.gone
            else:
                found[key] = log.log.end if what == LATEST else await log.offset_at(what)
        return found

    async def look(
        self, key: SourcePartition, offset: int, *, hidden_too: bool = True, most: int = LOOK_BYTES
    ) -> Fetched | None:
        del hidden_too, most
        if self.away[self.place]:
            raise CannotCompareError(f"the {self.place} cluster does not answer")
        return await self.logs[self.place][tuple(key)].look(offset)


class Rig(FollowWatcher):
    """A link of topics `a` and `b`, copied as `A.a` and `A.b`; the test says how far it has come."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(follow, "ClusterReader", MemoryCluster)
        monkeypatch.setattr(follow, "_ROUND_S", (0.0, 0.0))
        monkeypatch.setattr(follow, "_REST_S", 0.0)
        monkeypatch.setattr(follow, "_TOPICS_EVERY_S", 0.0)
        MemoryCluster.logs = {
            "source": {(topic, 0): MemoryPeek("source", BATCHES, at_once=50) for topic in "ab"},
            "target": {(f"A.{topic}", 0): MemoryPeek("target", BATCHES, at_once=50) for topic in "ab"},
        }
        MemoryCluster.ids = {}
        MemoryCluster.away = {"source": False, "target": False}
        self.positions: Positions | Exception | None = {("a", 0): -1, ("b", 0): -1}
        self.faults: list[tuple[Key, Fault]] = []
        self.notices: list[str] = []
        self.used = 0.0
        self.rounds = 0

    def follower(self, options: FollowOptions = WHOLE) -> Follower:
        return Follower(link(), self._tell, options, self, own=lambda: self.used, doubt_s=0.0)

    async def _tell(self) -> Positions | None:
        self.rounds += 1
        if isinstance(self.positions, Exception):
            raise self.positions
        return None if self.positions is None else dict(self.positions)

    def fault(self, key: Key, fault: Fault) -> None:
        self.faults.append((key, fault))

    def notice(self, line: str) -> None:
        self.notices.append(line)

    async def while_running(self, follower: Follower, *stages: tuple[Callable[[], None], Callable[[], bool]]) -> None:
        """Does each stage's deed and waits for what it leads to."""
        task = asyncio.ensure_future(follower.run())
        try:
            async with asyncio.timeout(60):
                for deed, consequence in stages:
                    deed()
                    while not consequence():
                        if task.done():
                            task.result()
                        await asyncio.sleep(0)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def at(self, **offsets: int) -> Callable[[], None]:
        def move() -> None:
            self.positions = {(topic, 0): offset for topic, offset in offsets.items()}

        return move

    def some_rounds(self) -> Callable[[], bool]:
        """A consequence: three more rounds."""
        begun: list[int] = []

        def passed() -> bool:
            begun.append(self.rounds)
            return self.rounds >= begun[0] + 3

        return passed


def link() -> Link:
    cluster = {"bootstrap.servers": "nowhere:1"}
    return described_link(source=cluster, target=cluster, settings={"topics": "[ab]", "source.cluster.alias": "A"})


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def compared(follower: Follower, count: int) -> Callable[[], bool]:
    return lambda: follower.report.total("compared") >= count


async def test_only_what_is_copied_from_now_on_is_verified(rig: Rig) -> None:
    follower = rig.follower()
    rig.at(a=99, b=199)()
    await rig.while_running(
        follower, (rig.at(a=99, b=199), rig.some_rounds()), (rig.at(a=399, b=399), compared(follower, 500))
    )
    assert (follower.report.copied, follower.report.total("compared"), follower.report.outcome) == (500, 500, 0)


async def test_what_is_heard_of_only_later_is_verified_from_its_beginning(rig: Rig) -> None:
    follower = rig.follower()
    rig.at(a=99)()
    await rig.while_running(follower, (rig.at(a=99), rig.some_rounds()), (rig.at(a=99, b=399), compared(follower, 400)))
    assert follower.report.copied == 400


async def test_topics_that_the_link_no_longer_copies_are_left_out(rig: Rig) -> None:
    follower = rig.follower()
    await rig.while_running(
        follower,
        (rig.at(a=-1, other=-1), rig.some_rounds()),
        (rig.at(a=399, other=399), compared(follower, 400)),
    )
    assert list(follower.report.partitions) == [("a", 0)]


async def test_a_topic_without_a_copy_keeps_nobody_waiting(rig: Rig) -> None:
    del MemoryCluster.logs["target"]["A.b", 0]
    follower = rig.follower()
    await rig.while_running(
        follower, (rig.at(a=-1, b=-1), rig.some_rounds()), (rig.at(a=399, b=399), compared(follower, 400))
    )
    assert list(follower.report.partitions) == [("a", 0)]


async def test_a_cluster_that_is_away_is_told_once_and_tried_again(rig: Rig) -> None:
    def gone() -> None:
        MemoryCluster.away["target"] = True
        rig.at(a=399, b=-1)()

    def back() -> None:
        MemoryCluster.away["target"] = False

    follower = rig.follower()
    await rig.while_running(
        follower, (rig.at(a=-1, b=-1), rig.some_rounds()), (gone, rig.some_rounds()), (back, compared(follower, 400))
    )
    assert rig.notices == [
        "a-0: not verified at present: the target cluster does not answer; tried again",
        "a-0: verified again",
    ]
    assert (follower.report.troubles, follower.report.faults) == ({}, 0)


@pytest.mark.parametrize("trouble", [None, CannotCompareError("the worker is away"), NotAuthorized("not now")])
async def test_a_worker_that_does_not_tell_positions_is_asked_again(rig: Rig, trouble: Exception | None) -> None:
    def silent() -> None:
        rig.positions = trouble

    follower = rig.follower()
    await rig.while_running(
        follower,
        (rig.at(a=-1, b=-1), rig.some_rounds()),
        (silent, rig.some_rounds()),
        (rig.at(a=399, b=399), compared(follower, 800)),
    )
    assert len(rig.notices) == 2
    assert rig.notices[1] == "the link's positions are told again"


async def test_what_cannot_be_followed_at_all_is_an_error(rig: Rig) -> None:
    rig.positions = None
    with pytest.raises(CannotCompareError, match="no such connector"):
        await rig.follower().run()


@pytest.mark.parametrize("place", ["source", "target"])
async def test_another_topic_under_the_name_is_told_and_verified(rig: Rig, place: str) -> None:
    MemoryCluster.ids = {("source", "a"): b"1", ("target", "A.a"): b"1"}

    def made_again() -> None:
        MemoryCluster.ids[place, "a" if place == "source" else "A.a"] = b"2"

    follower = rig.follower()
    later = compared(follower, 300 if place == "source" else 400)
    await rig.while_running(
        follower,
        (rig.at(a=-1), rig.some_rounds()),
        (rig.at(a=199), compared(follower, 200)),
        (made_again, lambda: bool(rig.notices)),
        (rig.at(a=99 if place == "source" else 399), later),
    )
    name = "source topic a" if place == "source" else "target topic A.a"
    assert rig.notices[0].startswith(f"{name} was deleted and created again")
    assert follower.report.faults == 0


async def test_a_link_that_was_set_back_is_verified_again_when_it_comes_to_new_records(rig: Rig) -> None:
    follower = rig.follower()
    await rig.while_running(
        follower,
        (rig.at(a=-1), rig.some_rounds()),
        (rig.at(a=199), compared(follower, 200)),
        (rig.at(a=50), rig.some_rounds()),
        (rig.at(a=399), compared(follower, 400)),
    )
    assert follower.report.total("compared") == 400


async def test_nothing_is_looked_at_while_the_share_is_used_up(rig: Rig) -> None:
    follower = rig.follower(FollowOptions(cpu_share=0.05))

    def spent() -> None:
        rig.used = 100.0
        rig.at(a=399, b=399)()

    await rig.while_running(follower, (rig.at(a=-1, b=-1), rig.some_rounds()), (spent, rig.some_rounds()))
    assert (follower.report.copied, follower.report.total("compared"), follower.report.outcome) == (800, 0, 2)
