"""A server on a free port of this machine."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from mirror_connect.app.rest.http_servers import HttpServers

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
