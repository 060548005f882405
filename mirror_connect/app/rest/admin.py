"""/admin/loggers …: the log levels of this worker, or of all workers."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Request, Response
from starlette.responses import JSONResponse

from mirror_connect.app.errors import BadRequest, InvalidLogLevel, LoggerNotFound
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.herder.log_levels import LEVELS, level_named
from mirror_connect.app.rest.answers import answer, errors, no_body
from mirror_connect.app.rest.bodies import LoggerLevelBody, LoggersBody
from mirror_connect.app.rest.connectors import json_body
from mirror_connect.app.rest.json_bodies import config_from

_LEVEL_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {"level": {"type": "string", "enum": list(LEVELS)}},
                    "required": ["level"],
                    "examples": [{"level": "DEBUG"}],
                }
            }
        },
    }
}


def add_admin_routes(application: FastAPI, herder: Herder) -> None:
    """Adds every resource below /admin."""

    @application.get("/admin/loggers", responses={200: {"model": LoggersBody}, **errors()})
    async def list_loggers() -> Response:
        """All loggers that are not off, with their levels."""
        return answer(LoggersBody.of(herder.log_levels.here.levels()))

    @application.get("/admin/loggers/{logger}", responses={200: {"model": LoggerLevelBody}, **errors(404)})
    async def get_logger(logger: str) -> Response:
        """The level of a logger."""
        found = herder.log_levels.here.level(logger)
        if found is None:
            raise LoggerNotFound(logger)
        return answer(LoggerLevelBody.of(found))

    @application.put(
        "/admin/loggers/{logger}",
        openapi_extra=_LEVEL_BODY,
        responses={
            200: {"model": list[str], "description": "The loggers whose level has changed"},
            204: {"description": "All workers get the change"},
            **errors(403, 404, 413),
        },
    )
    async def set_logger(
        logger: str,
        request: Request,
        scope: Annotated[
            str, Query(description="worker, or cluster for all workers; any other word is worker")
        ] = "worker",
    ) -> Response:
        """Sets the level of a logger and of all below it."""
        asked = config_from(await json_body(request)).get("level")
        if asked is None:
            raise BadRequest("Desired 'level' parameter was not specified in request.")
        if not asked:
            raise BadRequest("Illegal null or empty Level name.")
        level = level_named(asked)
        if level is None:
            raise InvalidLogLevel(asked)
        if scope.lower() == "cluster":
            await herder.log_levels.change_everywhere(logger, level)
            return no_body(204)
        return JSONResponse(herder.log_levels.here.change(logger, level))
