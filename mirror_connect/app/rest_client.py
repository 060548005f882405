"""The HTTP client between workers, as Connect's RestClient: one connection for each request, no redirects, no proxies.

Another member of the group names the URL, so nothing of it is trusted: it is parsed strictly, the answer's size and time
have limits, and whatever happens the connection is closed.
"""

from __future__ import annotations

import asyncio
import os
import re
import ssl
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import h11

from mirror_connect.app.errors import WorkerUnreachable
from mirror_connect.connectors.errors import ConfigError

CONNECT_S: Final = 5.0
# Connect's limit for a request is 90 s, on the worker that the client asked.
PATIENCE_S: Final = 90.0
ANSWER_LIMIT: Final = 16 << 20
_HEAD_LIMIT: Final = 64 << 10
_PIECE: Final = 64 << 10
_URL: Final = re.compile(
    r"https?://(?:\[[0-9A-Fa-f:.]+(?:%[\w.~-]+)?\]|[\w.~-]+):\d{1,5}(?:/[\w.~%!$&'()*+,;=:@-]+)*/?", re.ASCII
)

Headers = Iterable[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Reply:
    """Another worker's answer. The names of headers are in small letters."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class _Address:
    scheme: str
    host: str
    port: int
    netloc: str
    path: str


class RestClient:
    """See the module. `tls` makes the context for https at its first use; it may block, and raise ConfigError.

    `patience_s`: for a whole request; `limit`: of an answer's bytes.
    """

    def __init__(
        self, tls: Callable[[], ssl.SSLContext], patience_s: float = PATIENCE_S, limit: int = ANSWER_LIMIT
    ) -> None:
        self._make_context = tls
        self._patience_s = patience_s
        self._limit = limit
        self._context: ssl.SSLContext | None = None
        self._making = asyncio.Lock()

    async def send(
        self,
        url: str,
        method: str,
        target: bytes,
        headers: Headers,
        body: bytes = b"",
        *,
        patience_s: float | None = None,
        limit: int | None = None,
    ) -> Reply:
        """The answer of the worker at `url`, whatever its status. `target`: path and query below `url`.

        WorkerUnreachable in all other cases; its `sent` says whether the worker may have got the request.
        """
        address = _parsed(url)
        patience_s = self._patience_s if patience_s is None else patience_s
        request = h11.Request(
            method=method,
            target=address.path.encode() + target,
            headers=[
                (b"Host", address.netloc.encode()),
                (b"Accept", b"application/json"),
                (b"User-Agent", b"mirror-connect"),
                (b"Connection", b"close"),
                *headers,
                *([(b"Content-Type", b"application/json")] if body else []),
                (b"Content-Length", str(len(body)).encode()),
            ],
        )
        context = await self._tls(url) if address.scheme == "https" else None
        until = asyncio.get_running_loop().time() + patience_s
        reader, writer = await _connected(url, address, context, patience_s)
        try:
            async with asyncio.timeout_at(until):
                return await _exchange(
                    url, reader, writer, request, body, limit=self._limit if limit is None else limit
                )
        except TimeoutError:
            raise WorkerUnreachable(url, f"did not answer within {patience_s:g} s", sent=True) from None
        except (OSError, ssl.SSLError) as error:
            raise WorkerUnreachable(url, f"broke the connection: {_text(error)}", sent=True) from None
        except h11.RemoteProtocolError:
            raise WorkerUnreachable(url, "sent an answer that is not HTTP/1.1, or none", sent=True) from None
        finally:
            # At once: to close TLS cleanly would wait for the other worker.
            writer.transport.abort()

    async def _tls(self, url: str) -> ssl.SSLContext:
        async with self._making:
            if self._context is None:
                try:
                    self._context = await asyncio.to_thread(self._make_context)
                except ConfigError as error:
                    raise WorkerUnreachable(url, f"can't be asked over https: {error}", sent=False) from None
            return self._context


async def _connected(
    url: str, address: _Address, context: ssl.SSLContext | None, patience_s: float
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    patience_s = min(CONNECT_S, patience_s)
    try:
        async with asyncio.timeout(patience_s):
            return await asyncio.open_connection(address.host, address.port, ssl=context, limit=_PIECE)
    except TimeoutError:
        why = f"took no connection within {patience_s:g} s"
    except ssl.SSLCertVerificationError as error:
        why = (
            f"has a certificate that this worker does not trust ({error.verify_message}): listeners.https.ssl.truststore.* "
            "or ssl.truststore.* of this worker's properties name the authority"
        )
    except ssl.SSLError as error:
        why = f"refused the TLS connection: {error.reason or _text(error)}"
    except (OSError, UnicodeError) as error:
        why = f"can't be reached: {_text(error)}"
    raise WorkerUnreachable(url, why, sent=False)


async def _exchange(
    url: str,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    request: h11.Request,
    body: bytes,
    *,
    limit: int,
) -> Reply:
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=_HEAD_LIMIT)
    writer.write(connection.send(request) or b"")
    if body:
        writer.write(connection.send(h11.Data(data=body)) or b"")
    connection.send(h11.EndOfMessage())
    await writer.drain()
    head: h11.Response | None = None
    received = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(_PIECE))
        elif isinstance(event, h11.Response):
            head = event
        elif isinstance(event, h11.Data):
            received += event.data
            if len(received) > limit:
                raise WorkerUnreachable(url, f"sent an answer of more than {limit} bytes", sent=True)
        elif isinstance(event, h11.EndOfMessage) and head is not None:
            found = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
            return Reply(head.status_code, found, bytes(received))
        elif not isinstance(event, h11.InformationalResponse):
            raise WorkerUnreachable(url, "closed the connection without an answer", sent=True)


def _parsed(url: str) -> _Address:
    if not _URL.fullmatch(url):
        # It may hold anything: it is not shown.
        raise WorkerUnreachable("an unusable URL", "can't be asked: it has to be http(s)://HOST:PORT", sent=False)
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        port = None
    if not port or not parts.hostname:
        raise WorkerUnreachable(url, "can't be asked: it has no valid port", sent=False)
    return _Address(parts.scheme, parts.hostname, port, parts.netloc, parts.path.rstrip("/"))


def _text(error: BaseException) -> str:
    if isinstance(error, OSError) and (error.errno or 0) > 0 and not isinstance(error, ssl.SSLError):
        # asyncio replaces the system's words by the address.
        return os.strerror(error.errno or 0)
    return " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__
