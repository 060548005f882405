"""The channel of tasks at executors: where it listens, what executors are told, and what strangers get."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from typing import Any, cast

import httpx
import pytest

from mirror_connect.app.config.task_listener import ANY, TaskListener
from mirror_connect.app.errors import StartupError
from mirror_connect.app.rest.http_servers import HttpServers
from mirror_connect.app.supervisor import internal_api
from mirror_connect.app.supervisor.interfaces import WantedTask
from mirror_connect.app.supervisor.internal_api import KNOWN, create_tasks_application
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.supervisor import Supervisor
from mirror_connect.app.supervisor.task_channel import (
    TaskChannel,
    address_towards,
    open_task_channel,
    with_driver_address,
)
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS
from mirror_connect.connectors.task_protocol import SourceOffset, TaskId, TaskReport
from mirror_connect.spark_jobs.internal_http import (
    InternalHttp,
    RunHandle,
    RunOverError,
    WorkerUnreachableError,
    why_unreachable,
)
from mirror_connect.spark_jobs.worker_client import WorkerClient
from tests.fakes.spark_rig import FakeSpecs

CLUSTER = with_driver_address({"spark.master": "spark://127.0.0.1:7077"})
MOST = 4


def channel_of(spark: dict[str, str], settings: TaskListener = ANY) -> TaskChannel:
    found = open_task_channel(spark, settings)
    assert found is not None
    found.listener.close()
    return found


def test_with_a_local_master_there_is_none() -> None:
    assert open_task_channel({"spark.master": "local[4,4]"}, ANY) is None
    assert open_task_channel({}, ANY) is None


def test_it_is_where_sparks_driver_is_unless_it_is_told_otherwise() -> None:
    plain = channel_of(CLUSTER)
    assert plain.url.startswith("https://127.0.0.1:")
    told = TaskListener("127.0.0.1", 0, "worker.example", 8443)
    assert channel_of(CLUSTER, told).url == "https://worker.example:8443"
    six = channel_of({**CLUSTER, "spark.driver.host": "2001:db8::1", "spark.driver.bindAddress": "127.0.0.1"})
    assert six.url.startswith("https://[2001:db8::1]:")


def test_an_address_that_is_not_of_this_machine_ends_the_start() -> None:
    with pytest.raises(StartupError):
        open_task_channel(CLUSTER, TaskListener("192.0.2.1"))


def test_each_start_has_a_certificate_of_its_own_and_shows_no_key() -> None:
    first, second = channel_of(CLUSTER), channel_of(CLUSTER)
    assert len(first.fingerprint) == 64
    assert first.fingerprint != second.fingerprint
    assert "PRIVATE" not in repr(first)


@pytest.mark.parametrize(
    "master",
    [
        "spark://127.0.0.1:7077",
        "spark://nowhere.invalid:7077,127.0.0.1:7078",
        "k8s://https://127.0.0.1:6443",
        "k8s://127.0.0.1",
    ],
)
def test_the_drivers_address_is_the_one_on_the_way_to_the_master(master: str) -> None:
    assert address_towards(master) == "127.0.0.1"
    assert with_driver_address({"spark.master": master})["spark.driver.host"] == "127.0.0.1"


def test_an_address_that_was_given_stays_and_a_local_master_gets_none() -> None:
    given = {"spark.master": "yarn", "spark.driver.host": "driver.example"}
    assert with_driver_address(given) == given
    assert with_driver_address({"spark.master": "local[2,4]"}) == {"spark.master": "local[2,4]"}
    # Whatever this machine's network is.
    assert with_driver_address({"spark.master": "yarn"})["spark.driver.host"]


class Served:
    def __init__(self, channel: TaskChannel) -> None:
        self.channel = channel
        self.spark = SparkHost({})
        self.supervisor = Supervisor(self.spark, FakeSpecs(), lambda: 8.0)
        config = {"connector.class": "X", ASSIGNED_PARTITIONS: "t-0"}
        self.supervisor.want({TaskId("c", number): WantedTask(config) for number in range(2)})
        self.runs: list[TaskRun] = list(self.supervisor.runs)
        self.http = HttpServers()
        self.http.serve(
            create_tasks_application(self.spark), [channel.listener], channel.tls, most_connections=MOST, known=KNOWN
        )

    def handle(self, run: TaskRun) -> RunHandle:
        return RunHandle(self.channel.url, run.run_id, run.token, self.channel.fingerprint)

    async def status(self, method: str, path: str, token: str | None, **more: Any) -> int:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=self.channel.url, verify=False, timeout=10) as http:
            return (await http.request(method, path, headers=headers, **more)).status_code


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    channel = open_task_channel(CLUSTER, ANY)
    assert channel is not None
    made = Served(channel)
    yield made
    await made.http.end()


async def test_a_task_at_an_executor_gets_its_spec_and_reports_over_https(served: Served) -> None:
    client = WorkerClient(served.handle(served.runs[0]), asyncio.get_running_loop())
    try:
        spec = await client.spec()
        assert await client.source_offsets(spec.assigned, fenceable=True) == [SourceOffset("t", 0, None)]
        await asyncio.to_thread(client._report, hold=False)
        assert client.lease_valid()
    finally:
        client.close()
    assert await asyncio.to_thread(why_unreachable, served.channel.url, served.channel.fingerprint) is None


@pytest.mark.parametrize(("method", "path"), [("GET", "/plan"), ("POST", "/driver")])
async def test_the_drivers_paths_are_not_there_not_even_with_its_token(served: Served, method: str, path: str) -> None:
    assert await served.status(method, path, served.spark.copying.token) == 404


@pytest.mark.parametrize("token", [None, "driver", "other run", "wrong"])
async def test_nothing_but_the_token_of_the_run_gets_anything_of_it(served: Served, token: str | None) -> None:
    given = {"driver": served.spark.copying.token, "other run": served.runs[1].token}.get(token or "", token)
    for method, path in (("GET", "spec?attempt=one"), ("POST", "positions"), ("POST", "report")):
        assert await served.status(method, f"/runs/{served.runs[0].run_id}/{path}", given) == 401


async def test_a_token_says_nothing_any_more_when_its_run_is_over(served: Served) -> None:
    handle = served.handle(served.runs[0])
    replayed = InternalHttp(handle.url, handle.token, handle.fingerprint)
    path = f"/runs/{handle.run_id}/spec?attempt=replayed"
    assert (await asyncio.to_thread(replayed.call, "GET", path))["run_id"] == handle.run_id
    served.supervisor.want({})
    last = TaskReport("replayed", 1, "FINISHED", settled=True).to_json()
    await asyncio.to_thread(replayed.call, "POST", f"/runs/{handle.run_id}/report", last)
    with pytest.raises(RunOverError):
        await asyncio.to_thread(replayed.call, "GET", path)
    replayed.close()


async def test_who_has_another_certificate_is_told_no_token(served: Served) -> None:
    other = channel_of(CLUSTER)
    client = WorkerClient(
        replace(served.handle(served.runs[0]), fingerprint=other.fingerprint), asyncio.get_running_loop()
    )
    with pytest.raises(WorkerUnreachableError):
        await asyncio.to_thread(client._report, hold=False)
    client.close()


async def test_plain_http_gets_nothing(served: Served) -> None:
    async with httpx.AsyncClient(timeout=10) as http:
        with pytest.raises(httpx.HTTPError):
            await http.get(served.channel.url.replace("https", "http") + "/runs/x/spec")


async def test_a_body_that_no_task_sends_is_refused_while_it_comes(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internal_api, "MOST_BODY", 1 << 20)
    path, report = f"/runs/{served.runs[0].run_id}/report", TaskReport("one", 1, "STARTING", settled=True).to_json()
    body = {**report, "log_lines": ["x" * (2 << 20)]}
    assert await served.status("POST", path, served.runs[0].token, json=body) == 413
    # Without a token nothing of a body is waited for.
    assert await served.status("POST", path, None, json=body) == 401


async def _tls_connection(url: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    address = httpx.URL(url)
    return await asyncio.open_connection(address.host, address.port, ssl=context)


async def test_strangers_that_send_half_a_request_close_out_each_other_and_no_task(served: Served) -> None:
    tasks = []
    for run in served.runs:
        client = WorkerClient(served.handle(run), asyncio.get_running_loop())
        await client.spec()
        tasks.append(client)
    before = [cast(socket.socket, client._requests._connection.sock).getsockname() for client in tasks]
    strangers = []
    for _ in range(3 * MOST):
        reader, writer = await _tls_connection(served.channel.url)
        writer.write(b"GET /runs/x/spec HTTP/1.1\r\nHost: x\r\nX-Slow: ")
        await writer.drain()
        strangers.append((reader, writer))
    closed = await asyncio.gather(*(_closed(reader) for reader, _ in strangers))
    assert closed.count(False) == MOST
    for client in tasks:
        await client.spec()
    # On the connections that they had.
    assert [cast(socket.socket, client._requests._connection.sock).getsockname() for client in tasks] == before
    for client in tasks:
        client.close()
    for _, writer in strangers:
        writer.close()
        with suppress(OSError, ssl.SSLError):
            await writer.wait_closed()


async def _closed(reader: asyncio.StreamReader) -> bool:
    try:
        async with asyncio.timeout(2):
            return await reader.read(1) == b""
    except TimeoutError:
        return False
    except OSError:
        return True


async def test_a_connection_that_never_begins_tls_delays_no_task(served: Served) -> None:
    address = httpx.URL(served.channel.url)
    silent = [await asyncio.open_connection(address.host, address.port) for _ in range(2 * MOST)]
    client = WorkerClient(served.handle(served.runs[0]), asyncio.get_running_loop())
    async with asyncio.timeout(5):
        await client.spec()
    client.close()
    for _, writer in silent:
        writer.close()
