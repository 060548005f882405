"""/docs and /openapi.json: the REST contract to read and to try out, unless `rest.docs.enabled` is false.

Kafka Connect has no such pages, so its rules don't apply to them: they don't negotiate content types. If credentials are
needed, they send the browser a challenge, or it could not log in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from starlette.responses import HTMLResponse, JSONResponse
from starlette.routing import Route

from mirror_connect.app.errors import Unauthorized
from mirror_connect.app.rest.answers import ERROR_BODIES

_CDN: Final = "https://cdn.jsdelivr.net/npm/swagger-ui-dist@5.35.0"
# People type credentials into this page, so it runs exactly these files or none.
_SCRIPT: Final = "sha384-gjRm0bEPMeTmMh5jT2cHccIwCUZSTd8YC+j0d0sXw0MdGEfScduGpSyF3ZSSLkX9"
_STYLE: Final = "sha384-WlYgdmXYOOBWL5apwjDEZwN+U3HmXSSu5R6V5aGxEcf7z+KuRNwBhoxKVN1i3D5I"
_PAGE: Final = f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>mirror-connect</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="{_CDN}/swagger-ui.css" integrity="{_STYLE}" crossorigin="anonymous">
</head>
<body>
<div id="swagger-ui"><p>The REST contract: <a href="openapi.json">openapi.json</a>.
To try it out here, the browser needs Swagger UI from the internet.</p></div>
<script src="{_CDN}/swagger-ui-bundle.js" integrity="{_SCRIPT}" crossorigin="anonymous"></script>
<script>
if (window.SwaggerUIBundle) SwaggerUIBundle({{url: "openapi.json", dom_id: "#swagger-ui", deepLinking: true}});
</script>
</body>
</html>
"""


def add_docs_routes(application: FastAPI, authenticate: Callable[[Request], Awaitable[None]]) -> None:
    """Adds both routes. They describe the routes that the application has at the time of the request."""

    async def page(request: Request) -> Response:
        return await _unless_refused(request, lambda: HTMLResponse(_PAGE))

    async def contract_of_it(request: Request) -> Response:
        return await _unless_refused(request, lambda: JSONResponse(contract(application)))

    async def _unless_refused(request: Request, made: Callable[[], Response]) -> Response:
        try:
            await authenticate(request)
        except Unauthorized as refused:
            challenge = {"WWW-Authenticate": 'Basic realm="mirror-connect", charset="UTF-8"'}
            return Response(str(refused), status_code=refused.status, media_type="text/plain", headers=challenge)
        return made()

    application.routes.append(Route("/docs", page))
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
