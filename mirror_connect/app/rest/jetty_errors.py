"""Answers 400 to requests that reach no resource, as the Jetty under Kafka Connect does.

They don't have the form of Connect's errors: a page for clients that accept HTML, a JSON object for clients that accept only
JSON, and no body for methods other than GET, POST and HEAD.
"""

from __future__ import annotations

from html import escape

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

_NOT_CACHED = {"Cache-Control": "must-revalidate,no-cache,no-store"}
_WITH_BODY = ("GET", "POST", "HEAD")


def bad_uri(request: Request, reason: str) -> Response:
    """The answer to a request whose path can't be read; the connection ends with it."""
    return _refused(request, reason, "/badURI", {**_NOT_CACHED, "Connection": "close"})


def bad_header(request: Request) -> Response:
    """The answer to a request with a malformed Content-Type or Accept header."""
    host = request.headers.get("host") or request.url.netloc
    path = request.scope.get("raw_path", b"").decode("latin-1")
    return _refused(request, "Bad Request", f"{request.url.scheme}://{host}{path}", _NOT_CACHED)


def _refused(request: Request, reason: str, url: str, headers: dict[str, str]) -> Response:
    accepted = ",".join(request.headers.getlist("accept")).lower()
    if request.method not in _WITH_BODY:
        return Response(status_code=400, headers=headers)
    if not accepted or "text/html" in accepted or "text/*" in accepted or "*/*" in accepted:
        return Response(_page(reason, url), 400, headers, "text/html;charset=iso-8859-1")
    if "json" in accepted:
        return JSONResponse({"message": reason, "url": url, "status": "400"}, 400, headers)
    return Response(status_code=400, headers=headers)


def _page(reason: str, url: str) -> bytes:
    rows = (("URI:", url), ("STATUS:", "400"), ("MESSAGE:", reason))
    table = "".join(f"<tr><th>{name}</th><td>{escape(value)}</td></tr>\n" for name, value in rows)
    return (
        '<html>\n<head>\n<meta http-equiv="Content-Type" content="text/html;charset=ISO-8859-1"/>\n'
        f"<title>Error 400 {reason}</title>\n</head>\n<body>\n<h2>HTTP ERROR 400 {reason}</h2>\n"
        f"<table>\n{table}</table>\n</body>\n</html>\n"
    ).encode("latin-1", "replace")
