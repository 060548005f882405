"""Asks a running Connect worker for its connectors. It only reads."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import httpx

from mirror_connect.app.config.name_lookups import LookupLoop
from mirror_connect.check.document import CONNECTOR, Document, UnknownDocument
from mirror_connect.check.judgement import Setting

TIMEOUT_S: Final = 30.0
# Ten thousand connectors with long configs. Compressed, an answer of some MiB could fill the memory.
MOST_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """What a worker says. `url`: without credentials. `about`: one line for people."""

    url: str
    about: str
    connectors: list[Document] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Rest:
    client: httpx.AsyncClient
    url: str

    @classmethod
    def of(cls, url: str, login: tuple[str, str] | None) -> Self:
        # The credentials of a URL are not to be shown.
        shown = httpx.URL(url)
        auth = login or ((shown.username, shown.password) if shown.username else None)
        # What stands behind a # may be the rest of a password.
        bare = str(shown.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")
        return cls(httpx.AsyncClient(timeout=TIMEOUT_S, auth=auth, follow_redirects=True), bare)

    async def get(self, path: str) -> Any:
        """The body of the answer; None if there is no such resource. UnknownDocument."""
        try:
            # One limit for all: a name server may hang, and an answer may come one byte at a time.
            async with asyncio.timeout(TIMEOUT_S), self.client.stream("GET", self.url + path) as answer:
                content = await self._content(answer)
        except (httpx.HTTPError, TimeoutError) as error:
            raise UnknownDocument(self.url, _reason(error)) from None
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise UnknownDocument(
                self.url, f"it answered {answer.status_code}: give --user, and the password in MIRROR_CONNECT_PASSWORD"
            )
        if answer.status_code != httpx.codes.OK:
            raise UnknownDocument(self.url, f"it answered {answer.status_code} to GET {path}")
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise UnknownDocument(self.url, "it is no Connect worker: its answer is not JSON") from None

    async def _content(self, answer: httpx.Response) -> bytes:
        content = bytearray()
        async for piece in answer.aiter_bytes():
            content += piece
            if len(content) > MOST_BYTES:
                raise UnknownDocument(self.url, f"it answered with more than {MOST_BYTES >> 20} MiB")
        return bytes(content)

    async def configs(self) -> dict[str, dict[str, Any]]:
        """The config of each connector. UnknownDocument."""
        found = await self.get("/connectors?expand=info")
        if isinstance(found, dict):
            return {name: self._config(entry, "info", "config") for name, entry in found.items()}
        # Workers before 2.3 know no expand.
        if not isinstance(found, list):
            raise UnknownDocument(self.url, "it is no Connect worker: GET /connectors lists no connectors")
        names = map(str, found)
        return {
            name: self._config(await self.get(f"/connectors/{quote(name, safe='')}/config") or {}) for name in names
        }

    def _config(self, answer: Any, *members: str) -> dict[str, Any]:
        for member in members:
            answer = answer.get(member) if isinstance(answer, dict) else None
        if not isinstance(answer, dict):
            raise UnknownDocument(self.url, "it is no Connect worker: GET /connectors has no configs")
        return answer


def ask(url: str, login: tuple[str, str] | None = None) -> RunningWorker:
    """The connectors of the worker at a URL. UnknownDocument with one line: unreachable, TLS, login, no worker."""
    # No line shows the URL before its credentials are known, nor httpx's text about it.
    try:
        if not urlsplit(url).hostname:
            raise UnknownDocument("the URL", "it names no host: give one such as http://localhost:8083")
        rest = _Rest.of(url, login)
    except (httpx.InvalidURL, ValueError):
        raise UnknownDocument(
            "the URL", "it is not valid: give one such as http://localhost:8083, and a login with --user"
        ) from None
    with asyncio.Runner(loop_factory=LookupLoop) as runner:
        return runner.run(_ask(rest))


async def _ask(rest: _Rest) -> RunningWorker:
    async with rest.client:
        root = await rest.get("/")
        if not isinstance(root, dict) or "kafka_cluster_id" not in root:
            raise UnknownDocument(rest.url, "it is no Connect worker: GET / has no kafka_cluster_id")
        about = f"Connect {root.get('version')} on the cluster {root['kafka_cluster_id']}"
        return RunningWorker(rest.url, about, [_document(*each) for each in (await rest.configs()).items()])


def _document(name: str, config: dict[str, Any]) -> Document:
    texts = {key: None if value is None else str(value) for key, value in config.items()}
    return Document(CONNECTOR, name, {key: Setting(key, value) for key, value in texts.items()})


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: httpx.HTTPError | TimeoutError) -> str:
    """One line, with the advice for a certificate that is not trusted."""
    text = " ".join(str(error).split()) or type(error).__name__
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error)):
        return f"its certificate is not trusted: name the authority's in SSL_CERT_FILE ({text})"
    if isinstance(error, httpx.TimeoutException | TimeoutError):
        return f"it did not answer within {TIMEOUT_S:g} s"
    return f"it can't be reached: {text}"
