"""One authenticated connection to one broker: frames out, frames in, several requests in flight.

Not aiokafka's connection: that reads frames through a StreamReader (64 KB at a time, joined, then copied again by its
structs), joins a request before it is written, and offers no raw frames. Here the kernel writes an answer into a buffer
of exactly its size, and a request's buffers go to the socket as they are. aiokafka's SASL authenticators are used.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar, cast

from aiokafka.conn import OAuthAuthenticator, SaslPlainAuthenticator

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.kafka_io.client import wrong_protocol
from mirror_connect.kafka_io.client.scram import BoundedScram, ScramProblem
from mirror_connect.kafka_io.protocol.wire_codec import (
    NONE,
    SASL_AUTHENTICATION_FAILED,
    Buffer,
    Reader,
    Request,
    WireError,
    Writer,
    error_name,
)
from mirror_connect.kafka_io.protocol.wire_control import ApiVersions, SaslAuthenticate, SaslHandshake

T = TypeVar("T")

# l_onoff, l_linger: no time.
_CUT_OFF: Final = struct.pack("ii", 1, 0)
_SCRATCH: Final = 64 << 10
_LARGEST_FRAME: Final = 1 << 30
# Versions take a few hundred bytes, and so do the steps of a login. What is no broker of Kafka's would have us take memory
# for a frame of its letters; so would whoever stands in for a broker, but can't log us in.
_LARGEST_FIRST_FRAME: Final = 1 << 20
_WRITE_HIGH: Final = 1 << 20
# A broker's answer to a login on a listener that has none.
_ILLEGAL_SASL_STATE: Final = 34
# What OpenSSL says of an answer that is no TLS.
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "UNEXPECTED_EOF_WHILE_READING"})
# A login is renewed (by a new connection) when this much of its life is over; Java takes 85 to 95 %.
_LOGIN_LIFE: Final = 0.85


class ConnectionLost(ConnectionError):
    """A request has no answer, and nobody knows whether the broker carried it out. Names the broker and the reason."""


class RequestTimedOut(ConnectionLost):
    """No answer within request.timeout.ms: the broker hangs, or the link carries less than was asked of it in that time."""


class UnsupportedByBroker(Exception):
    """The broker knows no version of a request that is written here."""


class TokenProvider(Protocol):
    """Gives an OAuth bearer token (aiokafka.abc.AbstractTokenProvider has this form)."""

    async def token(self) -> str:
        """A token that is valid now."""


@dataclass(frozen=True, slots=True)
class Login:
    """How to prove who we are. `mechanism`: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    token_provider: TokenProvider | None = field(default=None, repr=False)


