"""One connection to one broker, with several requests in flight. connecting.py opens it.

aiokafka's connection is not used, because it copies. It reads 64 KB at a time, joins the pieces, and its structs copy them
again; it joins a request before it writes it. Here the kernel writes a response into one buffer (frame_buffers.py), and a
request's buffers go to the socket as they are.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections import deque
from typing import Any, Final, TypeVar, cast

from mirror_connect.kafka_io.client import wrong_protocol
from mirror_connect.kafka_io.client.frame_buffers import FrameBuffers
from mirror_connect.kafka_io.client.request_totals import RequestTotals
from mirror_connect.kafka_io.protocol.codec import (
    Buffer,
    Reader,
    Request,
    WireError,
    Writer,
)
from mirror_connect.kafka_io.protocol.connection_setup import ApiVersions

T = TypeVar("T")

# SO_LINGER with 0 seconds: closing discards what is not sent yet.
_CUT_OFF: Final = struct.pack("ii", 1, 0)
_SCRATCH: Final = 64 << 10
# Until the login is over, responses have a few hundred bytes. A server that is not Kafka, or only pretends to be our broker,
# must not make this process allocate a large frame.
_LARGEST_FIRST_FRAME: Final = 1 << 20
_WRITE_HIGH: Final = 1 << 20


class ConnectionLost(ConnectionError):
    """A request got no response; the broker may or may not have executed it.

    `broker`: `host:port`, if known; the text begins with it.
    """

    def __init__(self, reason: str, broker: str = "") -> None:
        super().__init__(f"broker {broker}: {reason}" if broker else reason)
        self.reason = reason


class RequestTimedOut(ConnectionLost):
    """No response within request.timeout.ms: the broker hangs, or the link is too slow for what was requested."""


class UnsupportedByBroker(Exception):
    """The broker supports no version of a request that this client can write."""


class _Frames(asyncio.BufferedProtocol):
    """Splits the stream into frames. The rest of an incomplete frame is read into the frame's own buffer."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._scratch = bytearray(_SCRATCH)
        self._scratch_view = memoryview(self._scratch)
        self._used = 0
        self._buffers = FrameBuffers()
        self._frame: memoryview | None = None
        self._filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.transport = cast(asyncio.Transport, transport)
        self._connection.transport.set_write_buffer_limits(_WRITE_HIGH)
        # When this process ends, the system must send nothing more: on a slow link, a batch would arrive after another task
        # has written to its partition. Code that closes a connection has all responses, or does not want them any more.
        made = transport.get_extra_info("socket")
        if made is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CUT_OFF)

    def connection_lost(self, exc: Exception | None) -> None:
        # A broker that closes a connection with unread bytes resets it.
        closed = exc is None or isinstance(exc, ConnectionResetError)
        self._connection.lost(self._connection.hung_up() if closed else str(exc))

    def pause_writing(self) -> None:
        self._connection.writable.clear()

    def resume_writing(self) -> None:
        self._connection.writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        # Exactly the rest of the frame: the next frame must not be read into a buffer that is passed on.
        return self._scratch_view[self._used :] if self._frame is None else self._frame[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._frame is not None:
            self._filled += nbytes
            if self._filled == len(self._frame):
                frame, self._frame = self._frame, None
                self._connection.received(frame)
            return
        self._used += nbytes
        start = 0
        while self._used - start >= 4:
            size = int.from_bytes(self._scratch_view[start : start + 4], "big", signed=True)
            if not 0 < size <= self._connection.largest_frame:
                head = bytes(self._scratch_view[start : start + 4])
                self._connection.lost(wrong_protocol.not_kafka(self._connection.protocol, head))
                return
            start += 4
            have = self._scratch_view[start : min(start + size, self._used)]
            start += len(have)
            frame = self._buffers.room(size)
            frame[: len(have)] = have
            if len(have) < size:
                self._frame, self._filled = frame, len(have)
            else:
                self._connection.received(frame)
        rest = self._used - start
        self._scratch[:rest] = self._scratch[start : self._used]
        self._used = rest


class _InFlightRequest:
    """A request without a response yet."""

    __slots__ = ("answer", "correlation", "request", "timer", "version", "written")

    def __init__(
        self, correlation: int, request: Request[Any], version: int, answer: asyncio.Future[Any], timer: asyncio.Handle
    ) -> None:
        self.written = time.monotonic()
        self.correlation = correlation
        self.request = request
        self.version = version
        self.answer = answer
        self.timer = timer


class Connection:
    """A connection; open it with connecting.open_connection. `last_used`, `login_expires`: times of time.monotonic().

    `protocol`: the security.protocol, for texts. `largest_frame`: the most bytes of a response. `versions`: by API key, the
    lowest and highest version that the broker supports. `awaited`: how many callers have not yet seen the result of their
    request; the owner counts them. `totals`: gets what there is to count.
    """

    def __init__(
        self,
        address: str,
        client_id: str,
        request_timeout: float,
        protocol: str = "PLAINTEXT",
        totals: RequestTotals | None = None,
    ) -> None:
        self.address = address
        self.protocol = protocol
        self.largest_frame = _LARGEST_FIRST_FRAME
        self.transport: asyncio.Transport | None = None
        self.writable = asyncio.Event()
        self.writable.set()
        self.broken: str | None = None
        self.last_used = time.monotonic()
        self.login_expires: float | None = None
        self.awaited = 0
        self.totals = totals or RequestTotals()
        self._client_id = client_id.encode()
        self._timeout = request_timeout
        self._loop = asyncio.get_running_loop()
        self.versions: dict[int, tuple[int, int]] = {ApiVersions.api_key: ApiVersions.versions}
        self._in_flight: deque[_InFlightRequest] = deque()
        self._correlation = 0
        self._closed = self._loop.create_future()

    def frames(self) -> asyncio.BufferedProtocol:
        """The protocol that splits this connection's stream into frames, for loop.create_connection."""
        return _Frames(self)

    @property
    def in_flight(self) -> int:
        """The number of requests without a response."""
        return len(self._in_flight)

    def version_of(self, request: Request[Any]) -> int:
        """The highest version that both sides support. Raises UnsupportedByBroker."""
        lowest, highest = self.versions.get(request.api_key, (0, -1))
        version = min(highest, request.highest)
        if version < max(lowest, request.lowest):
            its = f"v{lowest} to v{highest}" if request.api_key in self.versions else "in no version"
            raise UnsupportedByBroker(
                f"broker {self.address} supports {type(request).__name__} {its}, "
                f"this client v{request.lowest} to v{request.highest}; Kafka 2.8 or newer is needed"
            )
        return version

    def start(self, request: Request[T]) -> asyncio.Future[T]:
        """Writes a request and returns a future of its response, or of ConnectionLost. Does not wait: see `writable`."""
        if self.broken is not None or self.transport is None:
            raise ConnectionLost(self.broken or "not connected", self.address)
        version = self.version_of(request)
        flexible = version >= request.flexible_from
        correlation = self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        writer = Writer(flexible=flexible)
        request.encode(version, writer)
        buffers = writer.buffers()
        head = b"".join(
            (
                request.api_key.to_bytes(2, "big"),
                version.to_bytes(2, "big"),
                correlation.to_bytes(4, "big"),
                len(self._client_id).to_bytes(2, "big"),
                self._client_id,
                b"\0" if flexible else b"",
            )
        )
        size = len(head) + sum(map(len, buffers))
        self._write([size.to_bytes(4, "big") + head + buffers[0], *buffers[1:]])
        self.totals.of(request).sent += size
        answer: asyncio.Future[T] = self._loop.create_future()
        timer = self._loop.call_later(self._timeout, self._timed_out, correlation)
        self._in_flight.append(_InFlightRequest(correlation, request, version, answer, timer))
        self.last_used = time.monotonic()
        return answer

    def _write(self, buffers: list[Buffer]) -> None:
        assert self.transport is not None
        if len(buffers) == 1:
            self.transport.write(buffers[0])
        else:
            self.transport.writelines(buffers)

    def received(self, frame: memoryview) -> None:
        """Takes a whole frame: the response to the oldest request in flight."""
        if self.broken is not None:
            return
        self.last_used = time.monotonic()
        reader = Reader(frame)
        try:
            correlation = reader.int32()
            if not self._in_flight or self._in_flight[0].correlation != correlation:
                raise WireError(f"its response is to request {correlation}, which is not the oldest one in flight")
            waiting = self._in_flight[0]
            reader.flexible = waiting.version >= waiting.request.flexible_from
            reader.tags()
            answer = None if waiting.answer.done() else waiting.request.decode(waiting.version, reader)
        except (WireError, UnicodeDecodeError) as error:
            self.lost(str(error))
            return
        self._in_flight.popleft()
        waiting.timer.cancel()
        self.totals.of(waiting.request).answered(self.last_used - waiting.written, len(frame))
        if not waiting.answer.done():
            waiting.answer.set_result(answer)

    @property
    def silent_s(self) -> float:
        """Seconds for which the oldest request has had no response; 0 if none is in flight."""
        return time.monotonic() - self._in_flight[0].written if self._in_flight else 0.0

    async def answered(self) -> None:
        """Waits until nothing is in flight."""
        while self._in_flight:
            await asyncio.wait([waiting.answer for waiting in self._in_flight])

    def _timed_out(self, correlation: int) -> None:
        kind = next((type(w.request).__name__ for w in self._in_flight if w.correlation == correlation), "request")
        self.lost(f"no answer to {kind} within {round(self._timeout * 1000)} ms (request.timeout.ms)", RequestTimedOut)

    def hung_up(self) -> str:
        """Why the broker may have closed the connection; one that expects another protocol does so at once."""
        return wrong_protocol.hung_up(self.protocol, self._correlation)

    def lost(self, reason: str, error: type[ConnectionLost] = ConnectionLost) -> None:
        """Ends the connection: all requests in flight fail with `error`."""
        if self.broken is None:
            self.broken = reason
            if self.transport is not None:
                self.transport.abort()
        while self._in_flight:
            waiting = self._in_flight.popleft()
            waiting.timer.cancel()
            self.totals.of(waiting.request).errors += 1
            if not waiting.answer.done():
                waiting.answer.set_exception(error(self.broken, self.address))
                # Counts as retrieved: asyncio must not log an exception that no caller waits for any more.
                waiting.answer.exception()
        self.writable.set()
