"""`PUT /connectors/{name}/fence`: another worker of the group asks the leader to fence former tasks."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import httpx
import pytest

from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.herder.request_signatures import WORKER_SIGNATURE, SignedRequest, worker_signature
from mirror_connect.app.herder.validation import ConfigRules
from mirror_connect.app.herder.worker_client import WorkersLink
from tests.fakes.connect_worker import FakeWorker, serving, source_config

ME = "http://me:8083"


@pytest.fixture
def support() -> Support:
    return Support.ENABLED


@pytest.fixture
async def worker(support: Support) -> AsyncIterator[FakeWorker]:
    async with FakeWorker(link=WorkersLink(ME), rules=ConfigRules(exactly_once=support)).running() as running:
        running.connectors.tasks["a"] = 2
        await running.herder.configs.create("a", source_config(), None)
        await running.state("a", "RUNNING", ["RUNNING"] * 2)
        running.fenced.clear()
        yield running


@pytest.fixture
async def client(worker: FakeWorker) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(worker.herder) as connected:
        yield connected


async def asked(
    worker: FakeWorker, client: httpx.AsyncClient, name: str, body: bytes = b'{"generation":1}'
) -> httpx.Response:
    key = worker.configs.snapshot().session_key
    assert key is not None
    path = f"/connectors/{name}/fence"
    signature = worker_signature(
        SignedRequest.of("PUT", ME, path.encode(), body), "two:8083", key, "HmacSHA256", time.time()
    )
    headers = {WORKER_SIGNATURE: signature, "Content-Type": "application/json"}
    return await client.put(path, content=body, headers=headers)


@pytest.mark.parametrize("support", [Support.ENABLED, Support.PREPARING])
async def test_the_leader_fences_and_notes_the_count(worker: FakeWorker, client: httpx.AsyncClient) -> None:
    answer = await asked(worker, client, "a")
    assert (answer.status_code, answer.content) == (204, b"")
    assert [each for each in worker.written() if "fencing" in each] == ['tasks-fencing-a={"task-count":2}']


@pytest.mark.parametrize("support", [Support.DISABLED])
async def test_a_leader_with_exactly_once_disabled_says_what_to_do(
    worker: FakeWorker, client: httpx.AsyncClient
) -> None:
    answer = await asked(worker, client, "a")
    assert answer.status_code == 400
    assert "set it to preparing on every worker" in answer.json()["message"]
    assert worker.fenced == []


async def test_who_does_not_lead_fences_nobody(worker: FakeWorker, client: httpx.AsyncClient) -> None:
    worker.membership.is_leader, worker.membership.leader_url = False, "http://127.0.0.1:9"
    worker.herder.membership_changed()
    assert (await asked(worker, client, "a")).status_code == 409
    assert worker.fenced == []


@pytest.mark.parametrize(
    ("name", "body", "status"),
    [
        pytest.param("gone", b'{"generation":1}', 404, id="an_unknown_connector"),
        pytest.param("a", b'{"generation":"1"}', 400, id="a_generation_that_is_text"),
        pytest.param("a", b"[]", 400, id="no_object"),
        pytest.param("a", b"", 204, id="no_body_as_connects"),
    ],
)
async def test_what_is_asked_is_read(
    name: str, body: bytes, status: int, worker: FakeWorker, client: httpx.AsyncClient
) -> None:
    assert (await asked(worker, client, name, body)).status_code == status
