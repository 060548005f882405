"""Answers: JSON on one line (old consoles read lists line by line), and the errors that each route can give."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from mirror_connect.app.rest.bodies import ErrorBody, RefusalBody

_ERRORS = {
    400: "The request makes no sense. For a bad path or header, only GET, POST and HEAD get a body",
    401: "No credentials or wrong ones (a plain sentence, no challenge)",
    403: "The worker's properties switch this off",
    404: "It does not exist",
    406: "The answer is JSON, which the request does not accept",
    409: "It exists already, or the workers of the group are about to agree on who leads or runs it: try again",
    413: "The body is too large",
    415: "The body must be application/json",
    500: "The request failed; the message says why",
    502: "A cluster that the config names does not answer, or refuses the login",
    503: "The worker is starting or ending",
}
_ALWAYS = (400, 401, 406, 415, 500, 503)
# By their names in the contract (ERROR_BODIES), not as models: FastAPI would make a validator for each error of each route,
# two hundred of them, and use none.
_ERROR: dict[str, Any] = {"$ref": "#/components/schemas/ErrorBody"}
_REFUSAL: dict[str, Any] = {"$ref": "#/components/schemas/RefusalBody"}

ERROR_BODIES: tuple[type[BaseModel], ...] = (ErrorBody, RefusalBody)


def errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    """`responses` of a route: these errors, and those that every route can give."""
    described: dict[int | str, dict[str, Any]] = {}
    for code in sorted({*codes, *_ALWAYS}):
        described[code] = {"description": _ERRORS[code], "content": _json({"schema": _ERROR})}
    # Requests that Jetty refuses before they reach a resource get Jetty's answer: jetty_errors.py.
    refused = _json({"schema": {"anyOf": [_ERROR, _REFUSAL]}})
    described[400]["content"] = {"text/html": {"schema": {"type": "string"}}, **refused}
    # Without a schema: as in Connect, its content type is JSON, but its text is not.
    described[401]["content"] = _json({})
    return described


def _json(content: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": content}


def answer(body: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> JSONResponse:
    """An answer with a body, without the members that were not set."""
    return JSONResponse(body.model_dump(mode="json", exclude_unset=True), status_code=status, headers=headers)


def no_body(status: int) -> Response:
    """An answer that is only a status."""
    return Response(status_code=status)


def location(request: Request, name: str) -> dict[str, str]:
    """The header with a connector's URL: absolute, with the host that the request named.

    Escaped like Java's UriBuilder, and semicolons too: text behind a semicolon is not part of the name.
    """
    path = "/connectors/" + quote(name, safe="/:@!$&'()*+,=-._~")
    host = request.headers.get("host") or request.url.netloc
    return {"Location": f"{request.url.scheme}://{host}{path}"}
