"""/ui and /docs: pages for browsers, from files of the package. They load nothing from elsewhere.

Kafka Connect has no such pages, so its rules don't apply to them: they don't negotiate content types. If credentials are
needed, they send the browser a challenge, or it could not log in.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from importlib import resources
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request, Response
from starlette.responses import FileResponse, RedirectResponse
from starlette.routing import Route

from mirror_connect.app.errors import Unauthorized

Authenticate = Callable[[Request], Awaitable[None]]

_FILES: Final = Path(str(resources.files("mirror_connect.app.rest"))) / "static"
_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
# People type credentials into these pages: nothing runs but their own files, and no other page can show them in a frame.
# `data:` alone: the arrows and locks in the style sheet of Swagger UI.
_POLICY: Final = "; ".join(
    [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
_HEADERS: Final = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    # A browser asks each time whether it has the newest file: after an update no old one meets a new one.
    "Cache-Control": "no-cache",
}
_CHALLENGE: Final = {
    **_HEADERS,
    "WWW-Authenticate": 'Basic realm="mirror-connect", charset="UTF-8"',
    "Cache-Control": "no-store",
}


def add_page_routes(application: FastAPI, authenticate: Authenticate, *, ui: bool, docs: bool) -> None:
    """Adds the routes of the pages that are switched on."""
    if ui:
        _add(application, authenticate, "ui", "ui")
    if docs:
        _add(application, authenticate, "docs", "docs", "swagger-ui")


def _add(application: FastAPI, authenticate: Authenticate, name: str, *folders: str) -> None:
    """A page at /NAME, and the files of its folders at /NAME/FILE. Its index.html is the page itself."""
    files = {
        found.name: found
        for folder in folders
        for found in sorted((_FILES / folder).iterdir())
        if found.suffix in _TYPES
    }
    index = files.pop("index.html")

    async def page(request: Request) -> Response:
        # The page's addresses are relative, so that it also works behind a proxy that adds a prefix.
        if request.scope.get("raw_path", b"").endswith(b"/"):
            return RedirectResponse(f"../{name}", 308, headers=_HEADERS)
        return await unless_refused(request, authenticate, lambda: _file(index, request))

    application.routes.append(Route(f"/{name}", page))
    for each, path in files.items():
        application.routes.append(Route(f"/{name}/{each}", _serves(path, authenticate)))


def _serves(path: Path, authenticate: Authenticate) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        return await unless_refused(request, authenticate, lambda: _file(path, request))

    return serve


async def unless_refused(request: Request, authenticate: Authenticate, made: Callable[[], Response]) -> Response:
    """The answer, or a 401 that makes a browser ask for credentials."""
    try:
        await authenticate(request)
    except Unauthorized as refused:
        return Response(str(refused), status_code=refused.status, media_type="text/plain", headers=_CHALLENGE)
    return made()


def _file(path: Path, request: Request) -> Response:
    found = FileResponse(path, stat_result=os.stat(path), media_type=_TYPES[path.suffix], headers=_HEADERS)
    if request.headers.get("if-none-match") == found.headers["etag"]:
        return Response(status_code=304, headers={"ETag": found.headers["etag"], **_HEADERS})
    return found
