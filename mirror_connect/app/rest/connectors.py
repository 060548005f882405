"""/connectors …: each route parses the request, calls one method of the herder, and returns the answer."""

from __future__ import annotations

import re
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Query, Request, Response
from starlette.responses import JSONResponse

from mirror_connect.app.errors import BadRequest, ConnectorNotFound, NoStatus
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.herder.lifecycle import INITIAL_STATES, TargetState
from mirror_connect.app.rest.answers import answer, errors, location, no_body
from mirror_connect.app.rest.bodies import (
    SOURCE_CONFIG,
    ConnectorInfoBody,
    ConnectorStatusBody,
    CreateBody,
    ExpandedBody,
    TaskInfoBody,
    TasksBody,
    TaskStateBody,
    TopicsBody,
)
from mirror_connect.app.rest.json_bodies import config_from, parsed, read_body, text_of
from mirror_connect.app.rest.media_types import require_json

_BLANKS = "".join(map(chr, range(0x21)))
_INT = re.compile(r"[+-]?[0-9]+")


def _config_body(example: dict[str, Any]) -> dict[str, Any]:
    schema = {
        "type": "object",
        "additionalProperties": {"type": ["string", "number", "boolean", "null"]},
        "examples": [example],
    }
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


CONFIG_BODY: dict[str, Any] = _config_body(SOURCE_CONFIG)
_PATCH_BODY: dict[str, Any] = _config_body({"topics": "orders.*,payments"})
_CREATE_BODY: dict[str, Any] = {
    "requestBody": {"required": True, "content": {"application/json": {"schema": CreateBody.model_json_schema()}}}
}


