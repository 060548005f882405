"""Following a whole link: which partitions are looked at when, what trouble does to it, and what it may take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.consumer.fetched import Fetched, SourcePartition
from mirror_connect.verify import baseline, follow
from mirror_connect.verify.findings import Fault, Kind
from mirror_connect.verify.follow import Follower, FollowOptions
from mirror_connect.verify.follow_report import FollowWatcher
from mirror_connect.verify.link import Link, Positions, described_link
from mirror_connect.verify.place import EARLIEST, LATEST, CannotCompareError, Key
from mirror_connect.verify.plan import Topics
from mirror_connect.verify.rate import Rate
from mirror_connect.verify.reading import LOOK_BYTES
from tests.fakes.encoded_batches import NOW, Plain, encode, patched, some_records
from tests.fakes.partition_logs import numbered, packed
from tests.fakes.peeked_logs import MemoryPeek

BATCHES = packed(some_records(1, 400, size=20))
WHOLE = FollowOptions(cpu_share=None)


class MemoryCluster:
    """Both clusters' readers, by the place they are of; `logs` are shared by the tests with the follower."""

    logs: dict[str, dict[Key, MemoryPeek]]
    ids: dict[tuple[str, str], bytes]
    away: dict[str, bool]
    # Done at each question for ends; how many offsets an open transaction hides at the target's.
    asked: Callable[[], None]
    hidden: int

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

    async def offsets(self, wanted: Mapping[Key, int], *, open_too: bool = False) -> dict[Key, int | None]:
        found: dict[Key, int | None] = {}
        MemoryCluster.asked()
        for key, what in wanted.items():
            log = self.logs[self.place][key]
            if what == EARLIEST:
                found[key] = log.gone
            else:
                found[key] = log.log.end if what == LATEST else await log.offset_at(what)
            if what == LATEST and self.place == "target" and not open_too:
                found[key] = max(0, (found[key] or 0) - self.hidden)
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
        monkeypatch.setattr(baseline, "topics_of", _topics)
        MemoryCluster.asked = staticmethod(lambda: None)
        MemoryCluster.hidden = 0
        MemoryCluster.ids = {}
        MemoryCluster.away = {"source": False, "target": False}
        self.positions: Positions | Exception | None = {("a", 0): -1, ("b", 0): -1}
        self.faults: list[tuple[Key, Fault]] = []
        self.notices: list[str] = []
        self.used = 0.0
        self.rounds = 0

    def follower(self, options: FollowOptions = WHOLE, of: Link | None = None) -> Follower:
        return Follower(of or link(), self._tell, options, self, own=lambda: self.used, doubt_s=0.0)

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


async def _topics(_link: Link) -> Topics:
    ours, theirs = ({topic: 1 for topic, _ in MemoryCluster.logs[place]} for place in ("source", "target"))
    return Topics(ours, theirs, [])


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


STREAM = [each._replace(timestamp=NOW + number) for number, each in enumerate(some_records(3, 460, size=20))]
STRANGER = STREAM[0]._replace(key=b"nobody", value=b"stranger", timestamp=NOW - 5)


def write(place: str, records: list[Plain], producer_id: int = 5) -> None:
    """Topic `a` gets these, behind what it has."""
    log = MemoryCluster.logs[place]["a" if place == "source" else "A.a", 0].log
    log.batches += packed(numbered(records, log.end), producer_id=producer_id, producer_epoch=1)


def copied_before(count: int, rig: Rig) -> None:
    for place in ("source", "target"):
        for key in list(MemoryCluster.logs[place]):
            MemoryCluster.logs[place][key] = MemoryPeek(place, [], at_once=50)
        write(place, STREAM[:count])
    rig.positions = {("a", 0): count - 1} if count else {}


def stranger_comes(rig: Rig, first: int) -> Callable[[], None]:
    """A stranger on the target, and twenty copied records behind it."""

    def deed() -> None:
        write("target", [STRANGER])
        for place in ("source", "target"):
            write(place, STREAM[first : first + 20])
        rig.at(a=first + 19)()

    return deed


def settled(follower: Follower, count: int) -> Callable[[], bool]:
    names = ("compared", "counted", "passed")
    return lambda: sum(follower.report.total(name) for name in names) >= count


