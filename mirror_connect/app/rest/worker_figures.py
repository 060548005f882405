"""POST /admin/workers/figures: what this worker's tasks have told, for the other workers of its group.

It is signed as the requests of Connect's workers are, and changes nothing. So it is answered wherever this worker is
reached: with a login, with rest.read.only, and below a flow's path in dedicated mode.
"""

from __future__ import annotations

import json

from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from mirror_connect.app.errors import BadRequest
from mirror_connect.app.herder.figures_elsewhere import PATH
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.herder.worker_requests import Asked
from mirror_connect.app.rest.answers import errors
from mirror_connect.app.rest.worker_requests import check_signed


def add_figures_route(application: FastAPI, herder: Herder) -> None:
    """Adds it."""

    @application.post(PATH, responses=errors(403))
    async def tell_figures(request: Request) -> Response:
        """Between workers of one group: figures of what runs here, as lines of JSON."""
        body, _ = await check_signed(herder, request, Asked.FIGURES)
        lines = await herder.links.figures(_rows_of(body))
        return StreamingResponse(lines, media_type="application/x-ndjson")


def _rows_of(body: bytes) -> frozenset[str]:
    """The connectors whose rows are asked for."""
    try:
        return frozenset(str(name) for name in json.loads(body)["rows"])
    except (ValueError, TypeError, LookupError):
        raise BadRequest('A request for figures has a body like {"rows": ["the name of a connector"]}') from None
