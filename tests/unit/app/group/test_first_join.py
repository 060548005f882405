from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from mirror_connect.app.group.membership import Membership
from mirror_connect.connectors.errors import ClusterUnreachable, GroupRefusedError, NotAuthorized
from mirror_connect.kafka_io.client.group_membership import (
    CoordinatorLost,
    HeldByOthers,
)
from tests.fakes.group_steps import (
    URL,
    Clock,
    FakeGroup,
    asked_again,
    until,
)


@pytest.mark.parametrize("error", [GroupRefusedError("group.id g is in use"), NotAuthorized("no")])
async def test_refused_join_is_told_to_the_caller(error: Exception) -> None:
    group = FakeGroup(join_failures=[error])
    membership = Membership(group, URL, group_id="g", session_timeout_ms=10_000, heartbeat_interval_ms=5)
    with pytest.raises(type(error), match=str(error)):
        await membership.join()
    await membership.leave()
    assert group.left == []


@asynccontextmanager
async def joining_beside_others(session_ms: int) -> AsyncIterator[tuple[FakeGroup, Clock, asyncio.Task[None]]]:
    """A worker that has come to a group of others, and waits."""
    group, clock = FakeGroup(), Clock()
    group.held = True
    membership = Membership(
        group, URL, group_id="g", session_timeout_ms=session_ms, heartbeat_interval_ms=5, clock=clock
    )
    joining = asyncio.create_task(membership.join(timeout=1.0))
    await until(lambda: len(group.joins) > 1)
    try:
        yield group, clock, joining
    finally:
        joining.cancel()
        await asyncio.gather(joining, return_exceptions=True)
        await membership.leave()


async def test_a_dead_member_of_another_kind_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async with joining_beside_others(30_000) as (group, clock, joining):
        clock.now += 30.0
        await asked_again(group)
        group.held = False
        async with asyncio.timeout(60):
            await joining
    assert [line for line in caplog.messages if "(33 s)" in line and "waits until" in line] == caplog.messages[:1]


async def test_a_member_of_another_kind_that_stays_for_longer_than_a_session_refuses_us() -> None:
    async with joining_beside_others(30_000) as (group, clock, joining):
        clock.now += 33.1
        async with asyncio.timeout(60):
            with pytest.raises(HeldByOthers, match=r"is in use: stop them \(this worker waited 33 s"):
                await joining
        assert group.generation == 0


async def test_a_coordinator_that_is_lost_while_others_are_waited_for_is_tried_again() -> None:
    async with joining_beside_others(30_000) as (group, clock, joining):
        clock.now += 20.0
        await asked_again(group)
        group.join_failures = [CoordinatorLost("moved")]
        await until(lambda: not group.join_failures)
        group.held = False
        async with asyncio.timeout(60):
            await joining
        assert group.generation == 1


async def test_another_coordinator_gives_a_dead_member_its_session_anew() -> None:
    async with joining_beside_others(30_000) as (group, clock, joining):
        clock.now += 20.0
        await asked_again(group)
        group.join_failures = [CoordinatorLost("moved")]
        await until(lambda: not group.join_failures)
        await asked_again(group)
        clock.now += 20.0
        await asked_again(group, 2)
        group.held = False
        async with asyncio.timeout(60):
            await joining
        assert group.generation == 1


@pytest.mark.parametrize(
    ("topics", "shown"),
    [
        pytest.param(["a", "b"], ["group.id=g is also a consumer group with committed offsets in a, b. "], id="few"),
        pytest.param(["a", "b", "c", "d"], ["committed offsets in a, b, c, …. The broker refuses"], id="many"),
        pytest.param([], [], id="no_consumer_group"),
        pytest.param(NotAuthorized("no"), [], id="not_to_be_known"),
    ],
)
async def test_the_name_of_a_consumer_group_is_taken_with_a_warning(
    caplog: pytest.LogCaptureFixture, topics: list[str] | Exception, shown: list[str]
) -> None:
    membership = Membership(
        FakeGroup(consumed=topics), URL, group_id="g", session_timeout_ms=10_000, heartbeat_interval_ms=5
    )
    await membership.join()
    await membership.leave()
    lines = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [part in line for part, line in zip(shown, lines, strict=True)] == [True] * len(shown)


async def test_join_without_any_coordinator_gives_up_in_time() -> None:
    group = FakeGroup(join_failures=[CoordinatorLost("no broker answers")] * 9)
    membership = Membership(group, URL, group_id="g", session_timeout_ms=10_000, heartbeat_interval_ms=5)
    with pytest.raises(ClusterUnreachable, match="no broker answers"):
        await membership.join(timeout=0.5)
    await membership.leave()
