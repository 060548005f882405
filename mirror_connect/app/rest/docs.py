"""/openapi.json: the REST contract as FastAPI tells it. The page that shows it, /docs, is in pages.py."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request, Response
from starlette.responses import JSONResponse
from starlette.routing import Route

from mirror_connect.app.rest.answers import ERROR_BODIES
from mirror_connect.app.rest.pages import Authenticate, unless_refused


def add_contract_route(application: FastAPI, authenticate: Authenticate) -> None:
    """Adds the route. It describes the routes that the application has at the time of the request."""

    async def contract_of_it(request: Request) -> Response:
        return await unless_refused(request, authenticate, lambda: JSONResponse(contract(application)))

    application.routes.append(Route("/openapi.json", contract_of_it))


def contract(application: FastAPI) -> dict[str, Any]:
    """The contract of an application, as in openapi.yaml. Without FastAPI's own 422, which no route of ours gives."""
    found = application.openapi()
    for path in found["paths"].values():
        for operation in path.values():
            operation["responses"].pop("422", None)
    schemas = found["components"]["schemas"]
    for schema in ("HTTPValidationError", "ValidationError"):
        schemas.pop(schema, None)
    schemas |= {body.__name__: body.model_json_schema(mode="serialization") for body in ERROR_BODIES}
    found["components"]["schemas"] = dict(sorted(schemas.items()))
    found["components"]["securitySchemes"] = {"basic": {"type": "http", "scheme": "basic"}}
    # Credentials are needed only if the worker's properties say so.
    found["security"] = [{}, {"basic": []}]
    return found
