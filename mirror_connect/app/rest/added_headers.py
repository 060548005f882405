"""Headers that every answer gets before it is sent: the configured headers, and those of cross-origin requests."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mirror_connect.app.config.cross_origins import CrossOrigins
from mirror_connect.app.config.response_headers import HeaderRule

RawHeaders = list[tuple[bytes, bytes]]

# As Connect configures Jetty's CrossOriginHandler.
_PREFLIGHT_HEADERS: Final = b"Content-Type"
_PREFLIGHT_AGE_S: Final = b"60"
# For these the resource's own header wins over a rule, as in Jetty.
_OF_THE_RESOURCE: Final = frozenset({b"cache-control", b"content-type", b"content-length"})


class ConfiguredHeaders:
    """Adds the headers of `response.http.headers.config` to every answer of an application."""

    def __init__(
        self, application: ASGIApp, rules: Sequence[HeaderRule], clock: Callable[[], float] = time.time
    ) -> None:
        self._application = application
        self._rules = rules
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        await self._application(scope, receive, _before(send, self._with_rules))

    def _with_rules(self, own: RawHeaders) -> RawHeaders:
        now = self._clock()
        made: RawHeaders = []
        for rule in self._rules:
            name = rule.name.lower().encode()
            if not rule.adds:
                made = [header for header in made if header[0] != name]
            made.append((name, rule.text(now).encode("latin-1")))
        replaced = {name for name, _ in own} & _OF_THE_RESOURCE
        return [header for header in made if header[0] not in replaced] + own


class CrossOrigin:
    """Adds the headers by which browsers know which pages may read an application's answers.

    For other origins the answer is the same, without the header: the browser hides it from the page. A preflight reaches
    the resource, so its OPTIONS needs credentials if other requests do.
    """

    def __init__(self, application: ASGIApp, allowed: CrossOrigins) -> None:
        self._application = application
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        more = [(b"vary", b"Origin"), *self._headers(scope["method"], Headers(scope=scope))]
        await self._application(scope, receive, _before(send, lambda own: own + more))

    def _headers(self, method: str, request: Headers) -> Iterable[tuple[bytes, bytes]]:
        origin = request.get("origin")
        if origin is None or not self._allowed.allows(origin):
            return
        yield b"access-control-allow-origin", origin.encode("latin-1")
        if method == "OPTIONS" and "access-control-request-method" in request:
            yield b"access-control-allow-methods", ",".join(self._allowed.methods).encode()
            yield b"access-control-allow-headers", _PREFLIGHT_HEADERS
            yield b"access-control-max-age", _PREFLIGHT_AGE_S


def _before(send: Send, changed: Callable[[RawHeaders], RawHeaders]) -> Send:
    """`send` with changed headers of an answer."""

    async def changing(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": changed(list(message.get("headers", ())))}
        await send(message)

    return changing
