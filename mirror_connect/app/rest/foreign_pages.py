"""Keeps web pages of other origins from changing anything through the browser of somebody who may.

A browser adds the credentials that it has for this worker to every request, whichever page makes it, and it can reach a
worker that the page's author cannot. Nearly all requests that change something have a method or a content type that a
browser lets no foreign page send. A restart has neither: POST without a body. Kafka Connect answers that, this does not.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from mirror_connect.app.config.cross_origins import CrossOrigins

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})


class ForeignPages:
    """Answers 403 to changes that a browser sends for another page, unless `allowed` has its origin."""

    def __init__(self, application: ASGIApp, allowed: CrossOrigins | None) -> None:
        self._application = application
        self._allowed = allowed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http" and scope["method"] not in _READING:
            headers = Headers(scope=scope)
            origin = headers.get("origin")
            if _is_foreign(headers) and not self._allows(origin):
                message = (
                    f"A page of {origin or 'another site'} may change nothing here: it is not the worker's own, and "
                    "access.control.allow.origin does not have it"
                )
                await JSONResponse({"error_code": 403, "message": message}, 403)(scope, receive, send)
                return
        await self._application(scope, receive, send)

    def _allows(self, origin: str | None) -> bool:
        return self._allowed is not None and origin is not None and self._allowed.allows(origin)


def _is_foreign(headers: Headers) -> bool:
    """Whether a browser sends it for a page that is not this worker's. Other programs send none of these headers."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        # The browser's own word, also behind a proxy that changes the host.
        return site not in ("same-origin", "none")
    origin = headers.get("origin")
    if origin is None:
        return False
    try:
        return urlsplit(origin).netloc.lower() != headers.get("host", "").lower()
    except ValueError:
        return True
