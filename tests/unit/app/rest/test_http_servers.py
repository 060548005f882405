"""HTTPS and slow clients over real sockets: the servers that the worker runs, around an application that answers at once."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.server import ServerState

from mirror_connect.app.config.listener_tls import listener_context
from mirror_connect.app.rest import http_servers
from mirror_connect.app.rest.http_servers import HttpServers
from tests.fakes.certificates import Party, party

PASSWORD = "hunter22"
PATIENCE_S = 60.0
GREETING = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def greet(request: Request) -> Response:
    return PlainTextResponse(f"{request.url.scheme} {len(await request.body())}")


APPLICATION = Starlette(routes=[Route("/", greet, methods=["GET", "POST"])])


@contextlib.asynccontextmanager
async def serving(
    tls: ssl.SSLContext | None = None, application: Any = APPLICATION, most_connections: int | None = None
) -> AsyncIterator[int]:
    """The port of a server; ended at the end, which has to come."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    servers = HttpServers()
    servers.serve(application, [listener], tls, most_connections)
    try:
        yield int(listener.getsockname()[1])
    finally:
        async with asyncio.timeout(PATIENCE_S):
            await servers.end()


async def asked(port: int, tls: ssl.SSLContext | None = None, request: bytes = GREETING) -> str:
    """The whole answer to a request."""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=tls, server_hostname="localhost" if tls else None
        )
        try:
            writer.write(request)
            return (await reader.read()).decode()
        finally:
            writer.transport.abort()


def trusting(root: Party, shown: Party | None = None, folder: Path | None = None) -> ssl.SSLContext:
    """A client that trusts one authority and shows a certificate, or none."""
    context = ssl.create_default_context(cadata=root.pem)
    if shown is not None and folder is not None:
        file = folder / "shown.pem"
        file.write_text(shown.key_pem() + shown.pem)
        context.load_cert_chain(file)
    return context


class Authorities:
    def __init__(self) -> None:
        self.root, self.other = party("root", None, ca=True), party("other", None, ca=True)
        self.server = party("localhost", self.root, ca=False)
        self.client = party("client", self.root, ca=False)
        self.stranger = party("stranger", self.other, ca=False)


@pytest.fixture(scope="module")
def made() -> Authorities:
    return Authorities()


def settings(folder: Path, made: Authorities, **more: str) -> Mapping[str, str]:
    """A worker's properties with a key store and a trust store in PEM."""
    (folder / "server.pem").write_text(made.server.key_pem() + made.server.pem)
    (folder / "root.pem").write_text(made.root.pem)
    stores = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "root.pem"),
    }
    return stores | {f"ssl.{name.replace('_', '.')}": value for name, value in more.items()}


def context(properties: Mapping[str, str]) -> ssl.SSLContext:
    return listener_context(properties, "listeners.https.")


# --- HTTPS ----------------------------------------------------------------------------------------------------------


async def test_names_of_headers_are_written_as_by_connect() -> None:
    async with serving() as port:
        head = (await asked(port)).partition("\r\n\r\n")[0]
    assert {"Content-Type", "Content-Length"} <= {line.partition(":")[0] for line in head.splitlines()}


async def test_https_is_spoken_with_the_key_of_a_pem_file(tmp_path: Path, made: Authorities) -> None:
    async with serving(context(settings(tmp_path, made))) as port:
        assert (await asked(port, trusting(made.root))).endswith("https 0")


async def test_https_is_spoken_with_the_key_of_a_pkcs12_store(tmp_path: Path, made: Authorities) -> None:
    (tmp_path / "server.p12").write_bytes(made.server.p12(PASSWORD))
    store = {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(tmp_path / "server.p12"),
        "ssl.keystore.password": PASSWORD,
    }
    async with serving(context(store)) as port:
        assert (await asked(port, trusting(made.root))).endswith("https 0")


async def test_https_is_spoken_with_a_key_that_stands_in_the_properties(made: Authorities) -> None:
    store = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": made.server.key_pem(PASSWORD),
        "ssl.keystore.certificate.chain": made.server.pem,
        "ssl.key.password": PASSWORD,
    }
    async with serving(context(store)) as port:
        assert (await asked(port, trusting(made.root))).endswith("https 0")


async def test_plain_http_is_not_answered_by_an_https_listener(tmp_path: Path, made: Authorities) -> None:
    async with serving(context(settings(tmp_path, made))) as port:
        assert await told(port, GREETING) == b""


