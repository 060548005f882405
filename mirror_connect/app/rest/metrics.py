"""/metrics: what Prometheus reads, on the REST listeners and on a port of its own.

Kafka Connect has no such path, so its rules of content types don't apply: a scraper asks for a format by Accept, and gets
the text format where it asks for anything else. It may ask for gzip.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from mirror_connect.app.errors import Unauthorized
from mirror_connect.app.exposition.exposition import Exposition
from mirror_connect.app.exposition.page import Format

PATH: Final = "/metrics"


def add_metrics_route(
    application: FastAPI, exposition: Exposition, authenticate: Callable[[Request], Awaitable[None]]
) -> None:
    """Adds the route to the REST interface; who reads it needs the same login."""

    async def metrics(request: Request) -> Response:
        try:
            await authenticate(request)
        except Unauthorized as refused:
            # Prometheus sends its login without a challenge.
            return Response(str(refused), status_code=refused.status, media_type="text/plain")
        return await _answer(exposition, request)

    application.routes.append(Route(PATH, metrics))


def create_metrics_application(exposition: Exposition) -> ASGIApp:
    """What the port of metrics alone serves: without a login, as jmx_exporter."""

    async def metrics(request: Request) -> Response:
        return await _answer(exposition, request)

    async def root(_: Request) -> Response:
        return PlainTextResponse(f"The metrics are at {PATH}\n")

    return Starlette(routes=[Route(PATH, metrics), Route("/", root)])


async def _answer(exposition: Exposition, request: Request) -> Response:
    text_format = asked_format(request.headers.get("accept", ""))
    gzip = _takes_gzip(request.headers.get("accept-encoding", ""))
    chunks = await exposition.chunks(text_format, gzip=gzip)
    headers = {"Cache-Control": "no-store", "Vary": "Accept, Accept-Encoding"}
    if gzip:
        headers["Content-Encoding"] = "gzip"
    return StreamingResponse(_in_turns(chunks), headers=headers, media_type=text_format.value)


def asked_format(accept: str) -> Format:
    """OpenMetrics if it is asked for with at least the weight of the text format; anything else gets the text format."""
    weights = {name: weight for name, weight in _weighted(accept) if weight > 0}
    wanted = weights.get("application/openmetrics-text", 0.0)
    return Format.OPEN_METRICS if wanted and wanted >= weights.get("text/plain", 0.0) else Format.TEXT


def _takes_gzip(accept_encoding: str) -> bool:
    return dict(_weighted(accept_encoding)).get("gzip", 0.0) > 0


def _weighted(header: str) -> list[tuple[str, float]]:
    found = []
    for entry in header.split(","):
        name, *parameters = (part.strip() for part in entry.split(";"))
        weight = 1.0
        for parameter in parameters:
            key, _, value = parameter.partition("=")
            if key == "q":
                try:
                    weight = float(value)
                except ValueError:
                    weight = 0.0
        found.append((name.lower(), weight))
    return found


async def _in_turns(chunks: Sequence[bytes]) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk
        # The server itself waits only for a client that is slow.
        await asyncio.sleep(0)
