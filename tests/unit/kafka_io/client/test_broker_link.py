"""A link to one broker: it connects again, waits while throttled, and repeats nothing out of order."""

from __future__ import annotations

import asyncio
import struct

import pytest

from mirror_connect.kafka_io.client.broker_link import BrokerLink
from mirror_connect.kafka_io.client.client_settings import ConnectionSettings
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.protocol.metadata import FindCoordinator
from tests.fakes.scripted_broker import broker, coordinator


def link_to(port: int) -> BrokerLink:
    settings = ConnectionSettings((("127.0.0.1", port),), "test", reconnect_backoff_ms=1)
    return BrokerLink("127.0.0.1", port, settings)


async def test_requests_behind_a_lost_one_do_not_overtake_its_repetition() -> None:
    seen: list[bytes] = []

    async def answer(_: int, body: bytes) -> bytes | None:
        seen.append(body)
        return None if len(seen) == 1 else coordinator(1)

    async with broker(answer) as port:
        link = link_to(port)
        tasks = [asyncio.create_task(link.send(FindCoordinator(f"{n}", 0))) for n in range(4)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionLost] * 4
        assert (await link.send(FindCoordinator("0", 0))).node_id == 1
        link.close()


async def test_after_a_throttled_answer_the_next_request_waits() -> None:
    times: list[float] = []

    async def answer(_: int, __: bytes) -> bytes:
        times.append(asyncio.get_running_loop().time())
        return struct.pack(">i", 300) + coordinator(1)[4:]

    async with broker(answer) as port:
        link = link_to(port)
        await link.send(FindCoordinator("g", 0))
        await link.send(FindCoordinator("g", 0))
        # Not a speed claim: the lower bound is what the broker asked for.
        assert times[1] - times[0] >= 0.29
        link.close()


async def test_a_link_connects_again_after_the_broker_hung_up() -> None:
    calls = 0

    async def answer(_: int, __: bytes) -> bytes | None:
        nonlocal calls
        calls += 1
        return None if calls == 1 else coordinator(7)

    async with broker(answer) as port:
        link = link_to(port)
        with pytest.raises(ConnectionLost):
            await link.send(FindCoordinator("g", 0))
        assert (await link.send(FindCoordinator("g", 0))).node_id == 7
        link.close()


async def test_a_closed_link_loses_what_is_in_flight() -> None:
    async def answer(_: int, __: bytes) -> bytes:
        await asyncio.sleep(60)
        return b""

    async with broker(answer) as port:
        link = link_to(port)
        sent = asyncio.create_task(link.send(FindCoordinator("g", 0)))
        while not link.is_busy or not link.is_open:
            await asyncio.sleep(0.001)
        link.close()
        with pytest.raises(ConnectionLost, match="closed by this side"):
            await sent


async def test_an_idle_connection_can_be_closed_and_the_next_request_opens_another_one() -> None:
    async def answer(_: int, __: bytes) -> bytes:
        await asyncio.sleep(0.05)
        return coordinator(1)

    async with broker(answer) as port:
        link = link_to(port)
        link.close_idle()
        asking = asyncio.create_task(link.send(FindCoordinator("g", 0)))
        await asyncio.sleep(0.01)
        link.close_idle()  # not while a request is in flight
        assert (await asking).node_id == 1
        link.close_idle()
        assert not link.is_open
        assert (await link.send(FindCoordinator("g", 0))).node_id == 1
        link.close()
