from __future__ import annotations

import pytest

from mirror_connect.app.config.listeners import Listener, advertised, parse_listeners, worker_id
from mirror_connect.connectors.errors import ConfigError


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param("HTTP://0.0.0.0:8083", Listener("http", "0.0.0.0", 8083), id="capital_letters"),
        pytest.param("http://:8083", Listener("http", "", 8083), id="every_address"),
        pytest.param("https://[::1]:8443", Listener("https", "::1", 8443), id="ipv6"),
        pytest.param("http://localhost:0", Listener("http", "localhost", 0), id="a_free_port"),
    ],
)
def test_listeners_are_understood(url: str, expected: Listener) -> None:
    assert parse_listeners("listeners", [url]) == (expected,)


@pytest.mark.parametrize(
    "url", ["localhost:8083", "http://localhost", "ftp://localhost:21", "http://x:99999", "http://a b:1"]
)
def test_a_wrong_listener_is_named(url: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {url} for configuration listeners"):
        parse_listeners("listeners", [url])


def test_a_port_that_is_too_large_is_not_called_a_wrong_format() -> None:
    with pytest.raises(ConfigError) as refused:
        parse_listeners("listeners", ["http://x:65536"])
    assert str(refused.value) == (
        "Invalid value http://x:65536 for configuration listeners: the port 65536 is too large; the largest is 65535"
    )
    assert parse_listeners("listeners", ["http://x:65535"]) == (Listener("http", "x", 65535),)


BOTH = (Listener("https", "a", 8443), Listener("http", "b", 0))


def test_http_is_advertised_before_https_with_the_port_it_got() -> None:
    assert advertised(BOTH, bound_ports=[8443, 40001]) == Listener("http", "b", 40001)


def test_the_protocol_to_advertise_can_be_chosen() -> None:
    assert advertised(BOTH, scheme="https") == Listener("https", "a", 8443)


def test_a_chosen_host_and_port_are_advertised() -> None:
    assert worker_id(advertised(BOTH, host="connect", port=80)) == "connect:80"


def test_a_protocol_without_a_listener_can_not_be_advertised() -> None:
    with pytest.raises(ConfigError, match=r"rest\.advertised\.listener"):
        advertised(BOTH[1:], scheme="https")


def test_an_empty_host_is_advertised_by_an_address() -> None:
    assert advertised([Listener("http", "", 1)]).host
