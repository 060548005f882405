"""Ports that stay reserved while a broker is down.

They are below the kernel's range of ephemeral ports. Otherwise a client that reconnects to a stopped broker could get the
broker's own port, and even connect to itself. A lock file for the life of this process keeps other test runs away.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path
from typing import Final

from deploy.local.errors import LocalError

RANGE: Final = range(20_000, 32_000)
_held: dict[int, int] = {}


def free_port(host: str = "127.0.0.1") -> int:
    """A port on `host` without a listener. It is reserved: no other caller gets it."""
    for port in random.sample(RANGE, 500):
        if port not in _held and (descriptor := _lock(port)) is not None:
            if _is_free(host, port):
                _held[port] = descriptor
                return port
            os.close(descriptor)
    raise LocalError(f"no free port between {RANGE.start} and {RANGE.stop} on {host}")


def claimed(port: int, host: str = "127.0.0.1") -> int:
    """Reserves this port until it is given back; LocalError if it is taken."""
    if port in _held or (descriptor := _lock(port)) is None:
        raise LocalError(f"port {port} on {host} is taken by another cluster: choose another one")
    if not _is_free(host, port):
        os.close(descriptor)
        raise LocalError(f"port {port} on {host} is in use: choose another one, or end what listens there")
    _held[port] = descriptor
    return port


def give_back(port: int) -> None:
    """Ends the reservation of `port`."""
    descriptor = _held.pop(port, None)
    if descriptor is not None:
        os.close(descriptor)


def _lock(port: int) -> int | None:
    directory = Path(tempfile.gettempdir()) / f"mirror-connect-ports-{os.getuid()}"
    directory.mkdir(exist_ok=True)
    descriptor = os.open(directory / str(port), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
