"""Sampling verification of a whole link: its partitions, their first offsets, and unreachable clusters."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.sampling import SamplingOptions
from tests.fakes.sampling_rig import MemoryCluster, Rig, compared


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


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
        "a-0: not verified now: the target cluster does not answer; trying again",
        "a-0: verified again",
    ]
    assert (follower.report.problems, follower.report.faults) == ({}, 0)


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
    assert rig.notices[1] == "the worker reports source offsets again"


async def test_what_cannot_be_followed_at_all_is_an_error(rig: Rig) -> None:
    rig.positions = None
    with pytest.raises(CannotCompareError, match="no longer has this connector"):
        await rig.follower().run()


@pytest.mark.parametrize("role", ["source", "target"])
async def test_another_topic_under_the_name_is_told_and_verified(rig: Rig, role: str) -> None:
    MemoryCluster.ids = {("source", "a"): b"1", ("target", "A.a"): b"1"}

    def made_again() -> None:
        MemoryCluster.ids[role, "a" if role == "source" else "A.a"] = b"2"

    follower = rig.follower()
    later = compared(follower, 300 if role == "source" else 400)
    await rig.while_running(
        follower,
        (rig.at(a=-1), rig.some_rounds()),
        (rig.at(a=199), compared(follower, 200)),
        (made_again, lambda: bool(rig.notices)),
        (rig.at(a=99 if role == "source" else 399), later),
    )
    name = "source topic a" if role == "source" else "target topic A.a"
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
    follower = rig.follower(SamplingOptions(cpu_share=0.05))

    def spent() -> None:
        rig.used = 100.0
        rig.at(a=399, b=399)()

    await rig.while_running(follower, (rig.at(a=-1, b=-1), rig.some_rounds()), (spent, rig.some_rounds()))
    assert (follower.report.copied, follower.report.total("compared"), follower.report.outcome) == (800, 0, 2)
