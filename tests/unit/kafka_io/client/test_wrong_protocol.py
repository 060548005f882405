"""The way a listener ends a connection shows that it has another security.protocol."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable

import pytest

from mirror_connect.connectors.errors import NotAuthorized
from mirror_connect.kafka_io.client import wrong_protocol
from mirror_connect.kafka_io.client.connecting import Login, open_connection
from mirror_connect.kafka_io.client.connection import ConnectionLost

LOGIN = Login("PLAIN", "alice", "hunter2")
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def told(serve: Serve, *, tls: bool = False, login: Login | None = None) -> str:
    """The error of a client of this server."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        context = ssl.create_default_context() if tls else None
        with pytest.raises((ConnectionLost, NotAuthorized)) as caught:
            await open_connection(
                "127.0.0.1", port, client_id="t", tls=context, login=login, request_timeout=60, setup_timeout=60
            )
    return str(caught.value).replace(f":{port}", "")


async def hang_up_at_once(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def answer_with_an_alert(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(bytes.fromhex("15030300020250"))


@pytest.mark.parametrize(
    ("login", "right", "given"), [(None, "SSL", "PLAINTEXT"), (LOGIN, "SASL_SSL", "SASL_PLAINTEXT")]
)
async def test_a_plain_client_recognizes_tls_by_the_alert(login: Login | None, right: str, given: str) -> None:
    assert await told(answer_with_an_alert, login=login) == (
        f"broker 127.0.0.1: it speaks TLS there: security.protocol has to be {right}, not {given}"
    )


async def test_a_plain_client_whose_connection_closes_at_once_is_pointed_to_tls() -> None:
    assert await told(hang_up_at_once) == (
        "broker 127.0.0.1: the broker closed the connection at once, as a listener with TLS does: then security.protocol "
        "has to be SSL, not PLAINTEXT"
    )


@pytest.mark.parametrize(
    ("login", "right", "given"), [(None, "PLAINTEXT", "SSL"), (LOGIN, "SASL_PLAINTEXT", "SASL_SSL")]
)
async def test_a_tls_client_whose_handshake_ends_is_pointed_to_a_listener_without_tls(
    login: Login | None, right: str, given: str
) -> None:
    assert await told(hang_up_at_once, tls=True, login=login) == (
        "broker 127.0.0.1: the broker closed the connection in the TLS handshake, as a listener without TLS does: then "
        f"security.protocol has to be {right}, not {given}"
    )


@pytest.mark.parametrize(
    ("protocol", "requests", "words"),
    [
        pytest.param(
            "PLAINTEXT", 2, "wants a login: then security.protocol has to be SASL_PLAINTEXT", id="login_wanted"
        ),
        pytest.param("SSL", 2, "wants a login: then security.protocol has to be SASL_SSL", id="login_over_tls_wanted"),
        pytest.param("SSL", 1, "ssl.keystore.* right?", id="certificate_perhaps"),
        pytest.param("SASL_SSL", 2, "is security.protocol=SASL_SSL right?", id="a_login_not_even_looked_at"),
    ],
)
def test_the_time_of_a_closed_connection_shows_the_expected_protocol(protocol: str, requests: int, words: str) -> None:
    assert words in wrong_protocol.hung_up(protocol, requests)


def test_a_broker_that_leaves_later_is_not_suspected() -> None:
    assert wrong_protocol.hung_up("PLAINTEXT", 3) == "the broker closed the connection"
