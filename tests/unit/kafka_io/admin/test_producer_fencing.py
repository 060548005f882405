"""Transactional ids are fenced whatever the coordinator answers first, and a missing right is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, LeaseOver, NotAuthorized
from mirror_connect.connectors.rights import MissingRight
from mirror_connect.kafka_io.admin.producer_fencing import fence_producers
from mirror_connect.kafka_io.client.connection import ConnectionLost, UnsupportedByBroker
from mirror_connect.kafka_io.client.worker_lease import lease_over
from mirror_connect.kafka_io.protocol.codec import Writer
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode
from mirror_connect.kafka_io.protocol.producer_ids import InitProducerId, InitProducerIdResponse


@dataclass
class Coordinator:
    """A cluster whose coordinator answers with these errors in turn, by transactional id; then without."""

    answers: dict[str, list[int | Exception]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    async def coordinator(self, kind: str, key: str, user: str) -> int:
        assert (kind, user) == ("transaction", "somebody")
        return 7

    async def send(self, node_id: int, request: InitProducerId) -> InitProducerIdResponse:
        assert node_id == 7
        request.encode(4, Writer(flexible=True))
        name = request.transactional_id or ""
        self.asked.append(name)
        answer = self.answers[name].pop(0) if self.answers.get(name) else ErrorCode.NONE
        if isinstance(answer, Exception):
            raise answer
        return InitProducerIdResponse(0, answer, 1, 2)


async def fenced(
    cluster: Coordinator, *ids: str, seconds: float = 5.0, check: Callable[[], None] | None = None
) -> None:
    connected: Any = cluster
    await fence_producers(connected, ids, seconds, user="somebody", before_write=check)


async def test_every_id_is_fenced() -> None:
    cluster = Coordinator()
    await fenced(cluster, *(f"g-c-{number}" for number in range(40)))
    assert sorted(cluster.asked) == sorted(f"g-c-{number}" for number in range(40))


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(ErrorCode.CONCURRENT_TRANSACTIONS, id="the_open_transaction_is_being_aborted"),
        pytest.param(ErrorCode.NOT_COORDINATOR, id="moved"),
        pytest.param(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, id="loading"),
        pytest.param(ConnectionLost("gone"), id="lost"),
        pytest.param(ClusterUnreachable("away"), id="away"),
    ],
)
async def test_it_is_asked_again_until_it_is_done(answer: int | Exception) -> None:
    cluster = Coordinator({"g-c-0": [answer, answer]})
    await fenced(cluster, "g-c-0")
    assert cluster.asked == ["g-c-0"] * 3


async def test_what_is_not_fenced_in_time_is_named_with_the_reason() -> None:
    cluster = Coordinator({"g-c-1": [ErrorCode.CONCURRENT_TRANSACTIONS] * 99})
    with pytest.raises(
        ClusterUnreachable, match=r"^1 transactional id not fenced in 0\.1 s, g-c-1 among them: CONCURRENT"
    ):
        await fenced(cluster, "g-c-0", "g-c-1", seconds=0.1)


async def test_a_missing_right_names_the_id_and_the_right() -> None:
    cluster = Coordinator({"g-c-0": [ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED]})
    with pytest.raises(MissingRight, match="g-c-0: grant WRITE and DESCRIBE on transactional id g-c-0 to somebody"):
        await fenced(cluster, "g-c-0")


async def test_any_other_refusal_ends_it() -> None:
    with pytest.raises(NotAuthorized, match=r"g-c-0 can't be fenced: INVALID_REQUEST \(42\)"):
        await fenced(Coordinator({"g-c-0": [ErrorCode.INVALID_REQUEST]}), "g-c-0")


async def test_a_broker_without_transactions_is_named_with_the_setting() -> None:
    cluster = Coordinator(
        {"g-c-0": [UnsupportedByBroker("broker a:1 supports InitProducerId v0, this client v3 to v4")]}
    )
    with pytest.raises(ConfigError, match=r"configuration exactly\.once\.source\.support: broker a:1 supports"):
        await fenced(cluster, "g-c-0")


async def test_nothing_is_fenced_without_the_lease() -> None:
    def refuse() -> None:
        raise lease_over()

    cluster = Coordinator()
    with pytest.raises(LeaseOver):
        await fenced(cluster, "g-c-0", check=refuse)
    assert cluster.asked == []
