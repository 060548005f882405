"""Requests are counted by kind: answers, losses, bytes, throttling."""

from __future__ import annotations

import asyncio
import struct

import pytest

from mirror_connect.kafka_io.client.broker_link import BrokerLink
from mirror_connect.kafka_io.client.client_settings import ConnectionSettings
from mirror_connect.kafka_io.client.connection import ConnectionLost
from mirror_connect.kafka_io.client.request_totals import RequestTotals
from mirror_connect.kafka_io.protocol.metadata import FindCoordinator
from tests.fakes.scripted_broker import broker, coordinator


async def test_answers_losses_and_bytes_are_counted() -> None:
    calls = 0

    async def answer(_: int, __: bytes) -> bytes | None:
        nonlocal calls
        calls += 1
        await asyncio.sleep(0.05)
        return struct.pack(">i", 20) + coordinator(1)[4:] if calls == 1 else None

    totals = RequestTotals()
    async with broker(answer) as port:
        settings = ConnectionSettings((("127.0.0.1", port),), "test", reconnect_backoff_ms=1)
        link = BrokerLink("127.0.0.1", port, settings, totals)
        await link.send(FindCoordinator("g", 0))
        with pytest.raises(ConnectionLost):
            await link.send(FindCoordinator("g", 0))
        link.close()
        with pytest.raises(ConnectionLost):
            await link.send(FindCoordinator("g", 0))
    found = {each.kind: each for each in totals.all()}
    counted = found["FindCoordinator"]
    assert set(found) == {"ApiVersions", "FindCoordinator"}
    assert (counted.requests, counted.errors, counted.throttled_ms) == (1, 2, 20)
    assert 0.05 <= counted.most_s == counted.total_s < 5
    assert counted.sent > 2 * len("test")
    assert counted.received >= len(coordinator(1))
