"""What Connect's workers ask each other, signed by the session key: heard and refused, as our workers ask no such thing."""

from __future__ import annotations

import re
from typing import Final

from fastapi import FastAPI, Request, Response

from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.rest.answers import errors
from mirror_connect.app.rest.json_bodies import read_body
from mirror_connect.app.rest.negotiation import require_json

SIGNATURE: Final = "X-Connect-Authorization"
ALGORITHM: Final = "X-Connect-Request-Signature-Algorithm"
# Nobody has proved yet who they are, and all that is done with such a body is to look whether its signature is right.
SIGNED_LIMIT: Final = 256 << 10
# As Connect's Basic authentication extension knows them: the signature stands for the credentials.
_SIGNED: Final = re.compile(r"POST /connectors/[^/]+/tasks|PUT /connectors/[^/]+/fence")


def is_signed(request: Request) -> bool:
    """Whether a request needs a signature instead of credentials."""
    return _SIGNED.fullmatch(f"{request.method} {request.scope['path']}") is not None


def add_worker_routes(application: FastAPI, herder: Herder) -> None:
    """Adds both resources."""

    @application.post("/connectors/{name}/tasks", status_code=204, responses=errors(403, 409, 413))
    async def put_task_configs(name: str, request: Request) -> Response:
        """Of Connect's workers among themselves: task configs for the leader to store. Refused here."""
        body = await read_body(request, SIGNED_LIMIT)
        if body:
            require_json(request)
        await herder.refuse_worker_request(body, request.headers.get(ALGORITHM), request.headers.get(SIGNATURE))

    @application.put("/connectors/{name}/fence", status_code=204, responses=errors(403, 409, 413))
    async def fence(name: str, request: Request) -> Response:
        """Of Connect's workers among themselves: a round of zombie fencing. Refused here."""
        body = await read_body(request, SIGNED_LIMIT)
        await herder.refuse_worker_request(body, request.headers.get(ALGORITHM), request.headers.get(SIGNATURE))
