"""Which request paths and hosts are refused before routing, and what the router sees of the others.

The rules are those of the Jetty under Kafka Connect: a path that different servers read differently (an encoded slash,
percent or dot segment, an empty segment) is refused instead of guessed at. So is one that is no UTF-8.

One exception: POST makes a connector of any name, `a/b` and `..` too, which in Kafka Connect nobody can read, change or
delete ever after. Here its percent-encoded path leads to it, as long as it exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})|%")
_AMBIGUOUS: Final = frozenset({"2f", "25", "00"})
# What a Location is made of: a name or an address, and perhaps a port.
_HOST: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+(?:%[\w.~-]+)?\]|[\w.~!$&'()*+,;=%-]*)(?::[0-9]*)?", re.ASCII)
_CONNECTOR: Final = re.compile(rb"/connectors/([^/]+)(/.*)?")
# Stands for a slash of a name between the gate and the routes, which end a name at a slash. No text has this character.
_SLASH: Final = "\ufdd0"


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


def path_of_a_connector(raw_path: bytes, exists: Callable[[str], bool]) -> str | None:
    """The path for the routes of a refused path that is an existing connector's; None for any other."""
    found = _CONNECTOR.fullmatch(raw_path)
    if found is None or any(not digits for digits in _ESCAPE.findall(found[1])):
        return None
    rest = routed_path(b"/connectors/name" + (found[2] or b""))
    try:
        name = _ESCAPE.sub(_decoded, found[1]).decode("utf-8")
    except UnicodeDecodeError:
        return None
    # A dot segment that isn't encoded is followed by every client and server, and never a name.
    if rest is None or not rest.startswith("/connectors/name") or found[1] in (b".", b"..") or not exists(name):
        return None
    return f"/connectors/{name.replace('/', _SLASH)}{rest.removeprefix('/connectors/name')}"


async def whole_name(request: Request) -> None:
    """A dependency of every route: gives a connector's name its slashes back."""
    name = request.path_params.get("name")
    if name is not None:
        request.path_params["name"] = name.replace(_SLASH, "/")


def _hosts_are_plain(scope: Scope) -> bool:
    return all(_HOST.fullmatch(value) for name, value in scope["headers"] if name == b"host")


def _decoded(escape: re.Match[bytes]) -> bytes:
    return bytes([int(escape.group(1), 16)])


class UriGate:
    """Refuses bad paths with an HTML page, as Jetty does, hands HEAD on as GET and sends no body for it."""

    def __init__(self, app: ASGIApp, exists: Callable[[str], bool]) -> None:
        self._app = app
        self._exists = exists

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw_path = scope.get("raw_path") or scope["path"].encode()
        path = routed_path(raw_path)
        if path is None:
            path = path_of_a_connector(raw_path, self._exists)
        if path is None or not _hosts_are_plain(scope):
            what = "path" if path is None else "host"
            page = "<html><head><title>Error 400 Bad Request</title></head><body><h2>HTTP ERROR 400</h2>"
            page += f"<p>The {what} of the request is ambiguous or badly encoded.</p></body></html>\n"
            await HTMLResponse(page, status_code=400)(scope, receive, send)
            return
        if scope["method"] != "HEAD":
            await self._app({**scope, "path": path}, receive, send)
            return

        async def send_head(message: Message) -> None:
            # The length of the body that a GET would get stays in the headers.
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        await self._app({**scope, "path": path, "method": "GET"}, receive, send_head)
