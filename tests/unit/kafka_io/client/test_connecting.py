"""Opening a connection: servers that are not Kafka, and logins that are refused or not valid."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.client.connecting import Login
from mirror_connect.kafka_io.client.connection import ConnectionLost
from tests.fakes.scripted_broker import LARGE, VERSIONS, broker, opened


async def test_a_server_that_speaks_another_protocol_is_recognized() -> None:
    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        with pytest.raises(
            ConnectionLost, match=r"doesn't speak Kafka's protocol there; .*security\.protocol=PLAINTEXT"
        ):
            await opened(server.sockets[0].getsockname()[1])


async def test_a_broker_that_refuses_to_tell_its_versions_is_named_with_its_error() -> None:
    async with broker(no_answer, versions=struct.pack(">hi", 35, 0)) as port:
        with pytest.raises(ConnectionLost, match=f"broker 127.0.0.1:{port}: it answered UNSUPPORTED_VERSION when"):
            await opened(port)


async def no_answer(_: int, __: bytes) -> bytes | None:
    return None


async def test_a_refused_login_names_broker_user_and_reason_but_no_password() -> None:
    async def answer(key: int, _: bytes) -> bytes:
        if key == 17:
            return struct.pack(">hih", 0, 1, 5) + b"PLAIN"
        text = b"Authentication failed: Invalid username or password"
        return struct.pack(">hh", 58, len(text)) + text + struct.pack(">iq", 0, 0)

    async with broker(answer) as port:
        with pytest.raises(NotAuthorized) as caught:
            await opened(port, Login("PLAIN", "alice", "hunter2"))
        assert str(caught.value) == (
            f"broker 127.0.0.1:{port} refused user alice by SASL PLAIN: "
            "Authentication failed: Invalid username or password"
        )


async def test_a_mechanism_the_broker_does_not_offer_is_named_with_those_it_does() -> None:
    async def answer(_: int, __: bytes) -> bytes:
        return struct.pack(">hih", 33, 1, 5) + b"PLAIN"

    async with broker(answer) as port:
        with pytest.raises(NotAuthorized, match=r"does not offer sasl\.mechanism SCRAM-SHA-256, only PLAIN"):
            await opened(port, Login("SCRAM-SHA-256", "alice", "hunter2"))


@pytest.mark.parametrize("at", [17, 36], ids=["handshake", "authenticate"])
async def test_a_broker_that_has_not_logged_us_in_gets_no_memory_for_a_large_frame(at: int) -> None:
    taken = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal taken
        answers = {18: VERSIONS, 17: struct.pack(">hih", 0, 1, 5) + b"PLAIN"}
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                key, _, correlation, _ = struct.unpack_from(">hhih", frame)
                if key == at:
                    writer.write(struct.pack(">i", LARGE))
                    while taken < LARGE:
                        writer.write(b"\0" * (1 << 16))
                        await writer.drain()
                        taken += 1 << 16
                body = answers.get(key, b"")
                writer.write(struct.pack(">ii", len(body) + 4, correlation) + body)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        with pytest.raises(ConnectionLost):
            await opened(server.sockets[0].getsockname()[1], Login("PLAIN", "alice", "hunter2"))
    # Less than this fits into the buffers of the sockets.
    assert taken < LARGE


async def test_a_listener_that_takes_no_login_differs_from_a_wrong_password() -> None:
    async def answer(_: int, __: bytes) -> bytes:
        return struct.pack(">hi", 34, 0)

    async with broker(answer) as port:
        line = "its listener takes no login: security.protocol has to be PLAINTEXT, not SASL_PLAINTEXT"
        with pytest.raises(NotAuthorized, match=f"^broker 127.0.0.1:{port}: {line}$"):
            await opened(port, Login("PLAIN", "alice", "hunter2"))


class _NoToken:
    """A token endpoint that cannot be reached."""

    async def token(self) -> str:
        raise ClusterUnreachable("the token endpoint https://login.example doesn't answer")


async def test_a_token_endpoint_that_is_away_is_like_a_broker_that_is_away() -> None:
    async def answer(_: int, __: bytes) -> bytes:
        return struct.pack(">hih", 0, 1, 11) + b"OAUTHBEARER"

    async with broker(answer) as port:
        with pytest.raises(ConnectionLost, match=f"broker 127.0.0.1:{port}: no login: the token endpoint"):
            await opened(port, Login("OAUTHBEARER", token_provider=_NoToken()))


def sasl_answer(text: bytes) -> bytes:
    return struct.pack(">hhi", 0, -1, len(text)) + text + struct.pack(">q", 0)


@asynccontextmanager
async def scram_broker(
    first: str, final: Callable[[bytes], bytes] = lambda _: b"v="
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A broker that answers the client's first message with `first` (`{r}`: the client's nonce); keeps clients' messages."""
    said: list[bytes] = []

    async def answer(key: int, body: bytes) -> bytes:
        if key == 17:
            return struct.pack(">hih", 0, 1, 13) + b"SCRAM-SHA-256"
        said.append(body[4:])
        if len(said) == 1:
            return sasl_answer(first.format(r=body.rpartition(b"r=")[2].decode()).encode())
        return sasl_answer(final(body[4:]))

    async with broker(answer) as port:
        yield port, said


