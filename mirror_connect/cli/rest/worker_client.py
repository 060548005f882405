"""A client of a worker's REST interface: login, TLS, time limits, and errors as one line with what to do."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote, urlencode, urlsplit

import httpx

from mirror_connect.cli.rest.failures import (
    CommandFailed,
    RequestRefused,
    UnknownName,
    Unsupported,
    WorkerUnreachable,
    WrongUsage,
)

# Kafka's worker keeps a request for up to 90 s.
_TIMEOUT: Final = httpx.Timeout(100.0, connect=10.0)
# While workers rebalance they answer 409, and to some reads 500; Kafka's own clients repeat both.
_CONFLICT_S: Final = 10.0
_PASSING_READ_S: Final = 2.0
_PAUSE_S: Final = 0.5


class WorkerClient:
    """One worker. `url` is shown, and has no login in it."""

    def __init__(
        self,
        url: str,
        login: tuple[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        parsed = _parsed(url)
        self.url = str(parsed.copy_with(username=None, password=None, query=None, fragment=None)).rstrip("/")
        auth = login or ((parsed.username, parsed.password) if parsed.username else None)
        self._client = httpx.Client(
            timeout=_TIMEOUT, auth=auth, follow_redirects=True, verify=True if tls is None else tls
        )
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def get(self, path: str, **query: object) -> Any:
        """The body of the answer. UnknownName for 404, other errors as `send`."""
        return self.send("GET", path, **query)

    def find(self, path: str, **query: object) -> Any:
        """The body of the answer; None if there is no such resource."""
        try:
            return self.get(path, **query)
        except UnknownName:
            return None

    def extension(self, path: str, **query: object) -> Any:
        """The body of a resource that only mirror-connect has. Unsupported if this worker lacks it."""
        found = self.find(path, **query)
        if found is None:
            raise Unsupported(
                f"{self.url} has no {path}: it is a worker of Kafka's own, or an older one; mirror-connect status works "
                "with any worker"
            )
        return found

    def send(self, method: str, path: str, body: object = None, **query: object) -> Any:
        """The parsed body of the answer; None if it is empty. CommandFailed: see failures.py."""
        address = f"{path}?{urlencode(query, doseq=True)}" if query else path
        answer = self._answer(method, address, body)
        if answer.is_success:
            return self._parsed(answer, address)
        raise self._refusal(answer, method, address)

    def _answer(self, method: str, address: str, body: object) -> httpx.Response:
        begun = time.monotonic()
        while True:
            try:
                answer = self._client.request(method, self.url + address, json=body)
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                raise WorkerUnreachable(
                    f"{self.url} {_reason(error)}; name the worker with --worker or --context"
                ) from None
            if time.monotonic() - begun >= _passes_within(method, answer.status_code):
                return answer
            self._sleep(_PAUSE_S)

    def _parsed(self, answer: httpx.Response, address: str) -> Any:
        if not answer.content:
            return None
        try:
            return answer.json()
        except (ValueError, RecursionError):
            raise WorkerUnreachable(f"{self.url} is no Connect worker: its answer to {address} is not JSON") from None

    def _refusal(self, answer: httpx.Response, method: str, address: str) -> CommandFailed:
        status = answer.status_code
        message = _message(answer)
        line = f"{method} {self.url}{address} was answered with {status}{message}"
        if status == httpx.codes.NOT_FOUND:
            if not message:
                return WorkerUnreachable(f"{line}: this is no Connect worker, or it is starting")
            listed = "; mirror-connect status lists the connectors" if address.startswith("/connectors") else ""
            return UnknownName(f"{line}{listed}")
        if status == httpx.codes.UNAUTHORIZED:
            return WrongUsage(f"{line}; give --user, and the password in MIRROR_CONNECT_PASSWORD")
        if status == httpx.codes.CONFLICT:
            line += "; the workers rebalance: try again in a moment"
        elif answer.is_server_error:
            line += "; the worker's log says more"
        return RequestRefused(line, status)


def _passes_within(method: str, status: int) -> float:
    """For how many seconds such an answer may be one of a moment."""
    if status == httpx.codes.CONFLICT:
        return _CONFLICT_S
    return _PASSING_READ_S if method == "GET" and status == httpx.codes.INTERNAL_SERVER_ERROR else 0.0


def connector_path(name: str, *more: str) -> str:
    """The path of a connector's resource."""
    return "/".join(("/connectors", *(quote(each, safe="") for each in (name, *more))))


def plugin_path(plugin: str, *more: str) -> str:
    """The path of a class's resource. The name comes from a file: quoted, it can't lead to another resource."""
    return "/".join(("/connector-plugins", *(quote(each, safe="") for each in (plugin, *more))))


def tls_context(cacert: str | Path | None, cert: str | Path | None, key: str | Path | None) -> ssl.SSLContext | None:
    """For https; None for the authorities that this machine trusts. WrongUsage names a file that can't be used."""
    if cacert is None and cert is None:
        if key is not None:
            raise WrongUsage("--key needs --cert: the certificate of this client")
        return None
    try:
        context = ssl.create_default_context(cafile=cacert)
    except (OSError, ssl.SSLError) as error:
        raise WrongUsage(f"--cacert {cacert} can't be used: {_text(error)}") from None
    if cert is not None:
        try:
            # Without a callback, OpenSSL would ask for the password of the key on the terminal.
            context.load_cert_chain(cert, key, password=lambda: "")
        except (OSError, ssl.SSLError) as error:
            raise WrongUsage(
                f"--cert {cert} can't be used: {_text(error)}; it must be PEM, as must its key, without a password"
            ) from None
    return context


def _parsed(url: str) -> httpx.URL:
    try:
        if urlsplit(url).hostname and urlsplit(url).scheme in ("http", "https"):
            return httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        pass
    # It is not shown: it may hold a password.
    raise WrongUsage("the worker's URL is not valid: give one such as http://localhost:8083, and a login with --user")


def _message(answer: httpx.Response) -> str:
    """Connect's message after a colon; empty if the answer has none."""
    try:
        body = answer.json()
    except (ValueError, RecursionError):
        # Basic authentication answers with a bare sentence, Jetty with a page.
        text = answer.text.strip()
        return f": {text}" if text and len(text) <= 200 and not text.startswith("<") else ""
    message = body.get("message") if isinstance(body, Mapping) else None
    return f": {message}" if isinstance(message, str) and message else ""


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _text(error: BaseException) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__


def _reason(error: Exception) -> str:
    if any(isinstance(cause, ssl.SSLCertVerificationError) for cause in _causes(error)):
        return f"has a certificate that is not trusted: name its authority with --cacert ({_text(error)})"
    if isinstance(error, httpx.TimeoutException):
        return "did not answer in time"
    return f"can't be reached: {_text(error)}"
