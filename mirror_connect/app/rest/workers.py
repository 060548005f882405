"""GET /admin/workers: the workers of the group, for page, command line and scripts. Of our own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from fastapi import FastAPI, Response
from pydantic import Field

from mirror_connect.app.herder.workers import WorkersView
from mirror_connect.app.metrics.connector_figures import TaskPlace
from mirror_connect.app.rest.answers import answer, errors
from mirror_connect.app.rest.bodies import Body
from mirror_connect.connectors.task_protocol import TaskId


class GroupTaskBody(Body):
    """A task, as Connect names it between workers."""

    connector: str = Field(examples=["mirror-source"])
    task: int = Field(examples=[0])


class PlacedTaskBody(GroupTaskBody):
    """The same, with its place on a Spark cluster. A null is unknown, and without a cluster there is none."""

    executor: str | None = Field(description="Spark's id of the executor on which it runs", examples=["3"])
    host: str | None = Field(description="The executor's host, as Spark knows it")


class GroupWorkerBody(Body):
    """A worker of the group. A null is unknown."""

    worker_id: str = Field(examples=["10.0.0.1:8083"])
    url: str = Field(description="Empty where other workers can't reach it")
    leads: bool = Field(description="Whether it decides what runs where, and writes the connectors' configs")
    connectors: list[str] = Field(description="What it runs, or has not surely ended yet")
    tasks: list[PlacedTaskBody]
    spark: str | None = Field(
        description="READY: its Spark takes tasks. STARTING: not yet. FAILING: it is away for a minute or longer",
        examples=["READY"],
    )
    version: str | None = Field(description="Of mirror-connect")
    lease_ms: int | None = Field(
        description="For how long it surely keeps what it runs without another heartbeat; null in standalone mode, too"
    )
    told_ms: int | None = Field(description="When it told version, lease, spark and places. In ms since 1970")


class LostWorkerBody(Body):
    """A worker that the group has lost, and what it may have run."""

    worker_id: str
    connectors: list[str]
    tasks: list[GroupTaskBody]
    lost_ago_ms: int


class WorkersBody(Body):
    """GET /admin/workers."""

    answering: str = Field(description="The worker_id of the worker that answers")
    leader_url: str | None
    generation: int | None = Field(description="Of the group; null outside of it")
    workers: list[GroupWorkerBody]
    lost: list[LostWorkerBody] = Field(description="Those that were lost within the last minutes")
    delay_ms: int | None = Field(
        description="For how long what a lost worker ran still waits for it (scheduled.rebalance.max.delay.ms)"
    )


class Workers(Protocol):
    """The workers of a group."""

    async def all(self) -> WorkersView:
        """All of them. NotReady."""


def add_workers_route(application: FastAPI, workers: Callable[[], Workers]) -> None:
    """Adds it."""

    @application.get("/admin/workers", responses={200: {"model": WorkersBody}, **errors()})
    async def list_workers() -> Response:
        """Who leads the group, and what runs where."""
        return answer(_body(await workers().all()))


def _body(view: WorkersView) -> WorkersBody:
    return WorkersBody(
        answering=view.answering,
        leader_url=view.leader_url,
        generation=view.generation,
        workers=[
            GroupWorkerBody(
                worker_id=each.worker_id,
                url=each.url,
                leads=each.leads,
                connectors=list(each.connectors),
                tasks=[_placed(task, each.places.get(task)) for task in each.tasks],
                spark=each.spark,
                version=each.version,
                lease_ms=each.lease_ms,
                told_ms=each.told_ms,
            )
            for each in view.workers
        ],
        lost=[
            LostWorkerBody(
                worker_id=each.worker_id,
                connectors=list(each.connectors),
                tasks=_tasks(each.tasks),
                lost_ago_ms=each.lost_ago_ms,
            )
            for each in view.lost
        ],
        delay_ms=view.delay_ms,
    )


def _placed(task: TaskId, place: TaskPlace | None) -> PlacedTaskBody:
    executor, host = (None, None) if place is None else (place.executor, place.host or None)
    return PlacedTaskBody(connector=task.connector, task=task.task, executor=executor, host=host)


def _tasks(tasks: Iterable[TaskId]) -> list[GroupTaskBody]:
    return [GroupTaskBody(connector=each.connector, task=each.task) for each in tasks]
