"""/metrics on the REST listeners, and the port that has nothing else."""

from __future__ import annotations

import asyncio
import socket
import zlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parsed_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parsed_text
from starlette.types import Message

from mirror_connect.app.config.metrics_settings import MetricsSettings, metrics_from_environment
from mirror_connect.app.errors import StartupError
from mirror_connect.app.exposition.exposition import SHARED_S, Exposition
from mirror_connect.app.exposition.measured import MeasuredProcess
from mirror_connect.app.exposition.page import Format
from mirror_connect.app.metrics_port import MetricsPort
from mirror_connect.app.rest.application import Surface
from mirror_connect.app.rest.basic_auth import Authenticator, UsersFile
from mirror_connect.app.rest.http_servers import HttpServers
from mirror_connect.app.rest.metrics import create_metrics_application
from mirror_connect.connectors.errors import ConfigError
from tests.fakes.connect_worker import FakeWorker, serving
from tests.fakes.measured_process import Told, row, whole

# As Prometheus 3 asks.
PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Counted:
    """What is measured, and how often it was asked for."""

    def __init__(self) -> None:
        self.times = 0
        self._told = whole()

    def __call__(self) -> MeasuredProcess:
        self.times += 1
        return self._told.process()


@asynccontextmanager
async def connected(
    authenticators: Sequence[Authenticator] = (), measured: Counted | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    surface = Surface(exposition=Exposition(measured or Counted()))
    async with FakeWorker().running() as worker, serving(worker.herder, authenticators, surface) as client:
        yield client


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        pytest.param(None, TEXT, id="anything"),
        pytest.param("*/*", TEXT, id="curl"),
        pytest.param("application/json", TEXT, id="another_format"),
        pytest.param("text/plain;version=0.0.4", TEXT, id="text"),
        pytest.param("text/plain, application/openmetrics-text;q=0.5", TEXT, id="text_rather"),
        pytest.param("application/openmetrics-text;q=0", TEXT, id="not_openmetrics"),
        pytest.param("text/plain;q=x", TEXT, id="a_weight_that_is_none"),
        pytest.param(PROMETHEUS, OPEN_METRICS, id="prometheus_3"),
        pytest.param("application/openmetrics-text", OPEN_METRICS, id="openmetrics"),
    ],
)
async def test_the_format_is_the_one_asked_for(accept: str | None, content_type: str) -> None:
    async with connected() as client:
        answer = await client.get("/metrics", headers={} if accept is None else {"Accept": accept})
    assert (answer.status_code, answer.headers["content-type"]) == (200, content_type)
    parsed = parsed_open_metrics if content_type == OPEN_METRICS else parsed_text
    names = {family.name for family in parsed(answer.text)}
    assert {"kafka_connect_worker_connector_count", "mirror_connect_lag_seconds", "python_info"} <= names


async def test_it_is_compressed_only_where_that_is_asked_for() -> None:
    async with connected() as client:
        plain = await client.get("/metrics", headers={"Accept-Encoding": "identity"})
        compressed = await client.get("/metrics", headers={"Accept-Encoding": "gzip"})
        refused = await client.get("/metrics", headers={"Accept-Encoding": "gzip;q=0"})
    assert "content-encoding" not in plain.headers
    assert "content-encoding" not in refused.headers
    assert compressed.headers["content-encoding"] == "gzip"
    lines = [[line for line in each.text.splitlines() if "process_" not in line] for each in (plain, compressed)]
    assert len(lines[0]) == len(lines[1])


async def test_it_needs_the_login_of_rest() -> None:
    async with connected([UsersFile({"prometheus": "s3cret"})]) as client:
        refused = await client.get("/metrics")
        allowed = await client.get("/metrics", auth=httpx.BasicAuth("prometheus", "s3cret"))
    assert (refused.status_code, allowed.status_code) == (401, 200)
    assert "mirror_connect" not in refused.text


async def test_there_is_none_where_nothing_is_measured() -> None:
    async with FakeWorker().running() as worker, serving(worker.herder) as client:
        assert (await client.get("/metrics")).status_code == 404


