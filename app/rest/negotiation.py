"""Content types: what a request may carry and what its sender must be able to read.

Connect decides this while routing: after the path and the method are known, before the credentials are looked at.
"""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request


async def negotiate(request: Request) -> None:
    """Raises the router's 415 for a body that calls itself anything but JSON, its 406 for who reads no JSON."""
    content_type = request.headers.get("content-type")
    if content_type is not None and _essence(content_type) not in ("application/json", "application/*", "*/*"):
        raise HTTPException(415)
    accept = ",".join(request.headers.getlist("accept"))
    if accept.strip() and not any(_takes_json(entry) for entry in accept.split(",")):
        raise HTTPException(406)


def require_json(request: Request) -> None:
    """415 for a body without a content type, or of one that is a pattern; only asked for where a body is read."""
    content_type = request.headers.get("content-type")
    if content_type is None or "*" in _essence(content_type):
        raise HTTPException(415)


def _essence(media_type: str) -> str:
    return media_type.partition(";")[0].strip().lower()


def _takes_json(entry: str) -> bool:
    if _essence(entry) not in ("*/*", "application/*", "application/json"):
        return False
    for parameter in entry.split(";")[1:]:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value) > 0
            except ValueError:
                return False
    return True
