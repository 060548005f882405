"""A broker that accepts connections and never answers does not delay requests that another one can answer."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.protocol.metadata import FindCoordinator
from tests.unit.kafka_io.client.test_connection import broker, coordinator

ASKED = FindCoordinator("g", 0)
# request.timeout.ms is 30 s, and a second goes by before another broker is asked.
SOON_S = 10.0


async def hung(_key: int, _body: bytes) -> bytes:
    await asyncio.Event().wait()
    return b""


async def answers(_key: int, _body: bytes) -> bytes:
    return coordinator(7)


@pytest.fixture
async def client(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Cluster]:
    async with broker(hung) as first, broker(answers) as second:
        # Makes the random order begin with the hung broker.
        monkeypatch.setattr(random, "shuffle", lambda addresses: addresses.sort(key=lambda each: each[1] != first))
        cluster = Cluster({"bootstrap.servers": f"127.0.0.1:{second},127.0.0.1:{first}"}, "test")
        yield cluster
        await cluster.close()


async def test_another_broker_is_asked_soon_and_the_hung_one_not_again(client: Cluster) -> None:
    async with asyncio.timeout(SOON_S):
        assert (await client.any_node(ASKED)).node_id == 7
    began = time.monotonic()
    for _ in range(20):
        assert (await client.any_node(ASKED)).node_id == 7
    # Less than a second's wait for each.
    assert time.monotonic() - began < 10


async def test_a_caller_that_stops_waiting_leaves_no_request_behind(client: Cluster) -> None:
    tasks = asyncio.all_tasks()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await client.any_node(ASKED)
    assert {task for task in asyncio.all_tasks() - tasks if "any_node" in repr(task) or "_ask" in repr(task)} == set()


async def test_where_all_hang_each_is_named_after_the_time_of_one() -> None:
    async with broker(hung) as first, broker(hung) as second:
        addresses = sorted((f"127.0.0.1:{first}", f"127.0.0.1:{second}"))
        cluster = Cluster({"bootstrap.servers": ",".join(addresses), "request.timeout.ms": "4000"}, "test")
        began = time.monotonic()
        with pytest.raises(ClusterUnreachable, match=rf"^no broker answers at {', '.join(addresses)}: no answer to "):
            await cluster.any_node(ASKED)
        # One after the other they would take twice 4 s.
        assert time.monotonic() - began < 7.8
        await cluster.close()
