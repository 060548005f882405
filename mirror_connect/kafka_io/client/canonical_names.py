"""The canonical names of a host's addresses, for brokers whose logins know them by those alone (KIP-235)."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

# The value of client.dns.lookup that asks for it.
CANONICAL: Final = "resolve_canonical_bootstrap_servers_only"


async def canonical_names(host: str) -> list[str]:
    """One name for each address of a host, as Java's getCanonicalHostName: an address without a name is its own text.

    Empty if the host's name can't be resolved: whoever connects to it says so.
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
