"""Content types: what a request may carry and what its sender must be able to read.

Connect decides this while routing: after the path and the method are known, before the credentials are looked at. Only a
content type that is none is refused before that.
"""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.requests import Request

from mirror_connect.app.rest.media_types import accepted, content_type


async def negotiate(request: Request) -> None:
    """Raises the router's 415 for a body that calls itself anything but JSON, its 406 for who reads no JSON.

    BadMediaType for an Accept that can't be read.
    """
    carried = request.headers.get("content-type")
    if carried is not None and not content_type(carried).stands_for_json():
        raise HTTPException(415)
    wanted = accepted(",".join(request.headers.getlist("accept")))
    if wanted and not any(each.stands_for_json() for each in wanted):
        raise HTTPException(406)


def require_json(request: Request) -> None:
    """415 for a body without a content type, or of one that is a pattern; only asked for where a body is read."""
    carried = request.headers.get("content-type")
    if carried is None or content_type(carried).is_pattern():
        raise HTTPException(415)
