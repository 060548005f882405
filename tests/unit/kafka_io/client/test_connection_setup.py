"""How client properties set up a connection: socket buffers, timeouts, names of bootstrap servers."""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
from collections.abc import Iterator

import pytest

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.kafka_io.client import broker_link
from mirror_connect.kafka_io.client.broker_link import BrokerLink
from mirror_connect.kafka_io.client.client_settings import connection_settings
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.client.connection import Connection, ConnectionLost
from tests.unit.kafka_io.client.test_connection import broker


def link(port: int, **properties: str) -> BrokerLink:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return BrokerLink(
        "127.0.0.1", port, connection_settings({"bootstrap.servers": f"127.0.0.1:{port}", **given}, "test")
    )


async def no_answer(_: int, __: bytes) -> bytes | None:
    return None


def option(connection: Connection, name: int, level: int = socket.SOL_SOCKET) -> int:
    assert connection.transport is not None
    return int(connection.transport.get_extra_info("socket").getsockopt(level, name))


async def test_buffers_that_are_set_are_those_of_the_socket() -> None:
    async with broker(no_answer) as port:
        made = link(port, send_buffer_bytes="20000", receive_buffer_bytes="30000")
        connection = await made._ready()
        # Linux doubles the requested size, to have room for its own data.
        found = [option(connection, name) for name in (socket.SO_SNDBUF, socket.SO_RCVBUF)]
        without_delay = option(connection, socket.TCP_NODELAY, socket.IPPROTO_TCP)
        made.close()
    assert (found, bool(without_delay)) == ([40_000, 60_000], True)


@pytest.mark.parametrize("properties", [{}, {"send.buffer.bytes": "-1", "receive.buffer.bytes": "-1"}])
def test_buffers_that_are_not_set_are_left_to_the_system_which_knows_the_line(properties: dict[str, str]) -> None:
    settings = connection_settings({"bootstrap.servers": "a:1", **properties}, "test")
    assert (settings.send_buffer_bytes, settings.receive_buffer_bytes) == (None, None)


@pytest.fixture
def full() -> Iterator[int]:
    """The port of a listener whose queue is full: clients wait for their connection."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


async def test_a_connection_is_waited_for_twice_as_long_after_each_failure_up_to_a_limit(full: int) -> None:
    made = link(
        full,
        socket_connection_setup_timeout_ms="40",
        socket_connection_setup_timeout_max_ms="150",
        reconnect_backoff_ms="0",
        reconnect_backoff_max_ms="0",
    )
    waits = []
    for _ in range(5):
        with pytest.raises(ConnectionLost) as lost:
            await made._open()
        found = re.search(r"no connection within (\d+) ms", str(lost.value))
        assert found, lost.value
        waits.append(int(found[1]))
    for wait, least, most in zip(waits, (32, 64, 120, 120, 120), (48, 96, 150, 150, 150), strict=True):
        assert least <= wait <= most, waits


async def test_a_connection_that_works_begins_with_the_first_patience_again(monkeypatch: pytest.MonkeyPatch) -> None:
    made = link(9, socket_connection_setup_timeout_ms="1000", reconnect_backoff_ms="0", reconnect_backoff_max_ms="0")
    waits = []

    async def opening(*_: object, setup_timeout: float, **__: object) -> Connection:
        waits.append(setup_timeout)
        if len(waits) == 3:
            return Connection("a:1", "test", 1.0)
        raise ConnectionLost("no")

    monkeypatch.setattr(broker_link, "open_connection", opening)
    for _ in range(4):
        with contextlib.suppress(ConnectionLost):
            await made._open()
    for wait, least in zip(waits, (0.8, 1.6, 3.2, 0.8), strict=True):
        assert least <= wait <= least * 1.5, waits


@pytest.mark.parametrize(
    ("lookup", "tried"),
    [
        ("use_all_dns_ips", {"brokers.example:9092"}),
        ("resolve_canonical_bootstrap_servers_only", {"b1.example:9092", "10.0.0.2:9092"}),
    ],
)
async def test_bootstrap_servers_are_known_by_the_names_that_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, lookup: str, tried: set[str]
) -> None:
    async def addresses(*_: object, **__: object) -> list[object]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (f"10.0.0.{last}", 0)) for last in (1, 2)]

    async def name(address: tuple[str, int], _: int) -> tuple[str, str]:
        if address[0] == "10.0.0.2":
            raise socket.gaierror(socket.EAI_NONAME, "no name")
        return "b1.example", "0"

    async def opening(host: str, port: int, **_: object) -> Connection:
        asked.add(f"{host}:{port}")
        raise ConnectionLost("no")

    asked: set[str] = set()
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "getaddrinfo", addresses)
    monkeypatch.setattr(loop, "getnameinfo", name)
    monkeypatch.setattr(broker_link, "open_connection", opening)
    cluster = Cluster({"bootstrap.servers": "brokers.example:9092", "client.dns.lookup": lookup}, "test")
    with pytest.raises(ClusterUnreachable):
        await cluster.connect()
    assert asked == tried
