"""How answers leave: JSON on one line (old consoles read lists line by line), and the errors each route may give."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mirror_connect.app.rest.bodies import ErrorBody, RefusalBody

_ERRORS = {
    400: "What was sent makes no sense; of a bad path or header only GET, POST and HEAD are told so in a body",
    401: "No or wrong credentials (a plain sentence, no challenge)",
    403: "Switched off in the worker's properties",
    404: "There is no such thing",
    406: "The answer would be JSON, which the request does not accept",
    409: "There already is one, or another worker leads; the latter passes",
    413: "The body is too large",
    415: "Only application/json is read",
    500: "It failed; the message says why",
    503: "The worker is starting or ending",
}
_ALWAYS = (400, 401, 406, 415, 500, 503)
# By their names in the contract (ERROR_BODIES), not as models: FastAPI would make a validator of each error of each route,
# two hundred of them, and use none.
_ERROR: dict[str, Any] = {"$ref": "#/components/schemas/ErrorBody"}
_REFUSAL: dict[str, Any] = {"$ref": "#/components/schemas/RefusalBody"}

ERROR_BODIES: tuple[type[BaseModel], ...] = (ErrorBody, RefusalBody)


def errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route: these errors beside those that any route gives."""
    described: dict[int | str, dict[str, Any]] = {}
    for code in sorted({*codes, *_ALWAYS}):
        described[code] = {"description": _ERRORS[code], "content": _json({"schema": _ERROR})}
    # What Jetty refuses before a resource hears of it is answered as Jetty does: refusals.py.
    refused = _json({"schema": {"anyOf": [_ERROR, _REFUSAL]}})
    described[400]["content"] = {"text/html": {"schema": {"type": "string"}}, **refused}
    # Without a schema: it says that it is JSON, and is none, as Connect's.
    described[401]["content"] = _json({})
    return described


def _json(content: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": content}


def answer(body: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> JSONResponse:
    """A body without the members that were not set."""
    return JSONResponse(body.model_dump(mode="json", exclude_unset=True), status_code=status, headers=headers)


def no_body(status: int) -> Response:
    """An answer that is only a status."""
    return Response(status_code=status)


def location(request: Request, name: str) -> dict[str, str]:
    """Where a connector is found; absolute, by the host that the request named.

    Escaped as Java's UriBuilder does, and semicolons too: what stands behind one would be no part of the name.
    """
    path = "/connectors/" + quote(name, safe="/:@!$&'()*+,=-._~")
    host = request.headers.get("host") or request.url.netloc
    return {"Location": f"{request.url.scheme}://{host}{path}"}