def told(rig: Rig) -> list[tuple[Kind, tuple[int, int] | None, tuple[int, int] | None]]:
    return [(fault.kind, fault.source, fault.target) for _, fault in rig.faults]


@pytest.mark.parametrize("options", [WHOLE, FollowOptions(cpu_share=1.0)], ids=["whole", "samples"])
@pytest.mark.parametrize("count", [0, 1, 120])
async def test_a_stranger_that_comes_first_to_a_link_at_rest_is_named(
    rig: Rig, count: int, options: FollowOptions
) -> None:
    copied_before(count, rig)
    follower = rig.follower(options)
    await rig.while_running(
        follower,
        (lambda: None, rig.some_rounds()),
        (stranger_comes(rig, count), settled(follower, 20)),
    )
    assert told(rig) == [(Kind.FOREIGN, None, (count, count))]
    assert (follower.report.outcome, follower.report.total("unaccounted")) == (1, 0)


async def test_the_marker_of_the_last_transaction_is_nothing_that_is_waiting(rig: Rig) -> None:
    copied_before(120, rig)
    marker = STREAM[0]._replace(offset=120, key=b"\0\0\0\1", value=b"\0" * 6)
    log = MemoryCluster.logs["source"]["a", 0].log
    log.batches.append(patched(encode([marker]), attributes=0x30, producer_id=7, producer_epoch=0))
    follower = rig.follower()
    await rig.while_running(
        follower, (lambda: None, rig.some_rounds()), (stranger_comes(rig, 121), settled(follower, 20))
    )
    assert told(rig) == [(Kind.FOREIGN, None, (120, 120))]


async def test_what_is_missing_first_behind_a_link_at_rest_is_named(rig: Rig) -> None:
    def one_is_left_out() -> None:
        write("source", STREAM[120:140])
        write("target", STREAM[121:140])
        rig.at(a=139)()

    copied_before(120, rig)
    follower = rig.follower()
    await rig.while_running(follower, (lambda: None, rig.some_rounds()), (one_is_left_out, settled(follower, 20)))
    assert told(rig) == [(Kind.MISSING, (120, 120), None)]


async def test_a_stranger_that_comes_first_to_an_empty_copy_is_named_though_much_is_waiting(rig: Rig) -> None:
    def stranger_and_all() -> None:
        write("target", [STRANGER, *STREAM[:120]])
        rig.at(a=119)()

    copied_before(0, rig)
    write("source", STREAM[:120])
    follower = rig.follower()
    await rig.while_running(follower, (lambda: None, rig.some_rounds()), (stranger_and_all, compared(follower, 120)))
    assert told(rig) == [(Kind.FOREIGN, None, (0, 0))]


async def test_a_stranger_in_a_topic_that_is_made_later_is_named(rig: Rig) -> None:
    copied_before(0, rig)
    empty = {place: dict(logs) for place, logs in MemoryCluster.logs.items()}

    def made() -> None:
        MemoryCluster.logs.update(empty)
        stranger_comes(rig, 0)()

    MemoryCluster.logs.update(source={}, target={})
    follower = rig.follower()
    await rig.while_running(follower, (lambda: None, rig.some_rounds()), (made, compared(follower, 20)))
    assert told(rig) == [(Kind.FOREIGN, None, (0, 0))]


async def test_a_stranger_that_comes_before_the_records_of_a_source_topic_made_again_is_named(rig: Rig) -> None:
    copied_before(22, rig)
    MemoryCluster.ids = {("source", "a"): b"1", ("target", "A.a"): b"1"}

    def made_again() -> None:
        MemoryCluster.ids["source", "a"] = b"2"
        MemoryCluster.logs["source"]["a", 0].log.batches.clear()

    def stranger_and_more() -> None:
        write("target", [STRANGER])
        for place in ("source", "target"):
            write(place, STREAM[200:220])
        rig.at(a=19)()

    follower = rig.follower()
    await rig.while_running(
        follower,
        (lambda: None, rig.some_rounds()),
        (made_again, lambda: bool(rig.notices)),
        (lambda: None, rig.some_rounds()),
        (stranger_and_more, compared(follower, 20)),
    )
    assert told(rig) == [(Kind.FOREIGN, None, (22, 22))]