def add_connector_routes(application: FastAPI, herder: Herder) -> None:  # noqa: PLR0915 — one route after the other
    """Adds every resource below /connectors."""

    @application.get("/connectors", responses={200: {"model": list[str] | dict[str, ExpandedBody]}, **errors()})
    async def list_connectors(
        expand: Annotated[list[str], Query(description="info, status or both; any other word is ignored")] = [],  # noqa: B006
    ) -> Response:
        """All connectors: their names, or with `expand` an object of info and status by name."""
        names = await herder.connectors.names()
        if not expand:
            return JSONResponse(names)
        expanded: dict[str, Any] = {}
        for name in names:
            found: dict[str, Any] = {}
            try:
                if "status" in expand:
                    found["status"] = ConnectorStatusBody.of(await herder.connectors.status(name))
                if "info" in expand:
                    found["info"] = ConnectorInfoBody.of(await herder.connectors.info(name))
            except (NoStatus, ConnectorNotFound):
                # The connector was deleted meanwhile, or is so new that it has no status yet.
                continue
            expanded[name] = ExpandedBody(**found).model_dump(mode="json", exclude_unset=True)
        return JSONResponse(expanded)

    @application.post(
        "/connectors",
        status_code=201,
        openapi_extra=_CREATE_BODY,
        responses={201: {"model": ConnectorInfoBody}, **errors(403, 409, 413)},
    )
    async def create_connector(request: Request) -> Response:
        """Creates a connector."""
        body = await json_body(request)
        if not isinstance(body, dict):
            raise BadRequest("The request body must be a JSON object with the members name and config")
        unknown = [member for member in body if member not in CreateBody.model_fields]
        if unknown:
            raise BadRequest(f'Unrecognized field "{unknown[0]}"; name, config and initial_state are known')
        if body.get("config") is None:
            raise BadRequest("The request body has no member config; it must be a JSON object of settings")
        name = (text_of(body.get("name"), "The member name") or "").strip(_BLANKS)
        config = config_from(body["config"], "The member config")
        info = await herder.configs.create(name, config, _initial_state(body.get("initial_state")))
        return answer(ConnectorInfoBody.of(info), 201, location(request, name))

    @application.get("/connectors/{name}", responses={200: {"model": ConnectorInfoBody}, **errors(404)})
    async def get_connector(name: str) -> Response:
        """A connector as configured."""
        return answer(ConnectorInfoBody.of(await herder.connectors.info(name)))

    @application.delete("/connectors/{name}", status_code=204, response_class=Response, responses=errors(403, 404, 409))
    async def delete_connector(name: str) -> Response:
        """Deletes a connector; its source offsets stay."""
        await herder.configs.delete(name)
        return no_body(204)

    @application.get("/connectors/{name}/config", responses={200: {"model": dict[str, str | None]}, **errors(404)})
    async def get_config(name: str) -> Response:
        """A connector's config."""
        return JSONResponse(dict(await herder.connectors.config(name)))

    @application.put(
        "/connectors/{name}/config",
        openapi_extra=CONFIG_BODY,
        responses={
            200: {"model": ConnectorInfoBody},
            201: {"model": ConnectorInfoBody, "description": "The connector is new"},
            **errors(403, 409, 413),
        },
    )
    async def put_config(name: str, request: Request) -> Response:
        """Replaces a connector's config, or creates the connector."""
        config = config_from(await json_body(request))
        created, info = await herder.configs.put(name, config)
        body = ConnectorInfoBody.of(info)
        return answer(body, 201, location(request, name)) if created else answer(body)

    @application.patch(
        "/connectors/{name}/config",
        openapi_extra=_PATCH_BODY,
        responses={200: {"model": ConnectorInfoBody}, **errors(403, 404, 409, 413)},
    )
    async def patch_config(name: str, request: Request) -> Response:
        """Changes some settings of a connector; null removes one."""
        body = await json_body(request, or_nothing=True)
        if body is None:
            # Connect looks for the connector first: if it is unknown, even an empty body is 404.
            await herder.connectors.config(name)
        patch = config_from(body)
        return answer(ConnectorInfoBody.of(await herder.configs.patch(name, patch)))

    @application.get("/connectors/{name}/status", responses={200: {"model": ConnectorStatusBody}, **errors(404)})
    async def get_status(name: str) -> Response:
        """The status of a connector and its tasks."""
        return answer(ConnectorStatusBody.of(await herder.connectors.status(name)))

    @application.get("/connectors/{name}/tasks", responses={200: {"model": TasksBody}, **errors(404)})
    async def get_tasks(name: str) -> Response:
        """The configs of a connector's tasks."""
        return answer(
            TasksBody([TaskInfoBody.of(task, config) for task, config in await herder.connectors.tasks(name)])
        )

    @application.get("/connectors/{name}/tasks/{task}/status", responses={200: {"model": TaskStateBody}, **errors(404)})
    async def get_task_status(name: str, task: str) -> Response:
        """The status of a task."""
        number = _task_number(task)
        return answer(TaskStateBody.of(number, await herder.connectors.task_status(name, number)))

    @application.post(
        "/connectors/{name}/tasks/{task}/restart",
        status_code=204,
        response_class=Response,
        responses=errors(403, 404, 409),
    )
    async def restart_task(name: str, task: str) -> Response:
        """Starts a task again."""
        await herder.restarts.task(name, _task_number(task))
        return no_body(204)

    @application.post(
        "/connectors/{name}/restart",
        status_code=204,
        responses={
            202: {"model": ConnectorStatusBody, "description": "What is being restarted"},
            **errors(403, 404, 409),
        },
    )
    async def restart_connector(
        name: str,
        include_tasks: Annotated[str, Query(alias="includeTasks", description="true: its tasks too")] = "false",
        only_failed: Annotated[str, Query(alias="onlyFailed", description="true: only what has failed")] = "false",
    ) -> Response:
        """Starts a connector instance again; with parameters also its tasks."""
        include, only = _flag(include_tasks), _flag(only_failed)
        if include or only:
            status = await herder.restarts.connector_and_tasks(name, include_tasks=include, only_failed=only)
            return answer(ConnectorStatusBody.of(status), 202)
        await herder.restarts.connector(name)
        return no_body(204)

    @application.put(
        "/connectors/{name}/pause", status_code=202, response_class=Response, responses=errors(403, 404, 409)
    )
    async def pause_connector(name: str) -> Response:
        """Asks for a pause; the status shows when it is reached."""
        await herder.configs.pause(name)
        return no_body(202)

    @application.put(
        "/connectors/{name}/resume", status_code=202, response_class=Response, responses=errors(403, 404, 409)
    )
    async def resume_connector(name: str) -> Response:
        """Asks a paused or stopped connector to run."""
        await herder.configs.resume(name)
        return no_body(202)

    @application.put(
        "/connectors/{name}/stop", status_code=204, response_class=Response, responses=errors(403, 404, 409)
    )
    async def stop_connector(name: str) -> Response:
        """Stops a connector and removes its tasks."""
        await herder.configs.stop(name)
        return no_body(204)

    @application.get("/connectors/{name}/topics", responses={200: {"model": dict[str, TopicsBody]}, **errors(403)})
    async def get_topics(name: str) -> Response:
        """The topics that a connector has written to."""
        return JSONResponse({name: {"topics": await herder.active_topics.of(name)}})

    @application.put(
        "/connectors/{name}/topics/reset", status_code=202, response_class=Response, responses=errors(403, 409)
    )
    async def reset_topics(name: str) -> Response:
        """Forgets the topics that a connector has written to."""
        await herder.active_topics.reset(name)
        return no_body(202)


async def json_body(request: Request, *, or_nothing: bool = False) -> Any:
    """The JSON value of a request. `or_nothing`: None for an empty body. BadRequest, 413 or 415 for other bodies."""
    body = await read_body(request)
    if body or "content-type" in request.headers:
        require_json(request)
    return None if or_nothing and not body.strip() else await parsed(body)


def _initial_state(value: Any) -> TargetState | None:
    if value is None:
        return None
    text = text_of(value, "The member initial_state") or ""
    state = INITIAL_STATES.get(text.upper())
    if state is None:
        raise BadRequest(f"There is no initial_state {text}; RUNNING, PAUSED and STOPPED are known")
    return state


def _task_number(text: str) -> int:
    """The number, as Java's Integer reads it; anything else is 404."""
    # Python refuses to read integers of thousands of digits.
    digits = text.lstrip("+-").lstrip("0") or "0"
    if not _INT.fullmatch(text) or len(digits) > 10:
        raise HTTPException(404)
    number = -int(digits) if text.startswith("-") else int(digits)
    if not -(2**31) <= number < 2**31:
        raise HTTPException(404)
    return number


def _flag(text: str) -> bool:
    return text.lower() == "true"
