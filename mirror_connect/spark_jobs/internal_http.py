"""Requests to the worker's internal HTTP, from its Spark driver and from the processes of tasks.

On the worker's own machine it is plain HTTP on loopback. Executors elsewhere use HTTPS. They accept one certificate alone:
the one whose fingerprint came with the run. Before that is sure, nothing is sent, and no token.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.client
import json
import secrets
import socket
import ssl
import threading
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

REQUEST_TIMEOUT_S: Final = 5.0
# The worker's URLs that have answered this process.
_answered: Final[set[str]] = set()


class RunOverError(Exception):
    """The worker no longer knows this run (HTTP 410): it has ended, or another one has replaced it."""


class WorkerUnreachableError(Exception):
    """The worker did not answer an internal request in time."""


class NotTheWorkerError(OSError):
    """Another certificate than the worker's: something else answers at its address."""


@dataclass(frozen=True, slots=True)
class RunHandle:
    """The worker's address, and the capability that is valid for this one run. The pickled task function contains it.

    `fingerprint`: of the worker's certificate, SHA-256 in hexadecimal digits; empty for plain HTTP on loopback.
    """

    url: str
    run_id: str
    token: str
    fingerprint: str = ""

    def __repr__(self) -> str:
        return f"RunHandle({self.run_id})"


class InternalHttp:
    """Requests to the worker's internal HTTP over one kept-alive connection; for one thread at a time."""

    def __init__(self, url: str, token: str, fingerprint: str = "") -> None:
        self._url = url
        self._connection = _connection(url, fingerprint, REQUEST_TIMEOUT_S)
        self._headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._lock = threading.Lock()

    def call(self, method: str, path: str, body: Any = None, timeout: float = REQUEST_TIMEOUT_S) -> Any:
        """Sends a request; returns the JSON answer. RunOverError for 410, WorkerUnreachableError for any other failure."""
        return json.loads(self.content(method, path, body, timeout))

    def content(self, method: str, path: str, body: Any = None, timeout: float = REQUEST_TIMEOUT_S) -> bytes:
        """As `call`, for an answer that is no JSON."""
        with self._lock:
            try:
                self._connection.timeout = timeout
                if self._connection.sock is not None:
                    self._connection.sock.settimeout(timeout)
                payload = None if body is None else json.dumps(body).encode()
                self._connection.request(method, path, payload, self._headers)
                response = self._connection.getresponse()
                content = response.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                raise WorkerUnreachableError(f"{method} {path}: {error}") from None
            _answered.add(self._url)
            if response.status == http.client.GONE:
                raise RunOverError(path)
            if response.status != http.client.OK:
                raise WorkerUnreachableError(f"{method} {path}: HTTP {response.status}")
            return content

    def close(self) -> None:
        """Closes the connection; a request under way in another thread fails at once."""
        if (connected := self._connection.sock) is not None:
            with contextlib.suppress(OSError):  # `close` alone would not wake a thread that waits for an answer
                connected.shutdown(socket.SHUT_RDWR)
        self._connection.close()


def was_reached(url: str) -> bool:
    """Whether the worker has ever answered this process."""
    return url in _answered


def why_unreachable(url: str, fingerprint: str, timeout: float = REQUEST_TIMEOUT_S) -> str | None:
    """Why this process can't reach the worker; None if it can. Nothing is sent, and no token."""
    connection = _connection(url, fingerprint, timeout)
    try:
        connection.connect()
    except OSError as error:
        return str(error)
    finally:
        connection.close()
    return None


def _connection(url: str, fingerprint: str, timeout: float) -> http.client.HTTPConnection:
    parts = urlsplit(url)
    if not fingerprint:
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout)
    return _PinnedConnection(parts.hostname or "", parts.port, timeout, fingerprint)


class _PinnedConnection(http.client.HTTPConnection):
    """HTTPS to whoever has the key of the one certificate with this fingerprint.

    No authority, name or date is checked: a worker makes its certificate at each start, and the fingerprint came from it.
    """

    default_port = http.client.HTTPS_PORT

    def __init__(self, host: str, port: int | None, timeout: float, fingerprint: str) -> None:
        super().__init__(host, port, timeout=timeout)
        self._fingerprint = fingerprint

    def connect(self) -> None:
        """Opens the connection. NotTheWorkerError, before anything is sent, if another certificate is shown."""
        super().connect()
        try:
            tls = _pinning().wrap_socket(self.sock)
        except BaseException:
            self.close()
            raise
        # The handshake has shown that the other side has the certificate's private key.
        shown = hashlib.sha256(tls.getpeercert(binary_form=True) or b"").hexdigest()
        if not secrets.compare_digest(shown, self._fingerprint):
            tls.close()
            self.sock = None
            raise NotTheWorkerError(f"{self.host}:{self.port} shows another certificate than this run's worker")
        self.sock = tls


@functools.cache
def _pinning() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