class _Frames(asyncio.BufferedProtocol):
    """Cuts the stream into frames. A frame that isn't whole yet gets its own buffer, which the rest is read into."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._scratch = bytearray(_SCRATCH)
        self._scratch_view = memoryview(self._scratch)
        self._used = 0
        self._frame: memoryview | None = None
        self._filled = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connection.transport = cast(asyncio.Transport, transport)
        self._connection.transport.set_write_buffer_limits(_WRITE_HIGH)
        # However this process ends, the system sends nothing more: on a slow link a batch would arrive when another task has
        # long written to its partition. Who ends a connection has had all answers, or has given them up.
        made = transport.get_extra_info("socket")
        if made is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _CUT_OFF)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.lost(str(exc) if exc else self._connection.hung_up())

    def pause_writing(self) -> None:
        self._connection.writable.clear()

    def resume_writing(self) -> None:
        self._connection.writable.set()

    def get_buffer(self, sizehint: int) -> memoryview:
        # Exactly the rest of the frame: what follows it must not be read into a buffer that is handed on.
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
            frame = memoryview(bytearray(size))
            frame[: len(have)] = have
            if len(have) < size:
                self._frame, self._filled = frame, len(have)
            else:
                self._connection.received(frame)
        rest = self._used - start
        self._scratch[:rest] = self._scratch[start : self._used]
        self._used = rest


class _Waiting:
    """A request on its way."""

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
    """Open it with `open_connection`. `last_used` and `login_expires` are times of time.monotonic().

    `protocol`: the security.protocol, for texts. `largest_frame`: bytes that are taken for an answer at most. `awaited`
    is kept by the owner: how many of its callers have not yet seen how their request ended.
    """

    def __init__(self, address: str, client_id: str, request_timeout: float, protocol: str = "PLAINTEXT") -> None:
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
        self._client_id = client_id.encode()
        self._timeout = request_timeout
        self._loop = asyncio.get_running_loop()
        self._versions: dict[int, tuple[int, int]] = {ApiVersions.api_key: ApiVersions.versions}
        self._waiting: deque[_Waiting] = deque()
        self._correlation = 0
        self._closed = self._loop.create_future()

    @property
    def in_flight(self) -> int:
        """Requests not answered yet."""
        return len(self._waiting)

    def version_of(self, request: Request[Any]) -> int:
        """The version both sides know. Raises UnsupportedByBroker."""
        lowest, highest = self._versions.get(request.api_key, (0, -1))
        version = min(highest, request.highest)
        if version < max(lowest, request.versions[0]):
            raise UnsupportedByBroker(
                f"broker {self.address} takes {type(request).__name__} v{lowest} to v{highest}, "
                f"this client writes v{request.versions[0]} to v{request.highest}; Kafka 2.8 or newer is needed"
            )
        return version

    def start(self, request: Request[T]) -> asyncio.Future[T]:
        """Write a request; the future brings its answer, or ConnectionLost. Doesn't wait: see `writable`."""
        if self.broken is not None or self.transport is None:
            raise ConnectionLost(f"broker {self.address}: {self.broken or 'not connected'}")
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
        size = (len(head) + sum(map(len, buffers))).to_bytes(4, "big")
        self._write([size + head + buffers[0], *buffers[1:]])
        answer: asyncio.Future[T] = self._loop.create_future()
        timer = self._loop.call_later(self._timeout, self._timed_out, correlation)
        self._waiting.append(_Waiting(correlation, request, version, answer, timer))
        self.last_used = time.monotonic()
        return answer

    def _write(self, buffers: list[Buffer]) -> None:
        assert self.transport is not None
        if len(buffers) == 1:
            self.transport.write(buffers[0])
        else:
            self.transport.writelines(buffers)

    def received(self, frame: memoryview) -> None:
        """A whole frame has come: the answer to the oldest request in flight."""
        if self.broken is not None:
            return
        self.last_used = time.monotonic()
        reader = Reader(frame)
        try:
            correlation = reader.int32()
            if not self._waiting or self._waiting[0].correlation != correlation:
                raise WireError(f"an answer to request {correlation}, which wasn't due")
            waiting = self._waiting[0]
            reader.flexible = waiting.version >= waiting.request.flexible_from
            reader.tags()
            answer = None if waiting.answer.done() else waiting.request.decode(waiting.version, reader)
        except (WireError, UnicodeDecodeError) as error:
            self.lost(str(error))
            return
        self._waiting.popleft()
        waiting.timer.cancel()
        if not waiting.answer.done():
            waiting.answer.set_result(answer)

    @property
    def silent_s(self) -> float:
        """For how long the oldest request has had no answer; 0 when none is in flight."""
        return time.monotonic() - self._waiting[0].written if self._waiting else 0.0

    async def answered(self) -> None:
        """Wait until nothing is in flight."""
        while self._waiting:
            await asyncio.wait([waiting.answer for waiting in self._waiting])

    def _timed_out(self, correlation: int) -> None:
        kind = next((type(w.request).__name__ for w in self._waiting if w.correlation == correlation), "request")
        self.lost(f"no answer to {kind} within {round(self._timeout * 1000)} ms (request.timeout.ms)", RequestTimedOut)

    def hung_up(self) -> str:
        """Why the broker may have closed the connection: one that wants another protocol does so at once."""
        return wrong_protocol.hung_up(self.protocol, self._correlation)

    def lost(self, reason: str, error: type[ConnectionLost] = ConnectionLost) -> None:
        """The connection is of no use any more: everything in flight fails with `error`."""
        if self.broken is None:
            self.broken = reason
            if self.transport is not None:
                self.transport.abort()
        while self._waiting:
            waiting = self._waiting.popleft()
            waiting.timer.cancel()
            if not waiting.answer.done():
                waiting.answer.set_exception(error(f"broker {self.address}: {self.broken}"))
                # Whoever stopped waiting must not draw a warning for an exception never fetched.
                waiting.answer.exception()
        self.writable.set()

    async def introduce(self, login: Login | None) -> None:
        """Learn the broker's versions and log in. Raises ConnectionLost, NotAuthorized."""
        self._versions = await self.start(ApiVersions())
        if login is not None:
            await self._authenticate(login)
        self.largest_frame = _LARGEST_FRAME

    async def _authenticate(self, login: Login) -> None:
        offered = await self.start(SaslHandshake(login.mechanism))
        if offered.error == _ILLEGAL_SASL_STATE:
            raise NotAuthorized(f"broker {self.address}: {wrong_protocol.no_login(self.protocol)}")
        if offered.error != NONE or login.mechanism not in offered.enabled:
            raise NotAuthorized(
                f"broker {self.address} doesn't take sasl.mechanism {login.mechanism}, "
                f"only {', '.join(offered.enabled) or 'none'}"
            )
        authenticator = self._authenticator(login)
        token: bytes | None = None
        while True:
            try:
                step = await authenticator.step(token)
            except (NotAuthorized, ConfigError):
                raise
            except ClusterUnreachable as error:
                # No token at present is no refusal: whoever asked tries again, as when the broker itself is away.
                raise ConnectionLost(f"broker {self.address}: no login: {error}") from None
            except Exception as error:  # noqa: BLE001 — whatever the broker has sent, and none of it is quoted
                reason = str(error) if isinstance(error, ScramProblem) else "the broker's answer makes no sense"
                raise NotAuthorized(f"broker {self.address}: SASL {login.mechanism} failed: {reason}") from None
            if step is None:
                return
            answer = await self.start(SaslAuthenticate(step[0]))
            if answer.error != NONE:
                who = f"user {login.username}" if login.username else "the token"
                said = answer.message or error_name(answer.error)
                if answer.error != SASL_AUTHENTICATION_FAILED:
                    said = f"{error_name(answer.error)} {answer.message}".rstrip()
                raise NotAuthorized(f"broker {self.address} refused {who} by SASL {login.mechanism}: {said}")
            if answer.session_ms > 0:
                self.login_expires = time.monotonic() + answer.session_ms / 1000 * _LOGIN_LIFE
            token = answer.token

    def _authenticator(self, login: Login) -> Any:
        if login.mechanism == "OAUTHBEARER":
            return OAuthAuthenticator(sasl_oauth_token_provider=login.token_provider)
        names = {"sasl_plain_username": login.username, "sasl_plain_password": login.password}
        if login.mechanism == "PLAIN":
            return SaslPlainAuthenticator(loop=self._loop, **names)
        return BoundedScram(loop=self._loop, sasl_mechanism=login.mechanism, **names)


