"""Which paths are refused before routing."""

from __future__ import annotations

import pytest

from mirror_connect.app.rest.uris import routed_path


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        pytest.param(b"/", "/", id="root"),
        pytest.param(b"/connectors/", "/connectors", id="trailing_slash"),
        pytest.param(b"/connectors/a%20b", "/connectors/a b", id="space"),
        pytest.param(b"/connectors/a%3EB", "/connectors/a>B", id="arrow"),
        pytest.param(b"/connectors/a+b", "/connectors/a+b", id="plus_is_no_space"),
        pytest.param(b"/connectors/%C3%B6", "/connectors/\u00f6", id="utf8"),
        pytest.param(b"/connectors/../health", "/health", id="plain_dots_are_followed"),
        pytest.param(b"/connectors/a..b", "/connectors/a..b", id="dots_inside_a_name"),
    ],
)
def test_a_path_is_decoded_once(raw: bytes, path: str) -> None:
    assert routed_path(raw) == path


@pytest.mark.parametrize(
    "raw",
    [
        b"//connectors",
        b"/connectors//a",
        b"/connectors//",
        b"/connectors/a%2Fb",
        b"/connectors/a%2fb",
        b"/connectors/a%25",
        b"/connectors/%00",
        b"/connectors/%zz",
        b"/connectors/%2",
        b"/connectors/%2e%2e/connectors",
        b"/connectors/.%2E/connectors",
        b"/connectors/%2e/a",
        b"/../etc/passwd",
        b"/connectors/%ff",
        b"/connectors/\xc3\xb6",
    ],
)
def test_a_path_that_servers_read_differently_is_refused(raw: bytes) -> None:
    assert routed_path(raw) is None
