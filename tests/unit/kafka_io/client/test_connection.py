"""One connection against a broker of a few lines, which answers byte for byte as a test says."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.kafka_io.client.broker_link import BrokerLink
from mirror_connect.kafka_io.client.client_settings import WireSettings
from mirror_connect.kafka_io.client.connection import (
    Connection,
    ConnectionLost,
    Login,
    UnsupportedByBroker,
    open_connection,
)
from mirror_connect.kafka_io.protocol.wire import Fetch, Produce, ProducePartition
from mirror_connect.kafka_io.protocol.wire_control import EndTxn, FindCoordinator

VERSIONS = struct.pack(">hi", 0, 4) + struct.pack(">12h", 18, 0, 0, 17, 0, 1, 36, 0, 1, 10, 0, 2)
LARGE = 64 << 20
Answer = Callable[[int, bytes], Awaitable[bytes | None]]


@asynccontextmanager
async def broker(answer: Answer, chunk: int = 1 << 30) -> AsyncIterator[int]:
    """`answer(api key, request body)` gives the body of the answer, None hangs up."""
    serving: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.current_task())
        try:
            while True:
                size = int.from_bytes(await reader.readexactly(4), "big")
                frame = await reader.readexactly(size)
                key, _, correlation, name = struct.unpack_from(">hhih", frame)
                body = VERSIONS if key == 18 else await answer(key, frame[10 + name :])
                if body is None:
                    break
                out = struct.pack(">ii", len(body) + 4, correlation) + body
                for at in range(0, len(out), chunk):
                    writer.write(out[at : at + chunk])
                    await writer.drain()
                    await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in serving:
            task.cancel()
        await asyncio.gather(*serving, return_exceptions=True)


async def opened(port: int, login: Login | None = None, timeout: float = 60.0) -> Connection:
    return await open_connection(
        "127.0.0.1", port, client_id="test", tls=None, login=login, request_timeout=timeout, setup_timeout=60.0
    )


def coordinator(node: int, message: str = "") -> bytes:
    text = message.encode()
    return struct.pack(">ihh", 0, 0, len(text)) + text + struct.pack(">ih", node, 1) + b"h" + struct.pack(">i", 9)


@pytest.mark.parametrize("chunk", [1, 3, 4096, 1 << 30])
@pytest.mark.parametrize("size", [0, 10, 70_000, 300_000])
async def test_answers_are_whole_however_the_network_cuts_them(chunk: int, size: int) -> None:
    if chunk < 10 and size > 1000:
        size = 3000
    message = "m" * min(size, 32_000)

    async def answer(key: int, body: bytes) -> bytes:
        return coordinator(int.from_bytes(body[2 : 2 + body[1]], "big"), message)

    async with broker(answer, chunk) as port:
        # Byte by byte takes its time on a busy machine.
        connection = await opened(port, timeout=60.0)
        answers = await asyncio.gather(*(connection.start(FindCoordinator(chr(n), 0)) for n in range(1, 20)))
        assert [(found.node_id, found.message) for found in answers] == [(n, message) for n in range(1, 20)]
        connection.lost("end of test")


async def test_a_frame_larger_than_the_scratch_buffer_is_followed_by_the_next_one() -> None:
    async def answer(_: int, body: bytes) -> bytes:
        return coordinator(body[2]) + b"\0" * 200_000

    async with broker(answer) as port:
        connection = await opened(port)
        answers = await asyncio.gather(*(connection.start(FindCoordinator(chr(n), 0)) for n in range(1, 9)))
        assert [found.node_id for found in answers] == list(range(1, 9))
        connection.lost("end of test")


async def test_everything_in_flight_is_lost_when_the_broker_hangs_up() -> None:
    async def answer(_: int, __: bytes) -> None:
        return None

    async with broker(answer) as port:
        connection = await opened(port)
        results = await asyncio.gather(
            *(connection.start(FindCoordinator("g", 0)) for _ in range(3)), return_exceptions=True
        )
        assert [str(error) for error in results] == [f"broker 127.0.0.1:{port}: the broker closed the connection"] * 3


async def test_what_a_lost_connection_has_not_sent_yet_never_arrives() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(10.0)

    def introduced() -> socket.socket:
        accepted, _ = listener.accept()
        accepted.settimeout(10.0)
        frame = accepted.recv(4096)
        body = frame[8:12] + VERSIONS
        accepted.sendall(struct.pack(">i", len(body)) + body)
        return accepted

    def rest(accepted: socket.socket) -> str:
        try:
            while accepted.recv(1 << 16):
                pass
        except ConnectionResetError:
            return "cut off"
        return "flushed"

    accepting = asyncio.create_task(asyncio.to_thread(introduced))
    with listener:
        connection = await opened(listener.getsockname()[1])
        # More than the broker takes at present: what it doesn't, the system would go on sending for as long as it takes.
        requests = [connection.start(FindCoordinator("g" * 30_000, 0)) for _ in range(400)]
        with await accepting as accepted:
            connection.lost("given up")
            await asyncio.gather(*requests, return_exceptions=True)
            assert await asyncio.to_thread(rest, accepted) == "cut off"


async def test_a_broker_that_never_answers_is_given_up_and_named() -> None:
    async def answer(_: int, __: bytes) -> bytes:
        await asyncio.sleep(60)
        return b""

    async with broker(answer) as port:
        connection = await opened(port, timeout=0.05)
        with pytest.raises(ConnectionLost, match=r"no answer to FindCoordinator within 50 ms \(request.timeout.ms\)"):
            await connection.start(FindCoordinator("g", 0))


async def test_a_server_that_speaks_another_protocol_is_told_from_a_broker() -> None:
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


async def test_a_request_the_broker_has_no_version_of_is_refused_here() -> None:
    async def answer(_: int, __: bytes) -> None:
        return None

    async with broker(answer) as port:
        connection = await opened(port)
        with pytest.raises(UnsupportedByBroker, match=r"EndTxn v0 to v-1, .*; Kafka 2.8 or newer is needed"):
            connection.start(EndTxn("tx", 1, 0, commit=True))
        connection.lost("end of test")


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
        with pytest.raises(NotAuthorized, match=r"doesn't take sasl\.mechanism SCRAM-SHA-256, only PLAIN"):
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
    # What the sockets hold is less than that.
    assert taken < LARGE


async def test_a_listener_that_takes_no_login_is_told_from_a_wrong_password() -> None:
    async def answer(_: int, __: bytes) -> bytes:
        return struct.pack(">hi", 34, 0)

    async with broker(answer) as port:
        line = "its listener takes no login: security.protocol has to be PLAINTEXT, not SASL_PLAINTEXT"
        with pytest.raises(NotAuthorized, match=f"^broker 127.0.0.1:{port}: {line}$"):
            await opened(port, Login("PLAIN", "alice", "hunter2"))


class _NoToken:
    """A token endpoint that is away."""

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
    """A broker that answers the client's first message with `first` (`{r}`: the client's nonce); keeps what clients say."""
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
            "and 4096 to 1000000 are taken"
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
async def test_a_first_message_that_is_none_is_one_line_without_what_it_says(first: str) -> None:
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


def link_to(port: int) -> BrokerLink:
    settings = WireSettings((("127.0.0.1", port),), "test", reconnect_backoff_ms=1)
    return BrokerLink("127.0.0.1", port, settings)


async def test_requests_behind_a_lost_one_do_not_overtake_its_repetition() -> None:
    seen: list[bytes] = []

    async def answer(_: int, body: bytes) -> bytes | None:
        seen.append(body)
        return None if len(seen) == 1 else coordinator(1)

    async with broker(answer) as port:
        link = link_to(port)
        tasks = [asyncio.create_task(link.send(FindCoordinator(f"{n}", 0))) for n in range(4)]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [ConnectionLost] * 4
        assert (await link.send(FindCoordinator("0", 0))).node_id == 1
        link.close()


async def test_after_a_throttled_answer_the_next_request_waits() -> None:
    times: list[float] = []

    async def answer(_: int, __: bytes) -> bytes:
        times.append(asyncio.get_running_loop().time())
        return struct.pack(">i", 300) + coordinator(1)[4:]

    async with broker(answer) as port:
        link = link_to(port)
        await link.send(FindCoordinator("g", 0))
        await link.send(FindCoordinator("g", 0))
        # Not a speed claim: the lower bound is what the broker asked for.
        assert times[1] - times[0] >= 0.29
        link.close()


async def test_a_link_connects_again_after_the_broker_hung_up() -> None:
    calls = 0

    async def answer(_: int, __: bytes) -> bytes | None:
        nonlocal calls
        calls += 1
        return None if calls == 1 else coordinator(7)

    async with broker(answer) as port:
        link = link_to(port)
        with pytest.raises(ConnectionLost):
            await link.send(FindCoordinator("g", 0))
        assert (await link.send(FindCoordinator("g", 0))).node_id == 7
        link.close()


async def test_a_closed_link_loses_what_is_in_flight() -> None:
    async def answer(_: int, __: bytes) -> bytes:
        await asyncio.sleep(60)
        return b""

    async with broker(answer) as port:
        link = link_to(port)
        sent = asyncio.create_task(link.send(FindCoordinator("g", 0)))
        while not link.is_busy or not link.is_open:
            await asyncio.sleep(0.001)
        link.close()
        with pytest.raises(ConnectionLost, match="closed by this side"):
            await sent


def test_records_are_fetched_by_topic_id_and_produced_by_name() -> None:
    by_name, by_id = (Fetch([], 0, 0, 0, names=names) for names in (None, {}))
    assert (by_name.highest, by_id.highest, Produce([]).highest) == (12, 13, 8)
    assert ProducePartition("a", 0, []).topic == "a"
