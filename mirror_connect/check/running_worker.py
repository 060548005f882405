"""Asks a running Connect worker for its connectors. It only reads."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Self
from urllib.parse import quote, urlsplit

import httpx

from mirror_connect.check.document import CONNECTOR, Document, UnknownDocument
from mirror_connect.check.judgement import Setting

TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """What a worker says. `url`: without credentials. `about`: one line for people."""

    url: str
    about: str
    connectors: list[Document] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Rest:
    client: httpx.Client
    url: str

    @classmethod
    def of(cls, url: str, login: tuple[str, str] | None) -> Self:
        # The credentials of a URL are not to be shown.
        shown = httpx.URL(url)
        auth = login or ((shown.username, shown.password) if shown.username else None)
        bare = str(shown.copy_with(username=None, password=None)).rstrip("/")
        return cls(httpx.Client(timeout=TIMEOUT_S, auth=auth, follow_redirects=True), bare)

    def get(self, path: str) -> Any:
        """The body of the answer; None if there is no such resource. UnknownDocument."""
        try:
            answer = self.client.get(self.url + path)
        except httpx.HTTPError as error:
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
            return answer.json()
        except ValueError:
            raise UnknownDocument(self.url, "it is no Connect worker: its answer is not JSON") from None


def ask(url: str, login: tuple[str, str] | None = None) -> RunningWorker:
    """The connectors of the worker at a URL. UnknownDocument with one line: unreachable, TLS, login, no worker."""
    if not urlsplit(url).hostname:
        raise UnknownDocument(url, "it names no host: give one such as http://localhost:8083")
    try:
        rest = _Rest.of(url, login)
    except httpx.InvalidURL as error:
        raise UnknownDocument("the URL", f"it is not valid: {error}") from None
    with rest.client:
        root = rest.get("/")
        if not isinstance(root, dict) or "kafka_cluster_id" not in root:
            raise UnknownDocument(rest.url, "it is no Connect worker: GET / has no kafka_cluster_id")
        about = f"Connect {root.get('version')} on the cluster {root['kafka_cluster_id']}"
        return RunningWorker(rest.url, about, [_document(name, config) for name, config in _configs(rest).items()])


def _configs(rest: _Rest) -> dict[str, dict[str, Any]]:
    found = rest.get("/connectors?expand=info")
    if isinstance(found, dict):
        return {name: dict(entry["info"]["config"]) for name, entry in found.items()}
    # Workers before 2.3 know no expand.
    names = found if isinstance(found, list) else []
    return {name: dict(rest.get(f"/connectors/{quote(name, safe='')}/config") or {}) for name in names}


def _document(name: str, config: dict[str, Any]) -> Document:
    texts = {key: None if value is None else str(value) for key, value in config.items()}
    return Document(CONNECTOR, name, {key: Setting(key, value) for key, value in texts.items()})


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _reason(error: httpx.HTTPError) -> str:
    """One line, with the advice for a certificate that is not trusted."""
    text = " ".join(str(error).split()) or type(error).__name__
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error)):
        return f"its certificate is not trusted: name the authority's in SSL_CERT_FILE ({text})"
    if isinstance(error, httpx.TimeoutException):
        return f"it did not answer within {TIMEOUT_S:g} s"
    return f"it can't be reached: {text}"
