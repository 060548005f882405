"""The addresses where REST is served and where other workers reach it: `listeners`, `admin.listeners`, `rest.advertised.*`.

Rules of Connect's RestServer and RestServerConfig (4.3.1).
"""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.errors import ConfigError

LARGEST_PORT: Final = 65_535
_LISTENER: Final = re.compile(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)")


@dataclass(frozen=True, slots=True)
class Listener:
    """One URL to listen on. Empty `host`: every address; `port` 0: a free port."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{_bracketed(self.host)}:{self.port}"


def parse_listeners(name: str, urls: Sequence[str]) -> tuple[Listener, ...]:
    """`HTTP://0.0.0.0:8083`, `http://:8083`, `https://[::1]:8443`; ConfigError names the setting and the URL."""
    found = []
    for url in urls:
        match = _LISTENER.fullmatch(url.strip())
        if match is None:
            raise ConfigError(name, url, "Listener doesn't have the right format (protocol://hostname:port).")
        if int(match[3]) > LARGEST_PORT:
            raise ConfigError(name, url, f"the port {match[3]} is too large; the largest is {LARGEST_PORT}")
        scheme = match[1].lower()
        if scheme not in ("http", "https"):
            raise ConfigError(name, url, 'Listener protocol must be either "http" or "https".')
        found.append(Listener(scheme, match[2], max(int(match[3]), 0)))
    return tuple(found)


def advertised(
    listeners: Sequence[Listener],
    *,
    bound_ports: Sequence[int] = (),
    scheme: str | None = None,
    host: str | None = None,
    port: int | None = None,
) -> Listener:
    """The address that this worker advertises, from rest.advertised.listener, .host.name and .port.

    Without them: the first listener of the scheme (http before https), and this machine's address if its host is empty.
    `bound_ports`: the ports that the listeners got, in their order; needed for those with port 0.
    """
    wanted = scheme or ("http" if any(each.scheme == "http" for each in listeners) else "https")
    for number, each in enumerate(listeners):
        if each.scheme == wanted:
            bound = bound_ports[number] if number < len(bound_ports) else each.port
            return Listener(wanted, host or each.host or own_address(), port if port is not None else bound)
    raise ConfigError("rest.advertised.listener", wanted, "no listener of that protocol is in listeners")


def worker_id(address: Listener) -> str:
    """`host:port`, as Connect names a worker in statuses."""
    return f"{_bracketed(address.host)}:{address.port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def own_address() -> str:
    """The address that this machine's own name resolves to, like Java's InetAddress.getLocalHost()."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
