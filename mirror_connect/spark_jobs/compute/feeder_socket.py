"""The connection between the two Python processes of a task whose records Spark transforms.

Both run in one attempt of a Spark task, so on one host and as one user. They meet at a socket of Linux's abstract namespace:
it is no file that a killed process would leave. Its name follows from the run's token and the attempt. Names of such sockets
are no secret, so each side looks whether the other is of its own user, by the kernel's word, and whether it knows the token.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import struct
import time
from collections.abc import Callable
from typing import Final

# Behind the last row: without it the other process has died.
END: Final = b"END\n"
PATIENCE_S: Final = 60.0
_PROOF_S: Final = 2.0
_RETRY_S: Final = 0.02
_CREDENTIALS: Final = struct.Struct("3i")
_FEEDER: Final = b"feeder"
_TASK: Final = b"task"


class NoPeerError(OSError):
    """The other process did not come in time, or is not the one."""


def attempt() -> int:
    """The attempt of the Spark task that this process works for; both processes have the same."""
    from pyspark import TaskContext  # noqa: PLC0415 — there is one in Spark's processes alone

    context = TaskContext.get()
    assert context is not None
    return int(context.taskAttemptId())


def is_another_attempt() -> bool:
    """Whether Spark has tried this epoch before."""
    from pyspark import TaskContext  # noqa: PLC0415 — as above

    context = TaskContext.get()
    return context is not None and context.attemptNumber() > 0


class FeederListener:
    """The task's side. `token`: of the run."""

    def __init__(self, token: str, number: int) -> None:
        self._token = token
        self._name = _name(token, number)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(self._name)
        self._socket.listen(8)

    def accept(self, wanted: Callable[[], bool], patience_s: float = PATIENCE_S) -> socket.socket:
        """The feeder's connection. NoPeerError if it does not come, or isn't wanted any more."""
        deadline = time.monotonic() + patience_s
        self._socket.settimeout(0.2)
        while time.monotonic() < deadline and wanted():
            try:
                connection, _ = self._socket.accept()
            except TimeoutError:
                continue
            try:
                connection.settimeout(_PROOF_S)
                _check_user(connection)
                if not hmac.compare_digest(_read(connection), _proof(self._token, _FEEDER, self._name)):
                    raise NoPeerError("another process than the feeder has connected")
                connection.sendall(_proof(self._token, _TASK, self._name))
                connection.settimeout(None)
            except OSError:
                # A stranger. It must not keep the feeder out.
                connection.close()
            else:
                return connection
        raise NoPeerError("Spark's other Python process did not connect")

    def close(self) -> None:
        """Nobody can connect any more."""
        self._socket.close()


def connect(token: str, number: int, patience_s: float = PATIENCE_S) -> socket.socket:
    """The feeder's side. NoPeerError if the task does not come."""
    name = _name(token, number)
    deadline = time.monotonic() + patience_s
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(name)
            # The task may be busy with strangers. Its answer must not come just as the feeder gives up.
            connection.settimeout(max(_RETRY_S, deadline - time.monotonic()))
            _check_user(connection)
            connection.sendall(_proof(token, _FEEDER, name))
            if hmac.compare_digest(_read(connection), _proof(token, _TASK, name)):
                connection.settimeout(None)
                return connection
        except OSError:
            pass
        connection.close()
        if time.monotonic() > deadline:
            raise NoPeerError("the task's process did not answer")
        time.sleep(_RETRY_S)


def _name(token: str, number: int) -> bytes:
    return b"\0mirror-connect-" + hashlib.sha256(f"{token} {number}".encode()).hexdigest()[:40].encode()


def _proof(token: str, side: bytes, name: bytes) -> bytes:
    return hmac.digest(token.encode(), side + name, "sha256")


def _read(connection: socket.socket) -> bytes:
    found = b""
    while len(found) < hashlib.sha256().digest_size:
        more = connection.recv(hashlib.sha256().digest_size - len(found))
        if not more:
            break
        found += more
    return found


def _check_user(connection: socket.socket) -> None:
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    if _CREDENTIALS.unpack(found)[1] != os.geteuid():
        raise NoPeerError("another user has connected")


def ended(connection: socket.socket) -> None:
    """Closes it, whatever its state. A thread that writes to it ends, and the other side hears of it at once."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        connection.close()
