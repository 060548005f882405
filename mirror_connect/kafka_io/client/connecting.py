"""Opens a connection to a broker: the socket, TLS, the broker's versions, the SASL login.

The SASL authenticators are aiokafka's; scram.py adds limits to SCRAM.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from aiokafka.conn import OAuthAuthenticator, SaslPlainAuthenticator

from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.kafka_io.client import wrong_protocol
from mirror_connect.kafka_io.client.connection import Connection, ConnectionLost
from mirror_connect.kafka_io.client.request_totals import RequestTotals
from mirror_connect.kafka_io.client.scram import BoundedScram, ScramProblem
from mirror_connect.kafka_io.protocol.connection_setup import ApiVersions, SaslAuthenticate, SaslHandshake
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, error_name

_LARGEST_FRAME: Final = 1 << 30
# OpenSSL's errors for a response that is not TLS.
_NOT_TLS: Final = frozenset({"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "UNEXPECTED_EOF_WHILE_READING"})
# A login is renewed, by a new connection, after this part of its lifetime; in Java it is 85 to 95 %.
_LOGIN_LIFE: Final = 0.85


class TokenProvider(Protocol):
    """Provides OAuth bearer tokens, as aiokafka.abc.AbstractTokenProvider does."""

    async def token(self) -> str:
        """A token that is valid now."""


@dataclass(frozen=True, slots=True)
class Login:
    """How a connection logs in. `mechanism`: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    token_provider: TokenProvider | None = field(default=None, repr=False)


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
    totals: RequestTotals | None = None,
) -> Connection:
    """Connects to the first address of the host that accepts it, asks for versions, logs in. Times in seconds.

    `send_buffer`, `receive_buffer`: bytes of the socket's buffers; None: the system's choice. `totals`: see Connection.

    Raises ConnectionLost with the reason of the last address tried, NotAuthorized.
    """
    loop = asyncio.get_running_loop()
    address = f"{host}:{port}"
    protocol = wrong_protocol.protocol_of(tls=tls is not None, login=login is not None)
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise ConnectionLost(f"the name can't be resolved ({error.strerror or error})", address) from None
    reason = "no address"
    for family, _, _, _, where in dict.fromkeys(found):
        connection = Connection(address, client_id, request_timeout, protocol, totals)
        try:
            async with asyncio.timeout(setup_timeout):
                name = host if tls else None
                if send_buffer is None and receive_buffer is None:
                    await loop.create_connection(connection.frames, str(where[0]), port, ssl=tls, server_hostname=name)
                else:
                    connected = await _connected(loop, family, where, send_buffer, receive_buffer)
                    await loop.create_connection(connection.frames, sock=connected, ssl=tls, server_hostname=name)
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
                await introduce(connection, login)
            except BaseException:
                connection.lost("given up while logging in")
                raise
            return connection
    raise ConnectionLost(reason, address)


async def _connected(
    loop: asyncio.AbstractEventLoop, family: int, where: Any, send_buffer: int | None, receive_buffer: int | None
) -> socket.socket:
    """Connects a socket. Its buffers are set before that, because connecting fixes how large TCP's window may become."""
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


async def introduce(connection: Connection, login: Login | None) -> None:
    """Asks for the broker's versions and logs in. Raises ConnectionLost, NotAuthorized."""
    answer = await connection.start(ApiVersions())
    if answer.error != ErrorCode.NONE:
        # Without its versions nothing can be asked; a broker that starts or ends may answer otherwise in a moment.
        reason = f"it answered {error_name(answer.error)} when it was asked for its versions"
        raise ConnectionLost(reason, connection.address)
    connection.versions = answer.versions
    if login is not None:
        await _authenticate(connection, login)
    connection.largest_frame = _LARGEST_FRAME


async def _authenticate(connection: Connection, login: Login) -> None:
    offered = await connection.start(SaslHandshake(login.mechanism))
    if offered.error == ErrorCode.ILLEGAL_SASL_STATE:
        raise NotAuthorized(f"broker {connection.address}: {wrong_protocol.no_login(connection.protocol)}")
    if offered.error != ErrorCode.NONE or login.mechanism not in offered.enabled:
        raise NotAuthorized(
            f"broker {connection.address} does not offer sasl.mechanism {login.mechanism}, "
            f"only {', '.join(offered.enabled) or 'none'}"
        )
    authenticator = _authenticator(login)
    token: bytes | None = None
    while True:
        try:
            step = await authenticator.step(token)
        except (NotAuthorized, ConfigError):
            raise
        except ClusterUnreachable as error:
            # A missing token is no refusal: the caller tries again, as for a broker that is away.
            raise ConnectionLost(f"no login: {error}", connection.address) from None
        except Exception as error:  # noqa: BLE001 — any error in what the broker sent, which is never quoted
            reason = str(error) if isinstance(error, ScramProblem) else "the broker's answer is invalid"
            raise NotAuthorized(f"broker {connection.address}: SASL {login.mechanism} failed: {reason}") from None
        if step is None:
            return
        answer = await connection.start(SaslAuthenticate(step[0]))
        if answer.error != ErrorCode.NONE:
            subject = f"user {login.username}" if login.username else "the token"
            reason = answer.message or error_name(answer.error)
            if answer.error != ErrorCode.SASL_AUTHENTICATION_FAILED:
                reason = f"{error_name(answer.error)} {answer.message}".rstrip()
            raise NotAuthorized(f"broker {connection.address} refused {subject} by SASL {login.mechanism}: {reason}")
        if answer.session_ms > 0:
            connection.login_expires = time.monotonic() + answer.session_ms / 1000 * _LOGIN_LIFE
        token = answer.token


def _authenticator(login: Login) -> Any:
    if login.mechanism == "OAUTHBEARER":
        return OAuthAuthenticator(sasl_oauth_token_provider=login.token_provider)
    names = {"sasl_plain_username": login.username, "sasl_plain_password": login.password}
    if login.mechanism == "PLAIN":
        return SaslPlainAuthenticator(loop=asyncio.get_running_loop(), **names)
    return BoundedScram(loop=asyncio.get_running_loop(), sasl_mechanism=login.mechanism, **names)