async def test_a_required_certificate_lets_its_owner_in(tmp_path: Path, made: Authorities) -> None:
    async with serving(context(settings(tmp_path, made, client_auth="required"))) as port:
        assert (await asked(port, trusting(made.root, made.client, tmp_path))).endswith("https 0")


async def test_a_requested_certificate_need_not_be_shown(tmp_path: Path, made: Authorities) -> None:
    async with serving(context(settings(tmp_path, made, client_auth="requested"))) as port:
        assert (await asked(port, trusting(made.root))).endswith("https 0")


@pytest.mark.parametrize(
    ("auth", "shown"),
    [
        pytest.param("required", lambda made: None, id="none_where_one_is_required"),
        pytest.param("required", lambda made: made.stranger, id="a_strangers_where_one_is_required"),
        pytest.param("requested", lambda made: made.stranger, id="a_strangers_where_one_is_requested"),
    ],
)
async def test_no_request_gets_through_without_a_certificate_that_is_trusted(
    tmp_path: Path, made: Authorities, auth: str, shown: Callable[[Authorities], Party | None]
) -> None:
    served = []

    async def note(request: Request) -> Response:
        served.append(request.url)
        return Response()

    application = Starlette(routes=[Route("/", note)])
    async with serving(context(settings(tmp_path, made, client_auth=auth)), application) as port:
        with contextlib.suppress(OSError):
            await asked(port, trusting(made.root, shown(made), tmp_path))
    assert served == []


@pytest.mark.parametrize(
    ("given", "version"),
    [
        pytest.param({"enabled_protocols": "TLSv1.2"}, "TLSv1.2", id="the_older_one_alone"),
        pytest.param({"enabled_protocols": "TLSv1.3"}, "TLSv1.3", id="the_newer_one_alone"),
        pytest.param({}, "TLSv1.3", id="the_newest_of_both"),
        pytest.param(
            {"cipher_suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}, "TLSv1.2", id="a_suite_of_the_older"
        ),
    ],
)
async def test_the_version_spoken_is_one_that_is_enabled(
    tmp_path: Path, made: Authorities, given: dict[str, str], version: str
) -> None:
    async with serving(context(settings(tmp_path, made, **given))) as port, asyncio.timeout(PATIENCE_S):
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(made.root))
        assert writer.get_extra_info("ssl_object").version() == version
        writer.transport.abort()


async def test_a_client_of_another_version_is_refused(tmp_path: Path, made: Authorities) -> None:
    client = trusting(made.root)
    client.maximum_version = ssl.TLSVersion.TLSv1_2
    async with serving(context(settings(tmp_path, made, enabled_protocols="TLSv1.3"))) as port:
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asked(port, client)