@pytest.mark.parametrize("options", [WHOLE, FollowOptions(cpu_share=1.0)], ids=["whole", "samples"])
@pytest.mark.parametrize("again", [0, 100, 119])
async def test_what_a_restart_repeats_first_behind_a_link_at_rest_is_no_fault(
    rig: Rig, again: int, options: FollowOptions
) -> None:
    def restarted() -> None:
        write("source", STREAM[120:140])
        write("target", STREAM[again:140], producer_id=6)
        rig.at(a=139)()

    copied_before(120, rig)
    follower = rig.follower(options)
    await rig.while_running(follower, (lambda: None, rig.some_rounds()), (restarted, settled(follower, 20)))
    assert (told(rig), follower.report.total("unaccounted"), follower.report.outcome) == ([], 0, 0)


@pytest.mark.parametrize("lag", range(3))
@pytest.mark.parametrize("question", range(1, 8))
@pytest.mark.parametrize("count", [0, 120])
async def test_a_record_that_is_copied_while_it_is_asked_where_the_logs_end_is_no_fault(
    rig: Rig, count: int, question: int, lag: int
) -> None:
    copied_before(count, rig)
    at = {"source": question, "target": question + lag}
    asked = 0

    def meanwhile() -> None:
        nonlocal asked
        asked += 1
        for place, when in at.items():
            if asked == when:
                write(place, STREAM[count : count + 3])

    def more() -> None:
        MemoryCluster.asked = staticmethod(lambda: None)
        for place, when in at.items():
            write(place, STREAM[count + (3 if asked >= when else 0) : count + 20])
        rig.at(a=count + 19)()

    MemoryCluster.asked = staticmethod(meanwhile)
    follower = rig.follower()
    await rig.while_running(follower, (lambda: None, rig.some_rounds()), (more, compared(follower, 20)))
    assert (told(rig), follower.report.total("unaccounted"), follower.report.outcome) == ([], 0, 0)


async def test_where_a_transaction_hides_what_is_copied_nothing_is_called_foreign(rig: Rig) -> None:
    def shown() -> None:
        MemoryCluster.hidden = 0
        for place in ("source", "target"):
            write(place, STREAM[120:140])
        rig.at(a=139)()

    copied_before(120, rig)
    MemoryCluster.hidden = 10
    follower = rig.follower()
    await rig.while_running(follower, (lambda: None, rig.some_rounds()), (shown, compared(follower, 20)))
    assert (told(rig), follower.report.outcome) == ([], 0)


async def test_where_the_link_begins_anywhere_what_it_leaves_out_is_no_fault(rig: Rig) -> None:
    def the_last_ones() -> None:
        write("target", STREAM[100:120])
        rig.at(a=119)()

    copied_before(0, rig)
    write("source", STREAM[:120])
    cluster = {"bootstrap.servers": "nowhere:1"}
    settings = {"topics": "[ab]", "source.cluster.alias": "A"}
    latest = described_link(source={**cluster, "auto.offset.reset": "latest"}, target=cluster, settings=settings)
    follower = rig.follower(of=latest)
    await rig.while_running(follower, (lambda: None, rig.some_rounds()), (the_last_ones, compared(follower, 20)))
    assert (told(rig), follower.report.total("unaccounted")) == ([], 0)


async def test_a_stranger_that_comes_while_records_are_in_flight_is_counted_as_unaccounted(rig: Rig) -> None:
    def stranger_and_the_rest() -> None:
        write("target", [STRANGER, *STREAM[120:140]])
        rig.at(a=139)()

    copied_before(120, rig)
    write("source", STREAM[120:140])
    follower = rig.follower()
    await rig.while_running(
        follower, (lambda: None, rig.some_rounds()), (stranger_and_the_rest, compared(follower, 20))
    )
    assert (told(rig), follower.report.total("unaccounted")) == ([], 1)


async def test_a_stranger_that_comes_first_where_the_link_begins_anywhere_is_counted_as_unaccounted(rig: Rig) -> None:
    copied_before(0, rig)
    cluster = {"bootstrap.servers": "nowhere:1"}
    settings = {"topics": "[ab]", "source.cluster.alias": "A"}
    latest = described_link(source={**cluster, "auto.offset.reset": "latest"}, target=cluster, settings=settings)
    follower = rig.follower(of=latest)
    await rig.while_running(
        follower, (lambda: None, rig.some_rounds()), (stranger_comes(rig, 0), compared(follower, 20))
    )
    assert (told(rig), follower.report.total("unaccounted")) == ([], 1)
