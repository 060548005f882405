"""Commits of a source's positions: when they are made, and what becomes of refused ones."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from mirror_connect.app.mirror_maker import offset_commits
from mirror_connect.app.mirror_maker.offset_commits import OffsetCommits
from mirror_connect.app.mirror_maker.positions import Positions
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.group_membership import CoordinatorLost, MembershipLost, RebalanceNeeded
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from tests.fakes.simulated_time import run_simulated

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
DENIED = int(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
GONE = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


class Rig:
    """Commits of two partitions that stand at 40 and 7, by a member that answers what a test sets."""

    def __init__(self) -> None:
        self.positions = Positions()
        self.positions.assign([T0, T1], {T0: 40, T1: 7})
        self.went_back = asyncio.Event()
        self.sent: list[tuple[float, Mapping[TopicPartition, int]]] = []
        self.refused: dict[TopicPartition, int] = {}
        self.errors: list[Exception] = []
        self.aborted: list[str] = []
        self.commits = OffsetCommits(
            "g", self.positions, self, went_back=self.went_back, interval_s=60.0, aborted=self.aborted.append
        )

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        if self.errors:
            raise self.errors.pop(0)
        self.sent.append((asyncio.get_running_loop().time(), offsets))
        return {partition: code for partition, code in self.refused.items() if partition in offsets}

    async def run_until(self, seconds: float) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout_at(seconds):
                await self.commits.run()


def test_what_has_changed_is_committed_in_each_interval_and_nothing_else() -> None:
    async def run() -> None:
        rig = Rig()
        asyncio.get_running_loop().call_at(10.0, rig.positions.copied, T0, 44)
        await rig.run_until(200.0)
        assert rig.sent == [(60.0, {T0: 45})]

    run_simulated(run())


def test_a_position_that_goes_back_is_committed_at_once_and_again_until_the_coordinator_answers() -> None:
    async def run() -> None:
        rig = Rig()
        rig.errors = [CoordinatorLost("away")] * 2
        rig.positions.copied(T0, -1)
        asyncio.get_running_loop().call_at(10.0, rig.went_back.set)
        await rig.run_until(50.0)
        ((at, offsets),) = rig.sent
        assert (at, offsets) == (pytest.approx(10.0 + 2 * offset_commits.COMMIT_AGAIN_S), {T0: 0})

    run_simulated(run())


def test_a_rebalance_keeps_no_later_commit_back_and_a_lost_membership_ends_them() -> None:
    async def run() -> None:
        rig = Rig()
        rig.errors = [RebalanceNeeded()]
        rig.positions.copied(T0, 44)
        await rig.run_until(130.0)
        assert rig.sent == [(120.0, {T0: 45})]
        rig.errors = [MembershipLost()]
        rig.positions.copied(T0, 50)
        with pytest.raises(MembershipLost):
            await rig.commits.run()

    run_simulated(run())


def test_what_is_refused_is_committed_again_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        rig = Rig()
        rig.refused = {T0: DENIED}
        rig.positions.copied(T0, 44)
        rig.positions.copied(T1, 9)
        assert [await rig.commits.once() for _ in range(3)] == [True] * 3
        assert [offsets for _, offsets in rig.sent] == [{T0: 45, T1: 10}, {T0: 45}, {T0: 45}]
        assert rig.aborted == []

    run_simulated(run())
    assert len(caplog.messages) == 1


def test_the_process_ends_when_the_group_may_have_no_offset_at_all() -> None:
    async def run() -> None:
        rig = Rig()
        rig.refused = {T0: DENIED, T1: DENIED}
        rig.positions.copied(T0, 44)
        rig.positions.copied(T1, 9)
        await rig.commits.once()
        (line,) = rig.aborted
        assert line.endswith("grant READ on topic t to the source user")

    run_simulated(run())


def test_an_offset_of_a_topic_that_is_gone_is_nothing_to_tell(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        rig = Rig()
        rig.refused = {T0: GONE}
        rig.positions.copied(T0, 44)
        assert await rig.commits.once()

    run_simulated(run())
    assert caplog.messages == []
