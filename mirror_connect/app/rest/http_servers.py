"""The worker's HTTP servers: on sockets that are open already, in the worker's own loop, ended together.

All waits have a limit. A client that sends byte by byte, or stops in the middle of a TLS handshake, delays no other client,
loses its connection after a while, and does not delay the worker's end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Iterator, Sequence
from typing import Any, Final

import uvicorn
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from mirror_connect.app.errors import ShuttingDown
from mirror_connect.connectors.wording import counted

log = logging.getLogger(__name__)

# Longest wait for the whole head of a request, and for the next byte of its body. Connect closes an idle one after 90 s.
PATIENCE_S: Final = 30.0
# Of one server. An idle connection takes about 50 KiB.
MOST_CONNECTIONS: Final = 512
# How much of a refused body the server still reads, so that the sender can read the answer.
LEFTOVER_BYTES: Final = 32 << 20
# The time that open requests have when the worker ends, before they get 503.
END_PATIENCE_S: Final = 1


class HttpServers:
    """Servers that start one by one and end together."""

    def __init__(self) -> None:
        self._servers: list[uvicorn.Server] = []
        self._serving: list[asyncio.Task[None]] = []

    def serve(
        self,
        application: ASGIApp,
        sockets: Sequence[socket.socket],
        tls: ssl.SSLContext | None = None,
        most_connections: int | None = MOST_CONNECTIONS,
        known: str = "",
    ) -> None:
        """Begins to answer on listening sockets; https with `tls`. `most_connections`: None for any number.

        `known`: what the application sets in the state of a request to have its connection not counted among these.
        """
        if not sockets:
            return
        server = _Server(server_settings(application, tls, most_connections, known))
        self._servers.append(server)
        self._serving.append(asyncio.create_task(server.serve(sockets=list(sockets))))

    async def end(self) -> None:
        """Closes every socket; returns when open requests are answered or cancelled."""
        for server in self._servers:
            server.should_exit = True
        await asyncio.gather(*self._serving)


def server_settings(
    application: ASGIApp,
    tls: ssl.SSLContext | None = None,
    most_connections: int | None = MOST_CONNECTIONS,
    known: str = "",
) -> uvicorn.Config:
    """uvicorn's settings for an application, loaded."""
    settings = uvicorn.Config(
        _Ended(_Capitalised(application)),
        http=type("Bounded", (_Impatient,), {"most_connections": most_connections, "known": known}),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # As in Connect: X-Forwarded-… has no effect, because anybody can send it.
        proxy_headers=False,
        # Never reached, see _Server.
        timeout_graceful_shutdown=END_PATIENCE_S + 1,
    )
    settings.load()
    settings.ssl = tls
    return settings


class _Server(uvicorn.Server):
    """uvicorn without its signal handlers: the worker's own handlers end its tasks first."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def _wait_tasks_to_complete(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_PATIENCE_S):
                await super()._wait_tasks_to_complete()
                return
        # uvicorn does the same when its own time is over, but logs an error; here it is expected.
        if open_requests := list(self.server_state.tasks):
            log.info("%s cancelled, because the worker stops", counted(len(open_requests), "request"))
        for request in open_requests:
            request.cancel()


class _Impatient(H11Protocol):
    """A connection that the server closes when the client is too slow to send the rest of a request.

    If there are too many connections, the server closes the one that has waited longest for its client. Those of clients
    that are known are not counted, and not closed.
    """

    most_connections: int | None = None
    known: str = ""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._watch: asyncio.TimerHandle | None = None
        self._leftover = 0
        self._waits_since = 0.0
        self._is_known = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()
        if self.most_connections is not None and len(self.connections) > self.most_connections:
            strangers = [each for each in self.connections if isinstance(each, _Impatient) and not each.is_known]
            if len(strangers) <= self.most_connections:
                return
            waiting = [each for each in strangers if each.kept_waiting]
            min(waiting, key=lambda each: each._waits_since, default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._wait_no_longer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        if before is not None and before.response_complete and before.more_body:
            self._leftover += len(data)
            if self._leftover > LEFTOVER_BYTES:
                self.transport.abort()
                return
        super().data_received(data)
        # More bytes of a head do not extend the wait for its end. The end of a head, and each piece of a body, do.
        if self._reading_body() or self.cycle is not before:
            self._wait()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._is_known = self.is_known
        self._leftover = 0
        self._wait()

    @property
    def is_known(self) -> bool:
        """Whether the application has said so, of a request before or of this one."""
        return self._is_known or (self.cycle is not None and self.known in self.scope["state"])

    @property
    def kept_waiting(self) -> bool:
        """Whether the server waits for the client. Otherwise it is answering a request."""
        return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

    def _reading_body(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self) -> None:
        self._wait_no_longer()
        if not (self._reading_body() and self._waits_since):
            # Single bytes of a body do not make the connection count as newer.
            self._waits_since = self.loop.time()
        self._watch = self.loop.call_later(PATIENCE_S, self._overdue)

    def _wait_no_longer(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    def _overdue(self) -> None:
        if self._reading_body() and not self.cycle.more_body:
            return  # the server is slow, not the client; the end of the answer begins the next wait
        if not self.transport.is_closing():
            # At once: to close TLS cleanly would wait for the client again.
            self.transport.abort()


class _Capitalised:
    """Capitalises the names of headers as Connect does (`Location`): scripts find them with grep."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def capitalised(message: Message) -> None:
            if message["type"] == "http.response.start":
                # Except `connection`: uvicorn checks for it before it adds its own.
                headers = [
                    (name if name == b"connection" else name.title(), value) for name, value in message["headers"]
                ]
                message = {**message, "headers": headers}
            await send(message)

        await self._application(scope, receive, capitalised)


class _Ended:
    """Answers 503 to requests that the server's end cancels, instead of logging each as a bug."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noted(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._application(scope, receive, noted)
        except asyncio.CancelledError:
            if not begun:
                error = ShuttingDown()
                body = {"error_code": error.status, "message": str(error)}
                await JSONResponse(body, error.status, headers={"Connection": "close"})(scope, receive, send)
