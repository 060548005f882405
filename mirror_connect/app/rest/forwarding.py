"""Passes a user's request on to the worker that has to carry it out, as Connect does.

Two hops at most: a worker that does not lead asks the leader, and that one the owner of a connector or task. The query
parameter `forward` counts them: not given, another hop may follow; true, one more; false, none. So no request goes round.

Of the request these are passed on: method, path, query, body, and the Authorization header. Of the answer: status, body,
and the path of Location. An answer that is not of a Connect worker's form is not passed on: the other worker's URL comes
from the group, and must not make this worker a proxy for other servers.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import re
from collections.abc import Coroutine
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mirror_connect.app.errors import (
    BadRequest,
    ConnectError,
    NotLeader,
    TooManyHops,
    Unauthorized,
    WorkerUnreachable,
    WrongWorker,
)
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.rest.json_bodies import BODY, parsed
from mirror_connect.app.rest_client import Reply

log = logging.getLogger(__name__)

FORWARD: Final = "forward"
# How long a request waits for another leader when the present one takes no connection: as for the first (leadership.py).
NEXT_LEADER_S: Final = 15.0
# A leader that has just lost its place answers within this time, if it is able to: that it leads no more, or what it did.
FORMER_LEADER_S: Final = 3.0
_CONNECTOR: Final = re.compile(r"/connectors/[^\s/?#]+", re.ASCII)


class Forwarding:
    """See the module."""

    def __init__(self, herder: Herder) -> None:
        self._herder = herder

    async def answer(self, request: Request, error: WrongWorker) -> Response:
        """The other worker's answer. Raises ConnectError: `error`, or why there is no such answer."""
        client = self._herder.worker_client
        if error.url is None or not client.available:
            raise error
        given = request.query_params.get(FORWARD)
        if given is not None and given.lower() != "true":
            raise TooManyHops
        target = _target(request, hops_follow=given is None)
        authorization = request.headers.get("authorization")
        body: bytes = request.scope.get(BODY, b"")
        url = error.url
        while True:
            log.debug("Forwarding %s to %s", request.method, url)
            try:
                asking = client.forward(url, request.method, target, authorization, body)
                reply = await (self._while_it_leads(url, asking) if isinstance(error, NotLeader) else asking)
                break
            except WorkerUnreachable as away:
                # A leader that was killed leads until its session is over. It did not get the request.
                again = not away.sent and given is None and isinstance(error, NotLeader)
                following = await client.leader_after(url, NEXT_LEADER_S) if again else None
                if following is None:
                    raise
                url = following
        return await _passed_on(reply, url, request)

    async def _while_it_leads(self, url: str, asking: Coroutine[Any, Any, Reply]) -> Reply:
        """The answer of the leader at `url`. One that was suspended, and is the leader no more, is not waited for."""
        asked = asyncio.ensure_future(asking)
        following = asyncio.ensure_future(self._herder.worker_client.leader_after(url, math.inf))
        try:
            await asyncio.wait({asked, following}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                await asyncio.wait({asked}, timeout=FORMER_LEADER_S)
            if not asked.done():
                raise WorkerUnreachable(url, "leads no more, and did not answer", sent=True)
            return asked.result()
        finally:
            for each in (asked, following):
                each.cancel()
            await asyncio.gather(asked, following, return_exceptions=True)


def _target(request: Request, *, hops_follow: bool) -> bytes:
    """Path and query for the other worker, written anew: only what this worker has understood goes on."""
    path = request.scope["route"].path
    for name, value in request.path_params.items():
        path = path.replace(f"{{{name}}}", quote(str(value), safe=""))
    query = [(name, value) for name, value in request.query_params.items() if name != FORWARD]
    query.append((FORWARD, "true" if hops_follow else "false"))
    encoded: bytes = f"{path}?{urlencode(query)}".encode()
    return encoded


async def _passed_on(reply: Reply, url: str, request: Request) -> Response:
    if reply.status == Unauthorized.status:
        raise Unauthorized
    if not (200 <= reply.status < 300 or reply.status >= 400):
        raise ConnectError(f"Unexpected status code when handling forwarded request: {reply.status}")
    headers = _location(reply, request)
    if not reply.body and reply.status < 300:
        return Response(status_code=reply.status, headers=headers)
    content: Any = None
    with contextlib.suppress(BadRequest):
        content = await parsed(reply.body)
    if not isinstance(content, dict) or (reply.status >= 400 and not isinstance(content.get("message"), str)):
        raise WorkerUnreachable(url, f"answered {reply.status}, and not as a Connect worker does", sent=True)
    if reply.status >= 400:
        return JSONResponse({"error_code": reply.status, "message": str(content["message"])}, reply.status)
    # The bytes: a parsed number may have another form.
    return Response(reply.body, reply.status, headers, "application/json")


def _location(reply: Reply, request: Request) -> dict[str, str]:
    """Of a connector's URL, with the host that the client named."""
    found = urlsplit(reply.headers.get("location", "")).path if reply.status == 201 else ""
    # In dedicated mode it is below a flow's path, but there nothing is created.
    if not _CONNECTOR.fullmatch(found):
        return {}
    host = request.headers.get("host") or request.url.netloc
    return {"Location": f"{request.url.scheme}://{host}{found}"}
