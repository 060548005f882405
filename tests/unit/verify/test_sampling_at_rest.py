"""After a link was at rest, the target's first record is a copy, a repeat, or reported as a fault."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mirror_connect.verify.findings import Kind
from mirror_connect.verify.link import described_link
from mirror_connect.verify.sampling import SamplingOptions, SamplingVerifier
from tests.fakes.encoded_batches import NOW, Plain, encode, patched, some_records
from tests.fakes.partition_logs import numbered, packed
from tests.fakes.peeked_logs import MemoryPeek
from tests.fakes.sampling_rig import WHOLE, MemoryCluster, Rig, compared


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


STREAM = [each._replace(timestamp=NOW + number) for number, each in enumerate(some_records(3, 460, size=20))]


STRANGER = STREAM[0]._replace(key=b"nobody", value=b"stranger", timestamp=NOW - 5)


def write(role: str, records: list[Plain], producer_id: int = 5) -> None:
    """Topic `a` gets these, behind what it has."""
    log = MemoryCluster.logs[role]["a" if role == "source" else "A.a", 0].log
    log.batches += packed(numbered(records, log.end), producer_id=producer_id, producer_epoch=1)


def copied_before(count: int, rig: Rig) -> None:
    for role in ("source", "target"):
        for key in list(MemoryCluster.logs[role]):
            MemoryCluster.logs[role][key] = MemoryPeek(role, [], at_once=50)
        write(role, STREAM[:count])
    rig.positions = {("a", 0): count - 1} if count else {}


def stranger_comes(rig: Rig, first: int) -> Callable[[], None]:
    """A stranger on the target, and twenty copied records behind it."""

    def deed() -> None:
        write("target", [STRANGER])
        for role in ("source", "target"):
            write(role, STREAM[first : first + 20])
        rig.at(a=first + 19)()

    return deed


def settled(follower: SamplingVerifier, count: int) -> Callable[[], bool]:
    names = ("compared", "counted", "passed")
    return lambda: sum(follower.report.total(name) for name in names) >= count


def told(rig: Rig) -> list[tuple[Kind, tuple[int, int] | None, tuple[int, int] | None]]:
    return [(fault.kind, fault.source, fault.target) for _, fault in rig.faults]


@pytest.mark.parametrize("options", [WHOLE, SamplingOptions(cpu_share=1.0)], ids=["whole", "samples"])
@pytest.mark.parametrize("count", [0, 1, 120])
async def test_a_stranger_that_comes_first_to_a_link_at_rest_is_named(
    rig: Rig, count: int, options: SamplingOptions
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
    empty = {role: dict(logs) for role, logs in MemoryCluster.logs.items()}

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
        for role in ("source", "target"):
            write(role, STREAM[200:220])
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


@pytest.mark.parametrize("options", [WHOLE, SamplingOptions(cpu_share=1.0)], ids=["whole", "samples"])
@pytest.mark.parametrize("again", [0, 100, 119])
async def test_what_a_restart_repeats_first_behind_a_link_at_rest_is_no_fault(
    rig: Rig, again: int, options: SamplingOptions
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
        for role, when in at.items():
            if asked == when:
                write(role, STREAM[count : count + 3])

    def more() -> None:
        MemoryCluster.asked = staticmethod(lambda: None)
        for role, when in at.items():
            write(role, STREAM[count + (3 if asked >= when else 0) : count + 20])
        rig.at(a=count + 19)()

    MemoryCluster.asked = staticmethod(meanwhile)
    follower = rig.follower()
    await rig.while_running(follower, (lambda: None, rig.some_rounds()), (more, compared(follower, 20)))
    assert (told(rig), follower.report.total("unaccounted"), follower.report.outcome) == ([], 0, 0)


async def test_where_a_transaction_hides_what_is_copied_nothing_is_called_foreign(rig: Rig) -> None:
    def shown() -> None:
        MemoryCluster.hidden = 0
        for role in ("source", "target"):
            write(role, STREAM[120:140])
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
