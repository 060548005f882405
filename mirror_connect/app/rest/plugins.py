"""/connector-plugins …: the connector classes, their settings, and the validation of a config."""

from __future__ import annotations

import asyncio
import math
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from starlette.responses import JSONResponse

from mirror_connect.app.errors import BadRequest
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.herder.plugins import plugin_settings, plugins
from mirror_connect.app.planning.preview import MOST_RECORDS
from mirror_connect.app.rest.answers import answer, errors
from mirror_connect.app.rest.bodies import DefinitionBody, PlanBody, PluginsBody, PreviewBody, ValidationBody
from mirror_connect.app.rest.connectors import CONFIG_BODY, json_body
from mirror_connect.app.rest.json_bodies import config_from


def add_plugin_routes(application: FastAPI, herder: Herder) -> None:
    """Adds every resource below /connector-plugins."""

    @application.get("/connector-plugins", responses={200: {"model": PluginsBody}, **errors()})
    async def list_plugins(
        connectors_only: Annotated[str, Query(alias="connectorsOnly", description="false: converters too")] = "true",
    ) -> Response:
        """All connector classes, or all plugins."""
        return answer(PluginsBody.of(plugins(connectors_only=connectors_only.lower() == "true")))

    @application.get(
        "/connector-plugins/{plugin}/config", responses={200: {"model": list[DefinitionBody]}, **errors(404)}
    )
    async def get_plugin_config(
        plugin: str, version: Annotated[str | None, Query(description="A version or a range of versions")] = None
    ) -> Response:
        """The settings of a connector or converter class, by its full name, simple name or alias."""
        settings: list[dict[str, Any]] = plugin_settings(plugin, version)
        return JSONResponse(settings)

    @application.put(
        "/connector-plugins/{plugin}/config/validate",
        openapi_extra=CONFIG_BODY,
        responses={200: {"model": ValidationBody}, **errors(413)},
    )
    async def validate(plugin: str, request: Request) -> Response:
        """Validates every setting of a config; stores nothing."""
        judged = await herder.validation.infos(plugin, config_from(await json_body(request)))
        # To encode the answer for a config of megabytes takes seconds.
        return await asyncio.to_thread(JSONResponse, judged)

    @application.put(
        "/connector-plugins/{plugin}/config/plan",
        openapi_extra=CONFIG_BODY,
        responses={200: {"model": PlanBody}, **errors(400, 413, 502)},
    )
    async def plan(
        plugin: str,
        request: Request,
        speed: Annotated[str | None, Query(description="Bytes per second, to tell when the copy has caught up")] = None,
    ) -> Response:
        """What a connector with this config would do; nothing is stored or changed. An extension of mirror-connect."""
        planned = await herder.plans.plan(plugin, config_from(await json_body(request)), _bytes_per_second(speed))
        return await asyncio.to_thread(lambda: JSONResponse(PlanBody.json_of(planned)))

    @application.post(
        "/connector-plugins/{plugin}/config/preview",
        openapi_extra=CONFIG_BODY,
        responses={200: {"model": PreviewBody}, **errors(400, 413, 502, 503)},
    )
    async def preview(
        plugin: str,
        request: Request,
        records: Annotated[str, Query(description=f"How many records, at most {MOST_RECORDS}")] = "20",
        before: Annotated[str, Query(description="true: also what the source has, unmasked")] = "false",
        topic: Annotated[str | None, Query(description="Records of this topic of the source alone")] = None,
    ) -> Response:
        """The source's last records as this config would copy them; nothing is written. An extension of mirror-connect."""
        config, count = config_from(await json_body(request)), _records(records)
        shown = before.lower() == "true"
        previewed = await herder.previews.preview(plugin, config, count, before=shown, topic=topic)
        return await asyncio.to_thread(lambda: JSONResponse(PreviewBody.json_of(previewed)))


def _records(text: str) -> int:
    digits = text.isascii() and text.isdigit() and len(text) <= len(str(MOST_RECORDS))
    if not digits or not 0 < int(text) <= MOST_RECORDS:
        raise BadRequest(f"Invalid records {text}: give a number from 1 to {MOST_RECORDS}")
    return int(text)


def _bytes_per_second(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < math.inf:
        raise BadRequest(f"Invalid speed {text}: give a number of bytes per second, above 0")
    return speed
