"""Signed requests between Connect's workers: their signature is checked, then they are refused, as we do not use them."""

from __future__ import annotations

import re
from typing import Final, NoReturn

from fastapi import FastAPI, Request, Response

from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.herder.worker_requests import Asked
from mirror_connect.app.rest.answers import errors
from mirror_connect.app.rest.json_bodies import read_body
from mirror_connect.app.rest.media_types import require_json

SIGNATURE: Final = "X-Connect-Authorization"
ALGORITHM: Final = "X-Connect-Request-Signature-Algorithm"
# The sender is not authenticated yet, and such a body is only read to check its signature.
SIGNED_LIMIT: Final = 256 << 10
# The same paths as in Connect's Basic authentication extension: there the signature replaces the credentials.
_SIGNED: Final = re.compile(r"POST /connectors/[^/]+/tasks|PUT /connectors/[^/]+/fence")
# The routes of both.
SIGNED_PATHS: Final = frozenset({"/connectors/{name}/tasks", "/connectors/{name}/fence"})


def is_signed(request: Request) -> bool:
    """Whether a request needs a signature instead of credentials."""
    return _SIGNED.fullmatch(f"{request.method} {request.scope['path']}") is not None


def add_worker_routes(application: FastAPI, herder: Herder) -> None:
    """Adds both resources."""

    async def refuse(what: Asked, request: Request, body: bytes) -> NoReturn:
        await herder.worker_requests.refuse(what, body, request.headers.get(ALGORITHM), request.headers.get(SIGNATURE))

    @application.post("/connectors/{name}/tasks", status_code=204, responses=errors(403, 409, 413))
    async def put_task_configs(name: str, request: Request) -> Response:
        """Between Connect's workers: task configs for the leader to store. Refused here."""
        body = await read_body(request, SIGNED_LIMIT)
        if body:
            require_json(request)
        await refuse(Asked.TASK_CONFIGS, request, body)

    @application.put("/connectors/{name}/fence", status_code=204, responses=errors(403, 409, 413))
    async def fence(name: str, request: Request) -> Response:
        """Between Connect's workers: a round of zombie fencing. Refused here."""
        body = await read_body(request, SIGNED_LIMIT)
        await refuse(Asked.FENCING, request, body)
