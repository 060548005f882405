"""The endpoints of Connect's workers among themselves: who does not sign hears what Connect says, who does is refused."""

from __future__ import annotations

import base64
import hmac
from collections.abc import AsyncIterator

import httpx
import pytest

from mirror_connect.app.rest.basic_auth import UsersFile
from tests.fakes.connect_worker import FakeWorker, serving

SIGNED_PATHS = [("POST", "/connectors/a/tasks"), ("PUT", "/connectors/a/fence")]
MISSING = "Internal request missing required signature"
BODY = b"[{}]"


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker().running() as running:
        # The leader has written its session key when it has taken over.
        await running.herder.configs.create("a", {**MIRROR}, None)
        await running.state("a", "RUNNING", ["RUNNING"])
        yield running


MIRROR = {
    "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "a:9092",
}


@pytest.fixture
async def client(worker: FakeWorker) -> AsyncIterator[httpx.AsyncClient]:
    async with serving(worker.herder, [UsersFile({"admin": "s3cret"})]) as connected:
        yield connected


def signed(worker: FakeWorker, body: bytes = BODY, algorithm: str = "HmacSHA256") -> dict[str, str]:
    key = worker.configs.snapshot().session_key
    assert key is not None
    signature = base64.b64encode(hmac.digest(key.key, body, "sha256")).decode()
    return {
        "Content-Type": "application/json",
        "X-Connect-Authorization": signature,
        "X-Connect-Request-Signature-Algorithm": algorithm,
    }


@pytest.mark.parametrize(("method", "path"), SIGNED_PATHS)
async def test_without_a_signature_nothing_is_heard_and_no_credentials_are_asked_for(
    client: httpx.AsyncClient, method: str, path: str
) -> None:
    answer = await client.request(method, path, content=BODY, headers={"Content-Type": "application/json"})
    assert answer.json() == {"error_code": 400, "message": MISSING}


@pytest.mark.parametrize(("method", "path"), SIGNED_PATHS)
async def test_a_good_signature_is_told_that_this_worker_does_no_such_thing(
    client: httpx.AsyncClient, worker: FakeWorker, method: str, path: str
) -> None:
    before = worker.written()
    answer = await client.request(method, path, content=BODY, headers=signed(worker))
    assert (answer.status_code, worker.written()) == (409, before)


async def test_a_signature_of_something_else_is_403(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    answer = await client.post("/connectors/a/tasks", content=BODY, headers=signed(worker, b"[]"))
    assert answer.json() == {"error_code": 403, "message": "Internal request contained invalid signature."}


@pytest.mark.parametrize(
    ("algorithm", "signature", "text"),
    [
        ("HmacMD5", "AAAA", "does not support the 'HmacMD5' key signing algorithm"),
        ("HmacROT13", "AAAA", "Algorithm HmacROT13 not available"),
        ("HmacSHA256", "!", "not valid base64"),
    ],
)
async def test_a_signature_that_can_not_be_checked_is_400(
    client: httpx.AsyncClient, algorithm: str, signature: str, text: str
) -> None:
    headers = {"X-Connect-Authorization": signature, "X-Connect-Request-Signature-Algorithm": algorithm}
    answer = await client.put("/connectors/a/fence", headers=headers)
    assert (answer.status_code, text in answer.json()["message"]) == (400, True)


async def test_other_requests_below_a_connector_need_credentials(client: httpx.AsyncClient) -> None:
    answers = [
        await client.get("/connectors/a/tasks"),
        await client.post("/connectors/a/fence"),
        await client.put("/connectors/a/pause"),
    ]
    assert [answer.status_code for answer in answers] == [401, 405, 401]