async def open_connection(
    host: str,
    port: int,
    *,
    client_id: str,
    tls: ssl.SSLContext | None,
    login: Login | None,
    request_timeout: float,
    setup_timeout: float,
    send_buffer: int | None = None,
    receive_buffer: int | None = None,
) -> Connection:
    """Connect (trying every address of the host in turn), introduce, log in. Times in seconds.

    `send_buffer`, `receive_buffer`: bytes of the socket's buffers; None: the system's choice.

    Raises ConnectionLost with the reason of the last address tried, NotAuthorized.
    """
    loop = asyncio.get_running_loop()
    address = f"{host}:{port}"
    protocol = wrong_protocol.protocol_of(tls=tls is not None, login=login is not None)
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectionLost(f"broker {address}: the name can't be resolved ({error.strerror or error})") from None
    reason = "no address"
    for family, _, _, _, where in dict.fromkeys(found):
        connection = Connection(address, client_id, request_timeout, protocol)
        try:
            async with asyncio.timeout(setup_timeout):
                name = host if tls else None
                if send_buffer is None and receive_buffer is None:
                    await loop.create_connection(
                        lambda c=connection: _Frames(c), str(where[0]), port, ssl=tls, server_hostname=name
                    )
                else:
                    connected = await _connected(loop, family, where, send_buffer, receive_buffer)
                    await loop.create_connection(
                        lambda c=connection: _Frames(c), sock=connected, ssl=tls, server_hostname=name
                    )
        except TimeoutError:
            reason = f"no connection within {round(setup_timeout * 1000)} ms"
        except ssl.SSLCertVerificationError as error:
            reason = f"its certificate was not accepted: {error.verify_message}"
        except ssl.SSLError as error:
            reason = f"TLS failed: {error.reason or error}; is security.protocol={protocol} right?"
            if error.reason in _NOT_TLS:
                reason = wrong_protocol.no_tls(protocol)
        except OSError as error:
            # asyncio gives no text for a peer that hangs up in the middle of a TLS handshake.
            reason = error.strerror or str(error) or wrong_protocol.no_tls(protocol)
        else:
            try:
                await connection.introduce(login)
            except BaseException:
                connection.lost("given up while logging in")
                raise
            return connection
    raise ConnectionLost(f"broker {address}: {reason}")


async def _connected(
    loop: asyncio.AbstractEventLoop, family: int, where: Any, send_buffer: int | None, receive_buffer: int | None
) -> socket.socket:
    """A socket whose buffers are set before it is connected: how large a window may grow is agreed upon then."""
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setblocking(False)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for option, size in ((socket.SO_SNDBUF, send_buffer), (socket.SO_RCVBUF, receive_buffer)):
            if size is not None:
                made.setsockopt(socket.SOL_SOCKET, option, size)
        await loop.sock_connect(made, where)
    except BaseException:
        made.close()
        raise
    return made