SALT = "c2FsdA=="


@pytest.mark.parametrize("count", ["1", "4095", "1000001", "20000000"])
async def test_a_broker_that_asks_for_too_little_or_too_much_work_gets_no_proof(count: str) -> None:
    async with scram_broker(f"r={{r}}x,s={SALT},i={count}") as (port, said):
        async with asyncio.timeout(60):
            with pytest.raises(NotAuthorized) as caught:
                await opened(port, Login("SCRAM-SHA-256", "alice", "hunter2"))
        assert str(caught.value).startswith(
            f"broker 127.0.0.1:{port}: SASL SCRAM-SHA-256 failed: the broker asks for {count} iterations, "
            "but 4096 to 1000000 are allowed"
        )
        assert len(said) == 1


@pytest.mark.parametrize(
    "first",
    [
        "",
        "nonsense",
        f"r={{r}}x,s={SALT}",
        f"r={{r}}x,s={SALT},i=" + "9" * 5000,
        f"r={{r}}x,s={SALT},i=-4096",
        f"r={{r}}x,s={SALT},i=4_096",
        "r={r}x,s=?,i=4096",
        f"r=other,s={SALT},i=4096",
        f"m=ext,r={{r}}x,s={SALT},i=4096",
        f"e=secret-of-the-broker,s={SALT}",
        "\ud800",
    ],
    ids=range(11),
)
async def test_an_invalid_first_message_is_one_line_without_its_text(first: str) -> None:
    async def answer(key: int, body: bytes) -> bytes:
        if key == 17:
            return struct.pack(">hih", 0, 1, 13) + b"SCRAM-SHA-256"
        text = first.format(r=body.rpartition(b"r=")[2].decode())
        return sasl_answer(text.encode("utf-8", "surrogatepass"))

    async with broker(answer) as port:
        with pytest.raises(NotAuthorized) as caught:
            await opened(port, Login("SCRAM-SHA-256", "alice", "hunter2"))
        start = f"broker 127.0.0.1:{port}: SASL SCRAM-SHA-256 failed: the broker"
        assert str(caught.value).startswith(start)
        assert len(str(caught.value)) < 200
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("final", [b"", b"v=", b"v=?", b"v=AAAA", b"e=invalid-proof", b"\xff"])
async def test_a_broker_that_does_not_know_the_password_is_refused(final: bytes) -> None:
    async with scram_broker(f"r={{r}}x,s={SALT},i=4096", lambda _: final) as (port, _):
        with pytest.raises(NotAuthorized, match=f"^broker 127.0.0.1:{port}: SASL SCRAM-SHA-256 failed: the broker"):
            await opened(port, Login("SCRAM-SHA-256", "alice", "hunter2"))


def test_a_login_shows_no_password() -> None:
    assert "hunter2" not in repr(Login("PLAIN", "alice", "hunter2"))


async def test_an_address_where_nobody_listens_is_named() -> None:
    server = await asyncio.start_server(lambda _, __: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(ConnectionLost, match=f"broker 127.0.0.1:{port}: "):
        await opened(port)
