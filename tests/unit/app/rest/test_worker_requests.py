"""Requests between workers: who does not sign hears what Connect says, and task configs go to the leader."""

from __future__ import annotations

import base64
import hmac
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from mirror_connect.app.dedicated.flow_rest import FlowsApplication
from mirror_connect.app.herder.request_signatures import WORKER_SIGNATURE, SignedRequest, worker_signature
from mirror_connect.app.herder.worker_client import SignedClient, WorkersLink
from mirror_connect.app.rest.application import Surface, create_application
from mirror_connect.app.rest.basic_auth import UsersFile
from mirror_connect.app.rest.worker_requests import UNSIGNED_LIMIT
from mirror_connect.app.rest_client import RestClient
from tests.fakes.connect_worker import FakeWorker, served, serving

SIGNED_PATHS = [("POST", "/connectors/a/tasks"), ("PUT", "/connectors/a/fence")]
MISSING = "Internal request missing required signature"
BODY = b"[{}]"
ME = "http://me:8083"


@pytest.fixture
async def worker() -> AsyncIterator[FakeWorker]:
    async with FakeWorker(link=WorkersLink(ME)).running() as running:
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
async def test_who_signs_as_a_java_worker_may_send_it_again_and_is_refused(
    client: httpx.AsyncClient, worker: FakeWorker, method: str, path: str
) -> None:
    before = worker.written()
    answer = await client.request(method, path, content=BODY, headers=signed(worker))
    assert (answer.status_code, worker.written()) == (403, before)
    assert "X-Mirror-Connect-Signature" in answer.json()["message"]


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


# Task configs for the leader.


def of_a_worker(
    worker: FakeWorker, body: bytes, path: str = "/connectors/a/tasks", sender: str = "two:8083"
) -> dict[str, str]:
    """The headers that another worker of the group sends."""
    key = worker.configs.snapshot().session_key
    assert key is not None
    request = SignedRequest.of("POST", ME, path.encode(), body)
    own = worker_signature(request, sender, key, "HmacSHA256", time.time())
    return {**signed(worker, body), WORKER_SIGNATURE: own}


async def test_the_leader_writes_the_task_configs_of_a_connector_elsewhere(
    client: httpx.AsyncClient, worker: FakeWorker
) -> None:
    body = json.dumps([{"task.index": "0", "x": "1"}, {"task.index": "1", "x": "2"}]).encode()
    answer = await client.post("/connectors/a/tasks", content=body, headers=of_a_worker(worker, body))
    assert (answer.status_code, answer.content) == (204, b"")
    assert worker.configs.snapshot().tasks("a") == json.loads(body)


async def test_task_configs_of_megabytes_are_taken_from_a_worker_and_from_nobody_else(
    client: httpx.AsyncClient, worker: FakeWorker
) -> None:
    body = json.dumps([{"topics": "t" * UNSIGNED_LIMIT} for _ in range(8)]).encode()
    headers = of_a_worker(worker, body)
    own = headers.pop(WORKER_SIGNATURE)
    refused = await client.post("/connectors/a/tasks", content=body, headers=headers)
    taken = await client.post("/connectors/a/tasks", content=body, headers={**headers, WORKER_SIGNATURE: own})
    assert (refused.status_code, taken.status_code, worker.configs.snapshot().task_count("a")) == (413, 204, 8)


@pytest.mark.parametrize(
    ("sent", "signed_as", "status"),
    [
        pytest.param(("/connectors/b/tasks", b"[]"), ("/connectors/a/tasks", b"[]"), 403, id="of_another_connector"),
        pytest.param(("/connectors/a/tasks", b"[]"), ("/connectors/a/tasks", b"[{}]"), 403, id="with_another_body"),
        pytest.param(("/connectors/a/tasks?x=1", b"[]"), ("/connectors/a/tasks", b"[]"), 403, id="with_another_query"),
        pytest.param(("/connectors/b/tasks", b"[]"), ("/connectors/b/tasks", b"[]"), 404, id="of_an_unknown_connector"),
        pytest.param(("/connectors/a/tasks", b"{}"), ("/connectors/a/tasks", b"{}"), 400, id="that_are_no_array"),
        pytest.param(("/connectors/a/tasks", b'[{"x":{}}]'), ("/connectors/a/tasks", b'[{"x":{}}]'), 400, id="no_text"),
    ],
)
async def test_other_task_configs_are_refused(
    client: httpx.AsyncClient,
    worker: FakeWorker,
    sent: tuple[str, bytes],
    signed_as: tuple[str, bytes],
    status: int,
) -> None:
    before = worker.written()
    headers = of_a_worker(worker, signed_as[1], signed_as[0])
    answer = await client.post(sent[0], content=sent[1], headers=headers)
    assert (answer.status_code, worker.written()) == (status, before)


async def test_recorded_task_configs_are_not_taken_a_second_time(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    headers = of_a_worker(worker, b"[]")
    first = await client.post("/connectors/a/tasks", content=b"[]", headers=headers)
    second = await client.post("/connectors/a/tasks", content=b"[]", headers=headers)
    assert (first.status_code, second.status_code) == (204, 403)


async def test_a_stopped_connector_gets_no_task_configs(client: httpx.AsyncClient, worker: FakeWorker) -> None:
    await worker.herder.configs.stop("a")
    answer = await client.post("/connectors/a/tasks", content=BODY, headers=of_a_worker(worker, BODY))
    assert answer.json()["message"] == "Connector a is paused or stopped: its task configs stay as they are"


async def test_who_does_not_lead_writes_no_task_configs_and_passes_none_on(
    client: httpx.AsyncClient, worker: FakeWorker
) -> None:
    worker.membership.is_leader, worker.membership.leader_url = False, "http://127.0.0.1:9"
    worker.herder.membership_changed()
    answer = await client.post("/connectors/a/tasks", content=BODY, headers=of_a_worker(worker, BODY))
    assert answer.status_code == 409


async def test_a_flow_of_dedicated_mode_takes_task_configs_below_its_path(worker: FakeWorker) -> None:
    application = create_application(worker.herder, surface=Surface(read_only=True))
    flows = FlowsApplication({"A->B": ("/A/B", lambda: application)})
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/A/B"
    worker.link = replace(worker.link, url=url)
    worker.herder.worker_requests._link = worker.link  # type: ignore[union-attr]
    worker.membership.leader_url = url
    other = SignedClient(
        WorkersLink("http://two:1", client=RestClient(ssl.create_default_context)),
        worker.configs,
        worker.membership,
        "two:1",
    )
    async with served(flows, listener):
        await other.put_task_configs("a", [{"x": "1"}])
    assert worker.configs.snapshot().tasks("a") == [{"x": "1"}]
