"""The addresses that `bootstrap.servers` names."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.addresses import addresses, bootstrap_servers, canonical_names, is_loopback


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a:9092", (("a", 9092),), id="one"),
        pytest.param(" a:1 , b:2,", (("a", 1), ("b", 2)), id="blanks_and_a_comma_at_the_end"),
        pytest.param("a:1,b:2,a:1", (("a", 1), ("b", 2)), id="each_once"),
        pytest.param("SSL://a:1", (("a", 1),), id="with_a_protocol"),
        pytest.param("[2001:db8::1]:9092", (("2001:db8::1", 9092),), id="ipv6"),
    ],
)
def test_servers_are_read_in_their_order(text: str, expected: tuple[tuple[str, int], ...]) -> None:
    assert bootstrap_servers(text) == expected


@pytest.mark.parametrize("entry", ["a", ":9092", "a:0", "a:65536", "a:b", "a/b:1"])
def test_the_entry_that_is_no_address_is_named(entry: str) -> None:
    with pytest.raises(ConfigError, match=r"it has to be host:port") as raised:
        bootstrap_servers(f"good:1,{entry}")
    assert entry in str(raised.value)
    assert "good" not in str(raised.value)


@pytest.mark.parametrize("text", [None, "", "  "])
def test_no_server_is_an_error(text: str | None) -> None:
    with pytest.raises(ConfigError, match="No bootstrap urls given"):
        bootstrap_servers(text)


def test_a_check_hides_the_entries_of_a_hidden_value() -> None:
    problem = addresses("bootstrap.servers", "good:1,secret", lambda _value: "[hidden]")
    assert problem == "Invalid value [hidden] for configuration bootstrap.servers: it has to be host:port"
    assert "value secret for" in str(addresses("bootstrap.servers", "good:1,secret", str))
    assert addresses("bootstrap.servers", None, str) is None
    assert addresses("bootstrap.servers", "good:1", str) is None


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("LocalHost", True), ("10.0.0.1", False), ("a", False)],
)
def test_loopback_hosts(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


async def test_an_address_without_a_name_is_its_own_text(monkeypatch: pytest.MonkeyPatch) -> None:
    found = ["10.0.0.1", "10.0.0.2", "10.0.0.1"]

    async def getaddrinfo(*_: Any, **__: Any) -> list[tuple[Any, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in found]

    async def getnameinfo(address: tuple[str, int], _flags: int = 0) -> tuple[str, str]:
        if address[0] == "10.0.0.2":
            raise socket.gaierror
        return "broker.example", "0"

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(loop, "getnameinfo", getnameinfo)
    assert await canonical_names("brokers.example") == ["broker.example", "10.0.0.2"]