async def test_the_cipher_suite_is_the_one_that_is_allowed(tmp_path: Path, made: Authorities) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    async with serving(context(settings(tmp_path, made, cipher_suites=suite))) as port, asyncio.timeout(PATIENCE_S):
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trusting(made.root))
        assert writer.get_extra_info("cipher")[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
        writer.transport.abort()


# --- who dawdles ---------------------------------------------------------------------------------------------------


async def told(port: int, said: bytes) -> bytes:
    """What comes until the server closes the connection, which the client itself never does."""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(said)
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.transport.abort()


SLOW = [
    pytest.param(b"", id="says_nothing"),
    pytest.param(b"GET / HT", id="half_a_line"),
    pytest.param(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ", id="half_a_head"),
    pytest.param(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nhalf", id="half_a_body"),
]


@pytest.mark.parametrize("said", SLOW)
async def test_who_dawdles_loses_the_connection(monkeypatch: pytest.MonkeyPatch, said: bytes) -> None:
    monkeypatch.setattr(http_servers, "PATIENCE_S", 0.2)
    async with serving() as port:
        assert b"200 OK" not in await told(port, said)


async def test_a_head_that_comes_byte_by_byte_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_servers, "PATIENCE_S", 0.5)
    async with serving() as port, asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ")
        closed = asyncio.create_task(reader.read())
        while not closed.done():
            writer.write(b"x")
            await asyncio.sleep(0.02)
        writer.transport.abort()
        assert closed.exception() is not None or closed.result() == b""


class Wire(asyncio.Transport):
    """The server's end of a connection, without a connection."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.aborted = b"", False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Clock:
    """A loop whose timers run when the test says so."""

    def __init__(self) -> None:
        self.timers: list[tuple[Any, list[bool]]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio.get_running_loop(), name)

    def call_later(self, _: float, callback: Callable[[], None]) -> Any:
        cancelled: list[bool] = []
        self.timers.append((callback, cancelled))
        return type("Timer", (), {"cancel": lambda _: cancelled.append(True)})()

    def goes_on(self) -> None:
        """Runs the timers that wait by now."""
        waiting, self.timers = self.timers, []
        for callback, cancelled in waiting:
            if not cancelled:
                callback()


def connected(application: Any) -> tuple[Any, Wire, Clock]:
    """A connection of the server, open."""
    config = uvicorn.Config(application, log_config=None, lifespan="off")
    config.load()
    wire, clock = Wire(), Clock()
    connection = http_servers._Impatient(config, ServerState(), {}, clock)
    connection.connection_made(wire)
    return connection, wire, clock


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0)


async def test_each_piece_of_a_body_begins_the_wait_anew() -> None:
    connection, wire, clock = connected(APPLICATION)
    connection.data_received(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n")
    before = list(clock.timers)
    connection.data_received(b"x")
    clock.timers = before
    clock.goes_on()
    assert not wire.aborted


async def test_more_of_a_head_does_not() -> None:
    connection, wire, clock = connected(APPLICATION)
    connection.data_received(b"GET / HTTP/1.1\r\n")
    before = list(clock.timers)
    connection.data_received(b"Host: localhost\r\n")
    clock.timers = before
    clock.goes_on()
    assert wire.aborted


async def test_a_slow_answer_is_not_taken_for_a_slow_client() -> None:
    thought = asyncio.Event()

    async def think(_: Request) -> Response:
        await thought.wait()
        return PlainTextResponse("thought")

    connection, wire, clock = connected(Starlette(routes=[Route("/", think)]))
    connection.data_received(GREETING)
    clock.goes_on()
    thought.set()
    await until(lambda: wire.written.endswith(b"thought"))
    assert b"200 OK" in wire.written


async def test_who_says_no_more_after_an_answer_loses_the_connection() -> None:
    connection, wire, clock = connected(APPLICATION)
    connection.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    await until(lambda: connection.cycle.response_complete)
    connection.data_received(b"GET / HT")
    clock.goes_on()
    assert wire.aborted


@pytest.mark.parametrize("said", SLOW)
async def test_the_servers_end_waits_for_nobody(said: bytes) -> None:
    """`serving` has a limit for the end; a client that says no more holds a connection all the while."""
    async with serving() as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        await writer.drain()
        await asked(port)  # so the server has seen the other one
    writer.transport.abort()


async def test_half_a_handshake_does_not_hold_the_end_up(tmp_path: Path, made: Authorities) -> None:
    async with serving(context(settings(tmp_path, made))) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"\x16\x03\x01")
        await writer.drain()
        await asked(port, trusting(made.root))
    writer.transport.abort()


async def test_a_request_in_work_at_the_end_is_told_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    working = asyncio.Event()

    async def never(_: Request) -> Response:
        working.set()
        await asyncio.Event().wait()
        return Response()

    async with serving(application=Starlette(routes=[Route("/", never)])) as port:
        asking = asyncio.create_task(asked(port))
        await working.wait()
    answer = await asking
    assert answer.startswith("HTTP/1.1 503 ")
    assert "shutting down" in answer
    assert "Exception in ASGI" not in caplog.text
    # In our words, and no error: asking a worker to end is nothing that went wrong.
    assert [each.levelname for each in caplog.records if each.levelno >= logging.WARNING] == []
    assert "1 request not answered at the worker's end, and told so" in caplog.text


async def test_of_too_many_connections_those_go_that_keep_the_server_waiting_longest() -> None:
    async with serving(most_connections=20) as port:
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(30)]
        try:
            assert (await asked(port)).startswith("HTTP/1.1 200")
            async with asyncio.timeout(PATIENCE_S):
                for reader, _ in idle[:10]:
                    with contextlib.suppress(ConnectionError):
                        assert await reader.read() == b""
            assert not any(reader.at_eof() for reader, _ in idle[12:])
        finally:
            for _, writer in idle:
                writer.close()


async def test_a_request_that_is_being_answered_keeps_its_connection() -> None:
    came, go_on = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> Response:
        came.set()
        await go_on.wait()
        return PlainTextResponse("done")

    application = Starlette(routes=[Route("/", slow)])
    async with serving(application=application, most_connections=5) as port:
        first = asyncio.create_task(asked(port))
        async with asyncio.timeout(PATIENCE_S):
            await came.wait()
        idle = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
        await asyncio.sleep(0.1)
        go_on.set()
        assert (await first).endswith("done")
        for _, writer in idle:
            writer.close()
