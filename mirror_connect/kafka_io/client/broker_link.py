"""Keeps a connection to a broker: opens it when needed, again when it broke, and waits while throttled.

All waiting before a request is sent happens here, so that requests keep their order.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import Final, TypeVar

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.client.client_settings import ConnectionSettings
from mirror_connect.kafka_io.client.connecting import Login, open_connection
from mirror_connect.kafka_io.client.connection import Connection, ConnectionLost
from mirror_connect.kafka_io.client.request_totals import RequestTotals
from mirror_connect.kafka_io.protocol.codec import Request

T = TypeVar("T")

_JITTER: Final = 0.2


class BrokerLink:
    """A connection to one broker for one purpose. `backs_off_until`: none is opened before (time.monotonic()).

    `totals`: gets what there is to count of its requests.
    """

    def __init__(self, host: str, port: int, settings: ConnectionSettings, totals: RequestTotals | None = None) -> None:
        self.backs_off_until = 0.0
        self._host = host
        self._port = port
        self._settings = settings
        self._totals = totals or RequestTotals()
        self._login = _login(settings)
        self._connection: Connection | None = None
        self._turn = asyncio.Lock()
        self._breaks = 0
        self._failures = 0
        self._throttled_until = 0.0
        self._closed = False
        self._address = f"{host}:{port}"

    @property
    def is_open(self) -> bool:
        """Whether there is a working connection."""
        return self._connection is not None and self._connection.broken is None

    @property
    def silent_s(self) -> float:
        """Seconds for which the oldest request has had no response; 0 if none is in flight."""
        return self._connection.silent_s if self._connection is not None else 0.0

    @property
    def is_busy(self) -> bool:
        """Whether a request is waiting to be sent or answered."""
        return self._turn.locked() or (self._connection is not None and self._connection.in_flight > 0)

    async def send(self, request: Request[T]) -> T:
        """Sends requests in order and waits for the response. Raises ConnectionLost, NotAuthorized, UnsupportedByBroker."""
        breaks = self._breaks
        async with self._turn:
            # A request that waited behind a lost one must not overtake its retry.
            if breaks != self._breaks:
                raise ConnectionLost("the connection broke before the request was sent", self._address)
            try:
                connection = await self._ready()
                answer = connection.start(request)
            except (ConnectionLost, NotAuthorized):
                self._totals.of(request).errors += 1
                self._breaks += 1
                raise
            connection.awaited += 1
        try:
            received = await answer
        finally:
            connection.awaited -= 1
        throttle_ms = getattr(received, "throttle_ms", 0)
        if throttle_ms > 0:
            # KIP-219: the broker has answered already, and does not read from this connection for so long.
            self._throttled_until = time.monotonic() + throttle_ms / 1000
            self._totals.of(request).throttled_ms += throttle_ms
        return received

    def close_idle(self) -> None:
        """Closes the connection if no request is in flight. The next request opens another one."""
        if self._connection is not None and not self.is_busy and self._connection.awaited == 0:
            self._connection.lost("closed because another connection to this broker got no answer")

    def close(self) -> None:
        """Closes the link: requests in flight and later ones raise ConnectionLost."""
        self._closed = True
        self._breaks += 1
        if self._connection is not None:
            self._connection.lost("closed by this side")
            self._connection = None

    async def _ready(self) -> Connection:
        """The connection, once it may take a request: not throttled, writable, not about to be closed as idle."""
        delay = self._throttled_until - time.monotonic()
        if delay > 0:
            await asyncio.sleep(delay)
        connection = self._connection
        if connection is not None and connection.broken is None:
            now = time.monotonic()
            max_idle = self._settings.connections_max_idle_ms / 1000
            idle = connection.in_flight == 0 and 0 <= max_idle < now - connection.last_used
            expired = connection.login_expires is not None and now > connection.login_expires
            if idle or expired:
                await connection.answered()
                connection.lost("closed because it was idle too long or its login expired")
        if connection is not None and connection.broken is not None and connection.awaited > 0:
            # Some callers do not know yet that their requests are lost; a new request must not overtake their retries.
            raise ConnectionLost(connection.broken, self._address)
        if connection is None or connection.broken is not None:
            connection = self._connection = await self._open()
        await connection.writable.wait()
        return connection

    async def _open(self) -> Connection:
        delay = self.backs_off_until - time.monotonic()
        if delay > 0:
            await asyncio.sleep(delay)
        if self._closed:
            raise ConnectionLost("closed by this side", self._address)
        settings = self._settings
        try:
            connection = await open_connection(
                self._host,
                self._port,
                client_id=settings.client_id,
                tls=settings.ssl_context,
                login=self._login,
                request_timeout=settings.request_timeout_ms / 1000,
                setup_timeout=self._setup_timeout(),
                send_buffer=settings.send_buffer_bytes,
                receive_buffer=settings.receive_buffer_bytes,
                totals=self._totals,
            )
        except BaseException:
            pause_ms = min(settings.reconnect_backoff_ms * 2**self._failures, settings.reconnect_backoff_max_ms)
            self._failures = min(self._failures + 1, 16)
            self.backs_off_until = time.monotonic() + pause_ms / 1000 * random.uniform(1 - _JITTER, 1 + _JITTER)
            raise
        self._failures = 0
        # Also after success: a broker that accepts and closes connections must not cause a busy loop.
        self.backs_off_until = time.monotonic() + settings.reconnect_backoff_ms / 1000
        if self._closed:
            connection.lost("closed by this side")
        return connection

    def _setup_timeout(self) -> float:
        """Seconds to open a connection: doubled after each failure in a row, up to a limit (KIP-601)."""
        least = self._settings.socket_connection_setup_timeout_ms
        most = self._settings.socket_connection_setup_timeout_max_ms
        if least >= most:
            return most / 1000
        grown: float = min(least * 2**self._failures, most) * random.uniform(1 - _JITTER, 1 + _JITTER)
        return min(grown, most) / 1000


def _login(settings: ConnectionSettings) -> Login | None:
    if settings.sasl_mechanism is None:
        return None
    return Login(settings.sasl_mechanism, settings.username, settings.password, settings.token_provider)
