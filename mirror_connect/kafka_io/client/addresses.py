"""`bootstrap.servers`: which addresses a value names."""

from __future__ import annotations

import ipaddress
import re
import socket
from typing import Any, Final

from mirror_connect.connectors.config.config_table import Quote
from mirror_connect.connectors.errors import ConfigError

_ADDRESS: Final = re.compile(r"(?:[^,/]*://)?\[?([0-9a-zA-Z\-%._:]*?)\]?:([0-9]+)")
_FORM: Final = "it has to be host:port"
_NOTHING: Final = "No bootstrap urls given in bootstrap.servers"


def bootstrap_servers(text: str | None) -> tuple[tuple[str, int], ...]:
    """`host:port` pairs of a bootstrap.servers value; IPv6 in brackets. Raises ConfigError."""
    if text is None or not text.strip():
        raise ConfigError("bootstrap.servers", None, _NOTHING)
    found = {entry: _address(entry) for entry in _entries(text)}
    for entry, address in found.items():
        if address is None:
            raise ConfigError("bootstrap.servers", entry, _FORM)
    return tuple(dict.fromkeys(filter(None, found.values())))


def addresses(name: str, value: Any, quote: Quote) -> str | None:
    """The same as a check of one setting (config_table.Validator); a value that is not given passes."""
    if value is None:
        return None
    shown = quote(value)
    if not value:
        return f"Invalid value {shown} for configuration {name}: {_NOTHING}"
    for entry in _entries(value):
        if _address(entry) is None:
            # The one entry is easier to find, but of what a config provider gave nothing is shown.
            return f"Invalid value {entry if shown == value else shown} for configuration {name}: {_FORM}"
    return None


def has_address(host: str, port: int) -> bool:
    """Whether a name server, or the host's own text, gives an address to connect to. Blocks."""
    try:
        return bool(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return False


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.strip().strip(",").strip().split(",")]


def _address(entry: str) -> tuple[str, int] | None:
    match = _ADDRESS.fullmatch(entry)
    if match is None or not match[1] or not 0 < int(match[2]) <= 65_535:
        return None
    return match[1], int(match[2])


def is_loopback(host: str) -> bool:
    """Whether a host, without brackets, is this machine alone: 127.0.0.1, ::1 and their like, or localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
