"""Which request paths and hosts are refused before routing, and the path that the router sees for the others.

The rules are those of the Jetty and the Jersey under Kafka Connect. A path that servers may read differently is refused: an
encoded slash, percent or dot segment, an empty segment, characters that no URI has, bytes that are not UTF-8. Text behind a
semicolon has no effect. Dot segments are names and are not resolved. The fixed words of a path must not be encoded.

One exception: POST creates connectors with names like `a/b` and `..`, which Kafka Connect can hardly read, change or delete
afterwards. Here the percent-encoded path of such a connector works as long as the connector exists.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mirror_connect.app.rest.jetty_errors import bad_header, bad_uri
from mirror_connect.app.rest.media_types import BadMediaType, content_type

_ESCAPE: Final = re.compile(rb"%([0-9A-Fa-f]{2})|%")
# The host of a Location: a name or an address, and perhaps a port.
_HOST: Final = re.compile(rb"(?:\[[0-9A-Fa-f:.]+(?:%[\w.~-]+)?\]|[\w.~!$&'()*+,;=%-]*)(?::[0-9]*)?", re.ASCII)
_ABSOLUTE: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://([^/]*)(/.*)?")
_CONNECTOR: Final = re.compile(rb"/connectors/([^/]+)(/.*)?")
_ILLEGAL: Final = re.compile(rb"[^!$-;=?-Z_a-z~]")
_SUSPICIOUS: Final = re.compile(rb"%(?:0[1-9a-f]|1[0-9a-f]|5c|7f)", re.IGNORECASE)
# Only these query parameters are lists; of all others the first value counts.
_LISTS: Final = frozenset({b"expand"})
# Replaces a slash in a name between the gate and the routes, which end a name at a slash. No text has this character.
_SLASH: Final = "\ufdd0"
# Marks a segment that was written with escapes: it may be a name, but not one of the fixed words of routes.
_ESCAPED: Final = "\ufdd1"


class RefusedPath(Exception):
    """The path is refused with 400; the text says why."""


def routed_path(raw_path: bytes) -> str:
    """The decoded path for the routes, without a trailing slash and path parameters; RefusedPath."""
    raw_path = raw_path.partition(b"#")[0]
    if not raw_path.startswith(b"/"):
        raise RefusedPath("Bad URI path")
    raw_segments = raw_path.split(b"/")[1:]
    taken: list[str] = []
    depth = 0
    for place, raw in enumerate(raw_segments, 1):
        segment = _segment(raw, last=place == len(raw_segments))
        if segment is not None:
            depth += {"..": -1, ".": 0}.get(segment, 1)
            taken.append(segment)
        if depth < 0:
            raise RefusedPath("Bad Request")
    return "/" + "/".join(taken)


def _segment(raw: bytes, *, last: bool) -> str | None:
    """A decoded segment without its parameters; None for the empty segment behind a trailing slash."""
    name, semicolon, _ = raw.partition(b";")
    if any(not digits or digits == b"00" for digits in _ESCAPE.findall(name)):
        raise RefusedPath("Bad Request")
    if name == b"":
        if last:
            return None
        raise RefusedPath("Ambiguous URI empty segment")
    if _ILLEGAL.search(name):
        raise RefusedPath("Illegal Path Character")
    if _SUSPICIOUS.search(name):
        raise RefusedPath("Suspicious Path Character")
    lowered = name.lower()
    if b"%2f" in lowered:
        raise RefusedPath("Ambiguous URI path separator")
    if b"%25" in name:
        raise RefusedPath("Ambiguous URI path encoding")
    try:
        decoded = unquote_to_bytes(name).decode("utf-8")
    except UnicodeDecodeError:
        raise RefusedPath("Bad UTF-8 encoding") from None
    if decoded in (".", "..") and (b"%" in name or semicolon):
        raise RefusedPath("Ambiguous URI path segment" if b"%" in name else "Ambiguous URI path parameter")
    return _ESCAPED + decoded if b"%" in name else decoded


def path_of_a_connector(raw_path: bytes, exists: Callable[[str], bool]) -> str | None:
    """The path for the routes, if a refused path is that of an existing connector; else None."""
    found = _CONNECTOR.fullmatch(raw_path)
    if found is None or b";" in found[1] or _ILLEGAL.search(found[1]) or any(not d for d in _ESCAPE.findall(found[1])):
        return None
    try:
        rest = routed_path(b"/connectors/name" + (found[2] or b""))
        name = unquote_to_bytes(found[1]).decode("utf-8")
    except (RefusedPath, UnicodeDecodeError):
        return None
    if not exists(name):
        return None
    return f"/connectors/{_ESCAPED}{name.replace('/', _SLASH)}{rest.removeprefix('/connectors/name')}"


async def whole_names(request: Request) -> None:
    """A dependency of every route: restores the names in the path."""
    for parameter, text in request.path_params.items():
        request.path_params[parameter] = text.removeprefix(_ESCAPED).replace(_SLASH, "/")


def first_of_each(query: bytes) -> bytes:
    """A query without a fragment, in which each parameter that is no list has only its first value."""
    seen = set()
    first = []
    for piece in query.partition(b"#")[0].split(b"&"):
        name = unquote_to_bytes(piece.partition(b"=")[0].replace(b"+", b" "))
        if name in _LISTS or name not in seen:
            first.append(piece)
        seen.add(name)
    return b"&".join(first)


class UriGate:
    """Refuses bad paths, hosts and content types as Jetty and Jersey do; answers HEAD as GET without a body."""

    def __init__(self, app: ASGIApp, exists: Callable[[str], bool]) -> None:
        self._app = app
        self._exists = exists

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "HEAD":
            send = _without_body(send)
        request = Request(scope)
        try:
            path = self._path(scope)
            carried = request.headers.getlist("content-type")
            if carried:
                # With two headers it is unclear which one counts: joined they are malformed.
                content_type(",".join(carried))
        except RefusedPath as refused:
            await bad_uri(request, str(refused))(scope, receive, send)
            return
        except BadMediaType:
            await bad_header(request)(scope, receive, send)
            return
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        query = first_of_each(scope.get("query_string", b""))
        await self._app({**scope, "path": path, "method": method, "query_string": query}, receive, send)

    def _path(self, scope: Scope) -> str:
        raw_path = scope.get("raw_path") or scope["path"].encode()
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        absolute = _ABSOLUTE.fullmatch(raw_path)
        if absolute is not None:
            if hosts != [absolute[1]]:
                raise RefusedPath("Authority!=Host")
            raw_path = absolute[2] or b"/"
        if not all(map(_HOST.fullmatch, hosts)):
            raise RefusedPath("Bad Host")
        try:
            return routed_path(raw_path)
        except RefusedPath:
            path = path_of_a_connector(raw_path, self._exists)
            if path is None:
                raise
            return path


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        # The headers keep the length of the body that a GET would get.
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return send_head
