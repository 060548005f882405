from __future__ import annotations

import asyncio

import pytest

from mirror_connect.kafka_io.client.group_membership import (
    CoordinatorLost,
    RebalanceNeeded,
)
from tests.fakes.group_steps import (
    member,
    sharing,
    until,
)


async def test_lease_counts_from_before_the_heartbeat_was_sent() -> None:
    async with member() as it:
        it.group.one_at_a_time = True
        it.group.answering.clear()
        await asyncio.sleep(0.02)
        it.clock.now += 3
        it.group.answering.set()
        beats = it.group.beats
        await it.until(lambda: it.group.beats > beats)
        assert it.membership.lease_remaining() == 5.0


async def test_heartbeats_renew_the_lease_without_news() -> None:
    async with member() as it:
        it.clock.now += 5
        await it.until(lambda: it.membership.lease_remaining() == 8.0)
        assert len(it.heard) == 1


async def test_a_worker_whose_heartbeats_are_not_answered_says_so() -> None:
    async with member() as it:
        it.group.answering.clear()
        await asyncio.sleep(0.02)
        it.clock.now += 10.1
        silence = it.membership.silence
        assert silence is not None
        assert silence.why == "its heartbeats get no answer"
        it.group.answering.set()


async def test_a_member_that_waits_for_the_others_keeps_its_lease_and_is_not_steady() -> None:
    async with sharing() as (membership, group, _, clock):
        assert membership.steady
        group.until_joined.clear()
        group.beat_failures = [RebalanceNeeded()] * 1_000_000
        await until(lambda: len(group.told) == 2)
        for _ in range(10):
            clock.now += 5.0
            beats = len(group.beaten)
            await until(lambda beats=beats: len(group.beaten) > beats + 1)
            assert membership.runs_for() == 8.0
        assert not membership.steady
        # Then the group may go on without it.
        clock.now += 7.0
        beats = len(group.beaten)
        await until(lambda: len(group.beaten) > beats + 1)
        assert membership.runs_for() == pytest.approx(1.0)
        group.beat_failures = []
        group.until_joined.set()
        await until(lambda: membership.steady)
        assert membership.generation == 2


async def test_a_lost_coordinator_ends_the_wait_for_an_answer() -> None:
    async with sharing() as (membership, group, _, _):
        group.until_joined.clear()
        group.beat_failures = [RebalanceNeeded(), CoordinatorLost("gone")]
        await until(lambda: len(group.told) == 3)
        group.until_joined.set()
        await until(lambda: membership.generation == 3)
