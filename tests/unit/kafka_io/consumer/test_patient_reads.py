"""Readers of a few offsets wait for leaders, restarted brokers and quotas, and tell everything else in one line."""

from __future__ import annotations

from typing import Any, cast

import pytest

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import UnsupportedByBroker
from mirror_connect.kafka_io.consumer import patient_reads
from mirror_connect.kafka_io.consumer.patient_reads import PatientReads
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from mirror_connect.kafka_io.protocol.fetch import Fetch, FetchedPartition, FetchResponse
from mirror_connect.kafka_io.protocol.log_offsets import EARLIEST, LATEST
from tests.fakes.source_cluster import FakeSource

KEY = TopicPartition("t", 0)


class Refused(Exception):
    """What the reader's user raises."""


class Source(FakeSource):
    """A topic of one partition with thirty records. `first`: answers or errors that come before its own."""

    def __init__(self, *first: FetchResponse | Exception) -> None:
        super().__init__()
        self.first = list(first)
        self.log("t", batches=3)

    async def send(self, node: int, request: Any, *, purpose: str = "control") -> Any:
        if isinstance(request, Fetch) and self.first:
            answer = self.first.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return answer
        return await super().send(node, request, purpose=purpose)


def throttled(*parts: FetchedPartition) -> FetchResponse:
    return FetchResponse(20, 0, 0, list(parts), 10)


def part(offset: int, error: int = 0) -> FetchedPartition:
    """Without records, of a log that ends at this offset."""
    return FetchedPartition("t", 0, error, offset, -1, 0, (), -1, memoryview(b""))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patient_reads, "_RETRY_S", 0.001)


async def reads(source: FakeSource, patience_s: float = 60.0) -> PatientReads:
    await source.refresh({"t"})
    return PatientReads(cast("Cluster", source), "source", Refused, patience_s=patience_s)


async def fetched(source: FakeSource, offset: int = 0, patience_s: float = 60.0) -> FetchedPartition:
    found = await reads(source, patience_s)
    return await found.fetch(KEY, offset, 1 << 20, committed=False, purpose="fetch")


@pytest.mark.parametrize(
    "answer",
    [pytest.param(throttled(), id="no_partition"), pytest.param(throttled(part(30)), id="none_of_its_records")],
)
async def test_a_broker_that_throttles_has_not_said_that_the_log_ends(answer: FetchResponse) -> None:
    # It throttles for longer than the patience with a cluster that does not answer.
    source = Source(answer, answer)
    assert len((await fetched(source, patience_s=0.01)).records) == 300
    assert source.first == []


async def test_the_end_is_the_end_by_a_broker_that_throttles() -> None:
    source = Source(throttled(part(30)))
    assert (await fetched(source, 30)).high_watermark == 30
    assert source.fetches == []


async def test_what_retention_took_is_told_to_the_caller() -> None:
    assert (await fetched(Source(), 31)).error == ErrorCode.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize(
    "first",
    [
        pytest.param(FetchResponse(0, 0, 0, [part(-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)], 10), id="its_leader_moves"),
        pytest.param(UnsupportedByBroker("Fetch"), id="a_broker_of_another_release"),
    ],
)
async def test_leaders_are_looked_up_before_it_is_asked_again(first: FetchResponse | Exception) -> None:
    source = Source(first)
    assert len((await fetched(source)).records) == 300
    assert source.refreshes == 2


async def test_a_cluster_that_does_not_answer_is_given_up() -> None:
    source = Source()
    found = await reads(source, 0.01)
    source.down = {1}
    with pytest.raises(Refused, match="the source cluster does not answer: broker fake:1: Connection refused"):
        await found.fetch(KEY, 0, 100, committed=False, purpose="fetch")
    with pytest.raises(Refused, match="the source cluster does not answer"):
        await found.offsets({KEY: LATEST}, committed=False)


async def test_a_partition_without_a_leader_is_named() -> None:
    gone = TopicPartition("gone", 0)
    with pytest.raises(Refused, match="partition gone-0 of the source cluster has no leader"):
        await (await reads(Source(), 0.01)).offsets({gone: LATEST}, committed=False)


@pytest.mark.parametrize(
    ("first", "told"),
    [
        (
            FetchResponse(0, 0, 0, [part(-1, ErrorCode.TOPIC_AUTHORIZATION_FAILED)], 10),
            "partition t-0 of the source cluster can't be read: .*grant READ on topic t to the source user",
        ),
        (
            FetchResponse(0, 0, 0, [part(-1, ErrorCode.UNKNOWN_SERVER_ERROR)], 10),
            "partition t-0 of the source cluster can't be read: UNKNOWN_SERVER_ERROR",
        ),
        (NotAuthorized("login refused"), "the source cluster: login refused"),
    ],
)
async def test_what_no_waiting_mends_is_told_at_once(first: FetchResponse | Exception, told: str) -> None:
    with pytest.raises(Refused, match=told):
        await fetched(Source(first))


async def test_offsets_of_a_leader_that_lags_behind_are_asked_for_again() -> None:
    source = Source()
    source.log("u", batches=1)
    asked = {KEY: EARLIEST, TopicPartition("u", 0): LATEST}
    found = await (await reads(source)).offsets(asked, committed=False)
    assert found == {KEY: 0, TopicPartition("u", 0): 10}
    assert source.refreshed == [{"t"}, {"t", "u"}]
