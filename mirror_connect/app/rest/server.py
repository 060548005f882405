"""/ and /health: the worker itself."""

from __future__ import annotations

from fastapi import FastAPI, Response

from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.rest.answers import answer, errors
from mirror_connect.app.rest.bodies import HealthBody, ServerInfoBody

_HEALTH_STATUS = {"healthy": 200, "starting": 503, "unhealthy": 500}


def add_server_routes(application: FastAPI, herder: Herder) -> None:
    """Adds / and /health."""

    @application.get("/", responses={200: {"model": ServerInfoBody}, **errors()})
    async def get_server() -> Response:
        """Version, commit and the id of the worker's own Kafka cluster."""
        return answer(ServerInfoBody.of(await herder.server_info()))

    @application.get(
        "/health",
        responses={
            200: {"model": HealthBody},
            **errors(),
            500: {"model": HealthBody, "description": "The worker cannot handle requests now"},
            503: {"model": HealthBody, "description": "The worker is still starting"},
        },
    )
    async def get_health() -> Response:
        """Whether the worker can handle requests."""
        health = await herder.health()
        return answer(HealthBody.of(health), _HEALTH_STATUS[health.status])
