"""Signed requests between workers of a group. The signature stands for credentials, as in Connect."""

from __future__ import annotations

import asyncio
import re
from typing import Any, Final

from fastapi import FastAPI, Request, Response

from mirror_connect.app.errors import BadRequest
from mirror_connect.app.herder.figures_elsewhere import PATH as FIGURES
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.herder.request_signatures import ALGORITHM, SIGNATURE, WORKER_SIGNATURE
from mirror_connect.app.herder.worker_requests import Asked, StandaloneRequests
from mirror_connect.app.rest.answers import errors, no_body
from mirror_connect.app.rest.json_bodies import VERIFIED, NumberText, parsed, read_body
from mirror_connect.app.rest.media_types import require_json

# Of a body whose sender is not known yet. Whoever signs as our workers do is known by the header.
UNSIGNED_LIMIT: Final = 256 << 10
_LONGEST_NUMBER: Final = 10
# The same paths as in Connect's Basic authentication extension, and one of our own.
_CONNECTS: Final = r"POST /connectors/[^/]+/tasks|PUT /connectors/[^/]+/fence"
_SIGNED: Final = re.compile(rf"{_CONNECTS}|POST {re.escape(FIGURES)}")
# The routes of all.
SIGNED_PATHS: Final = frozenset({"/connectors/{name}/tasks", "/connectors/{name}/fence", FIGURES})


def is_signed(request: Request) -> bool:
    """Whether a request needs a signature instead of credentials."""
    return _SIGNED.fullmatch(f"{request.method} {request.scope['path']}") is not None


async def check_signed(herder: Herder, request: Request, what: Asked) -> tuple[bytes, str]:
    """The body of a signed request, and the worker_id of its sender. BadRequest, Forbidden, NoSessionKey, BodyTooLarge."""
    requests = herder.worker_requests
    await requests.refuse(what)
    assert not isinstance(requests, StandaloneRequests)
    header = request.headers.get(WORKER_SIGNATURE)
    verified = None if header is None else requests.verified(request.method, _target(request), header)
    if verified is None:
        body = await read_body(request, UNSIGNED_LIMIT)
        if body:
            require_json(request)
        requests.check_connects(body, request.headers.get(ALGORITHM), request.headers.get(SIGNATURE))
        requests.refuse_connects()
    body = await read_body(request)
    if len(body) > UNSIGNED_LIMIT:
        await asyncio.to_thread(verified.check_body, body)
    else:
        verified.check_body(body)
    return body, verified.sender


def is_forwarded(herder: Herder, request: Request) -> bool:
    """Whether another worker of the group forwards it; Forbidden and BadRequest if it only pretends to.

    `read_body` then checks that the body is the one that was signed.
    """
    header = request.headers.get(WORKER_SIGNATURE)
    requests = herder.worker_requests
    if header is None or isinstance(requests, StandaloneRequests):
        return False
    request.scope[VERIFIED] = requests.verified(request.method, _target(request), header)
    return True


def add_worker_routes(application: FastAPI, herder: Herder) -> None:
    """Adds both resources."""

    @application.post("/connectors/{name}/tasks", status_code=204, responses=errors(403, 404, 409, 413))
    async def put_task_configs(name: str, request: Request) -> Response:
        """Between workers: task configs for the leader to store, of a connector that the sender runs."""
        body, sender = await check_signed(herder, request, Asked.TASK_CONFIGS)
        configs = _task_configs(await parsed(body))
        requests = herder.worker_requests
        assert not isinstance(requests, StandaloneRequests)
        await requests.put_task_configs(name, configs, sender)
        return no_body(204)

    @application.put("/connectors/{name}/fence", status_code=204, responses=errors(403, 404, 409, 413))
    async def fence(name: str, request: Request) -> Response:
        """Between workers: the leader fences former tasks of a connector that copies exactly once."""
        body, _ = await check_signed(herder, request, Asked.FENCING)
        generation = _generation(await parsed(body) if body else {})
        assert herder.fencing is not None
        await herder.fencing.lead_round(name, generation)
        return no_body(204)


def _task_configs(value: Any) -> list[dict[str, str]]:
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise BadRequest("The request body must be a JSON array of task configs")
    if not all(isinstance(text, str) for each in value for text in each.values()):
        raise BadRequest("A task config has only text as values")
    return [{name: str(text) for name, text in each.items()} for each in value]


def _generation(value: Any) -> int:
    """Of the group, as the sender knows it; 0 if it does not say."""
    found = value.get("generation", NumberText("0")) if isinstance(value, dict) else None
    if not isinstance(found, NumberText) or not found.isdecimal() or len(found) > _LONGEST_NUMBER:
        raise BadRequest("The request body must be a JSON object with the generation of the group")
    return int(found)


def _target(request: Request) -> bytes:
    """Path and query as they were sent, below a flow's path."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    query: bytes = request.scope.get("query_string") or b""
    return raw + (b"?" + query if query else b"")
