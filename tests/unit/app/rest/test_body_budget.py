"""Many large bodies at once: the memory they take is bounded, and small requests are answered meanwhile."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from mirror_connect.app.rest import json_bodies
from mirror_connect.app.rest.application import Surface, create_application
from mirror_connect.app.rest.body_budget import BodyBudget
from mirror_connect.app.rest.worker_requests import UNSIGNED_LIMIT
from tests.fakes.connect_worker import FakeWorker, served, source_config

TOTAL = 4 << 20
HEAD = (
    "PUT /connectors/a/config HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    f"Content-Length: {8 << 20}\r\n\r\n"
)


@pytest.fixture
def budget() -> BodyBudget:
    return BodyBudget(TOTAL, whole_body_s=5.0)


@pytest.fixture
async def client(budget: BodyBudget) -> AsyncIterator[httpx.AsyncClient]:
    worker = FakeWorker()
    application = create_application(worker.herder, (), Surface(budget=budget))
    async with worker.running(), served(application) as found:
        yield found


async def test_two_hundred_dripped_bodies_stay_below_a_bound_and_others_are_answered(
    client: httpx.AsyncClient, budget: BodyBudget
) -> None:
    taken: list[int] = []
    refused: list[bytes] = []

    async def drip() -> None:
        reader, writer = await asyncio.open_connection(client.base_url.host, client.base_url.port)
        try:
            writer.write(HEAD.encode())
            for _ in range(16):
                writer.write(b" " * (32 << 10))
                await writer.drain()
            async with asyncio.timeout(30):
                refused.append(await reader.readline())
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def look() -> None:
        while True:
            taken.append(budget.taken)
            await asyncio.sleep(0.005)

    looking = asyncio.create_task(look())
    dripping = [asyncio.create_task(drip()) for _ in range(200)]
    await asyncio.sleep(0.5)
    answers = [(await client.put("/connectors/small/config", json=source_config())).status_code for _ in range(3)]
    await asyncio.gather(*dripping)
    looking.cancel()
    assert answers == [201, 200, 200]
    assert TOTAL - (1 << 20) < max(taken) <= TOTAL
    # Some found no room, the others did not come to their end in time.
    assert {line[9:12] for line in refused} == {b"503", b"408"}
    async with asyncio.timeout(60):
        while budget.taken:
            await asyncio.sleep(0.01)


async def test_a_large_body_is_taken_while_there_is_room(client: httpx.AsyncClient, budget: BodyBudget) -> None:
    config = {**source_config(), "name": "a", "mine": "x" * (2 << 20)}
    for _ in range(5):
        answer = await client.put("/connector-plugins/MirrorSourceConnector/config/validate", json=config)
        assert answer.status_code == httpx.codes.OK
    assert budget.taken == 0


async def test_a_large_body_is_parsed_off_the_loop(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []
    parse = json_bodies.parse_json

    def noted(body: bytes) -> Any:
        threads.append(threading.current_thread())
        return parse(body)

    monkeypatch.setattr(json_bodies, "parse_json", noted)
    for size in (10, 1 << 20):
        await client.put("/connectors/a/config", json={**source_config(), "mine": "x" * size})
    assert [thread is threading.main_thread() for thread in threads] == [True, False]


async def test_who_has_shown_no_signature_yet_may_send_little(client: httpx.AsyncClient) -> None:
    for method, path in (("POST", "/connectors/a/tasks"), ("PUT", "/connectors/a/fence")):
        headers = {"Content-Type": "application/json"}
        answer = await client.request(method, path, content=b" " * (UNSIGNED_LIMIT + 1), headers=headers)
        assert answer.status_code == httpx.codes.REQUEST_ENTITY_TOO_LARGE
