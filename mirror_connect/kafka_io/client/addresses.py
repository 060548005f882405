"""The addresses that `bootstrap.servers` names, and the canonical names of their hosts (KIP-235)."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from typing import Any, Final

from mirror_connect.connectors.config.table import Quote
from mirror_connect.connectors.errors import ConfigError

_ADDRESS: Final = re.compile(r"(?:[^,/]*://)?\[?([0-9a-zA-Z\-%._:]*?)\]?:([0-9]+)")
_FORM: Final = "it has to be host:port"
_NOTHING: Final = "No bootstrap urls given in bootstrap.servers"
# The value of client.dns.lookup for canonical names.
CANONICAL: Final = "resolve_canonical_bootstrap_servers_only"


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
    """The same as a Validator of one setting (config/table.py); a value that is not set is valid."""
    if value is None:
        return None
    shown = quote(value)
    if not value:
        return f"Invalid value {shown} for configuration {name}: {_NOTHING}"
    for entry in _entries(value):
        if _address(entry) is None:
            # Showing only the wrong entry helps more; but nothing of a value from a config provider is shown.
            return f"Invalid value {entry if shown == value else shown} for configuration {name}: {_FORM}"
    return None


def has_address(host: str, port: int) -> bool:
    """Whether the host has an address to connect to. Blocks while a name server is asked."""
    try:
        return bool(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except (OSError, UnicodeError):
        return False


async def canonical_names(host: str) -> list[str]:
    """One name for each address of a host, as Java's getCanonicalHostName; an address without a name stays an address.

    Empty if the host's name can't be resolved: connecting to it will report that.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    names = []
    for address in dict.fromkeys(where for _, _, _, _, where in found):
        try:
            name, _ = await loop.getnameinfo((str(address[0]), 0), socket.NI_NAMEREQD)
        except OSError:
            name = str(address[0])
        names.append(name)
    return list(dict.fromkeys(names))


def _entries(text: str) -> list[str]:
    return [entry.strip() for entry in text.strip().strip(",").strip().split(",")]


def _address(entry: str) -> tuple[str, int] | None:
    match = _ADDRESS.fullmatch(entry)
    if match is None or not match[1] or not 0 < int(match[2]) <= 65_535:
        return None
    return match[1], int(match[2])


def is_loopback(host: str) -> bool:
    """Whether a host (without brackets) is a loopback address, such as 127.0.0.1 or ::1, or localhost."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
