"""Which request paths are refused before routing, and what the router sees of the others.

The rules are those of the Jetty under Kafka Connect: a path that different servers read differently (an encoded slash,
percent or dot segment, an empty segment) is refused instead of guessed at. So is one that is no UTF-8.
"""

from __future__ import annotations

import re
from typing import Final

from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})|%")
_AMBIGUOUS: Final = frozenset({"2f", "25", "00"})


def routed_path(raw_path: bytes) -> str | None:
    """The decoded path without a trailing slash, plain dot segments followed; None when it is to be refused."""
    escapes = _ESCAPE.findall(raw_path)
    if any(not digits or digits.lower().decode() in _AMBIGUOUS for digits in escapes):
        return None
    try:
        raw_segments = raw_path.decode("ascii").split("/")[1:]
        segments = [_ESCAPE.sub(_decoded, segment.encode()).decode("utf-8") for segment in raw_segments]
    except UnicodeDecodeError:
        return None
    if segments and segments[-1] == "":
        # One trailing slash does not matter; a second one is an empty segment.
        segments.pop()
        raw_segments.pop()
    taken: list[str] = []
    for raw, segment in zip(raw_segments, segments, strict=True):
        if segment == "" or (segment in (".", "..") and "%" in raw):
            return None
        if segment == "..":
            if not taken:
                return None
            taken.pop()
        elif segment != ".":
            taken.append(segment)
    return "/" + "/".join(taken)


def _decoded(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape.group(1), 16)])


class UriGate:
    """Refuses bad paths with an HTML page, as Jetty does, hands HEAD on as GET and sends no body for it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = routed_path(scope.get("raw_path") or scope["path"].encode())
        if path is None:
            page = "<html><head><title>Error 400 Bad Request</title></head><body><h2>HTTP ERROR 400</h2>"
            page += "<p>The path of the request is ambiguous or badly encoded.</p></body></html>\n"
            await HTMLResponse(page, status_code=400)(scope, receive, send)
            return
        if scope["method"] != "HEAD":
            await self._app({**scope, "path": path}, receive, send)
            return

        async def send_head(message: Message) -> None:
            # The length of the body that a GET would get stays in the headers.
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "path": path, "method": "GET"}, receive, send_head)
