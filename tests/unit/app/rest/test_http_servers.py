"""Slow clients, too many of them, and a server's end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from uvicorn.server import ServerState

from mirror_connect.app.rest import http_servers
from tests.fakes.http_listener import APPLICATION, GREETING, PATIENCE_S, asked, serving, told


async def test_names_of_headers_are_written_as_by_connect() -> None:
    async with serving() as port:
        head = (await asked(port)).partition("\r\n\r\n")[0]
    assert {"Content-Type", "Content-Length"} <= {line.partition(":")[0] for line in head.splitlines()}


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

    close = abort

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


@contextlib.asynccontextmanager
async def connected(application: Any) -> AsyncIterator[tuple[Any, Wire, Clock]]:
    """A connection of the server, open. At the end the client leaves, and what still answered it has ended."""
    config = uvicorn.Config(application, log_config=None, lifespan="off")
    config.load()
    wire, clock, state = Wire(), Clock(), ServerState()
    connection = http_servers._Impatient(config, state, {}, clock)
    connection.connection_made(wire)
    try:
        yield connection, wire, clock
    finally:
        wire.abort()
        connection.connection_lost(None)
        # Left to the garbage collector, they would be found in the middle of whichever test runs then.
        await asyncio.gather(*state.tasks, return_exceptions=True)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await asyncio.sleep(0)


async def test_each_piece_of_a_body_begins_the_wait_anew() -> None:
    async with connected(APPLICATION) as (connection, wire, clock):
        connection.data_received(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n")
        before = list(clock.timers)
        connection.data_received(b"x")
        clock.timers = before
        clock.goes_on()
        assert not wire.aborted


async def test_more_of_a_head_does_not() -> None:
    async with connected(APPLICATION) as (connection, wire, clock):
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

    async with connected(Starlette(routes=[Route("/", think)])) as (connection, wire, clock):
        connection.data_received(GREETING)
        clock.goes_on()
        thought.set()
        await until(lambda: wire.written.endswith(b"thought"))
        assert b"200 OK" in wire.written


async def test_who_says_no_more_after_an_answer_loses_the_connection() -> None:
    async with connected(APPLICATION) as (connection, wire, clock):
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
    assert "1 request cancelled, because the worker stops" in caplog.text


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
