"""How long a worker may still write: a message is sent only while its time limit ends before the lease does."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.connectors.errors import LeaseOver
from mirror_connect.kafka_io.client.worker_lease import WorkerLease


@pytest.mark.parametrize(
    ("full_s", "limit_s"),
    [
        pytest.param(10.0, 5.0, id="half_of_the_lease"),
        pytest.param(0.2, 0.5, id="never_so_short_that_librdkafka_takes_it_for_no_limit"),
    ],
)
def test_a_message_has_half_of_the_lease(full_s: float, limit_s: float) -> None:
    assert WorkerLease(lambda: full_s, full_s).message_timeout_s == limit_s


async def test_a_lease_that_lasts_for_a_message_lets_it_go_at_once() -> None:
    await asyncio.wait_for(WorkerLease(lambda: 5.0, 10.0).enough_for_a_message(), 0.04)


async def test_too_short_a_lease_waits_for_the_next_heartbeat() -> None:
    left = iter([4.9, 4.8, 10.0])
    await WorkerLease(lambda: next(left), 10.0).enough_for_a_message()
    assert list(left) == []


@pytest.mark.parametrize("end", [0.0, -3.0])
async def test_a_lease_that_ends_while_waiting_is_an_error(end: float) -> None:
    left = iter([4.9, end])
    with pytest.raises(LeaseOver):
        await WorkerLease(lambda: next(left), 10.0).enough_for_a_message()