async def test_many_at_once_share_one_scrape() -> None:
    measured = Counted()
    async with connected(measured=measured) as client:
        answers = await asyncio.gather(*(client.get("/metrics") for _ in range(20)))
    assert {each.status_code for each in answers} == {200}
    assert measured.times == 1


async def test_a_scrape_is_shared_for_a_second_and_a_failed_one_is_not() -> None:
    now = 100.0
    measured = Counted()

    def failing_once() -> MeasuredProcess:
        if measured.times == 0:
            measured.times = 1
            raise RuntimeError("a bug")
        return measured()

    exposition = Exposition(failing_once, clock=lambda: now)
    with pytest.raises(RuntimeError):
        await exposition.chunks(Format.TEXT)
    for after, times in ((0.0, 2), (SHARED_S / 2, 2), (SHARED_S * 2, 3)):
        now = 100.0 + after
        await exposition.chunks(Format.TEXT)
        assert measured.times == times


async def test_who_asks_for_gzip_shares_one_compressed_scrape_too() -> None:
    measured = Counted()
    exposition = Exposition(measured)
    one, other = [await exposition.chunks(Format.TEXT, gzip=True) for _ in range(2)]
    assert one is other
    assert zlib.decompress(b"".join(one), 16 + zlib.MAX_WBITS) == b"".join(await exposition.chunks(Format.TEXT))
    assert measured.times == 1


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
async def test_other_work_has_its_turn_between_the_chunks_of_a_large_scrape(encoding: str) -> None:
    told = Told()
    told.source([[row(f"topic-{number}", 0) for number in range(2_000)]])
    application = create_metrics_application(Exposition(told.process))
    turns, turns_at_chunks = 0, []

    async def other_work() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def send(message: Message) -> None:
        if message.get("body"):
            turns_at_chunks.append(turns)

    async def receive() -> Message:
        # The client stays.
        await asyncio.Event().wait()
        raise AssertionError

    headers = [(b"accept-encoding", encoding.encode())]
    scope = {"type": "http", "method": "GET", "path": "/metrics", "query_string": b"", "headers": headers}
    other = asyncio.create_task(other_work())
    await application(scope, receive, send)
    other.cancel()
    assert len(turns_at_chunks) > 2
    assert all(after > before for before, after in pairwise(turns_at_chunks))


@asynccontextmanager
async def port(settings: MetricsSettings) -> AsyncIterator[tuple[MetricsPort, HttpServers]]:
    opened, http = MetricsPort(settings), HttpServers()
    opened.serve(http, Exposition(Counted()))
    try:
        yield opened, http
    finally:
        await http.end()


async def test_the_port_of_its_own_needs_no_login_and_has_nothing_else() -> None:
    async with (
        port(MetricsSettings(port=0, host="127.0.0.1")) as (opened, _),
        httpx.AsyncClient(base_url=f"http://127.0.0.1:{opened.port}") as client,
    ):
        paths = ("/metrics", "/", "/connectors", "/health")
        answers = {path: (await client.get(path)).status_code for path in paths}
        posted = await client.post("/metrics")
    assert answers == {"/metrics": 200, "/": 200, "/connectors": 404, "/health": 404}
    assert posted.status_code == 405


async def test_no_port_without_the_setting() -> None:
    async with port(MetricsSettings()) as (opened, _):
        assert opened.port is None


def test_a_port_in_use_names_the_setting() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(StartupError, match=r"metrics\.port"):
            MetricsPort(MetricsSettings(port=taken.getsockname()[1], host="127.0.0.1"))


def test_mirror_maker_1_has_the_settings_from_the_environment() -> None:
    assert metrics_from_environment({}) == MetricsSettings()
    given = {"MIRROR_CONNECT_METRICS_PORT": "9404", "MIRROR_CONNECT_METRICS_NAMES": "jmx,reporter"}
    assert metrics_from_environment(given) == MetricsSettings(port=9404, names=("jmx", "reporter"))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MIRROR_CONNECT_METRICS_PORT", "70000"),
        ("MIRROR_CONNECT_METRICS_PORT", "x"),
        ("MIRROR_CONNECT_METRICS_DETAIL", "all"),
    ],
)
def test_a_wrong_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        metrics_from_environment({name: value})
    assert name in str(refused.value)
    assert value in str(refused.value)
