"""The internal HTTP between the worker and its Spark applications: plan, specs, source offsets, reports.

The driver is on loopback. Tasks at executors of a cluster have a port of their own, with https and without its paths.

Every path needs a bearer token: a driver's, or the token of the run, or shared process, that the path names. 410 says that
it is over; 503 that the worker cannot answer now, and the task should repeat the request.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from mirror_connect.app.exposition.measured import JvmFigures
from mirror_connect.app.supervisor.flow_runs import RunRequests
from mirror_connect.app.supervisor.hosted_spark import HostedSpark
from mirror_connect.app.supervisor.spark_executors import MissingExecutor, SparkExecutor
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.task_run import TaskRun
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.log_format import log_flow
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.task_protocol import DRIVER, TaskProcess, TaskReport

PLAN_HOLD_S = 10.0
REPORT_HOLD_S = 0.5
GONE = 410
UNAUTHORIZED = 401
UNAVAILABLE = 503
TOO_LARGE = 413
# In the state of a request whose token is right: its connection is no stranger's any more.
KNOWN: Final = "known"
# Ten thousand partitions make a report of two or three MiB.
MOST_BODY = 32 << 20
PIECE_BYTES: Final = 256 << 10

RunHandler = Callable[[Request, TaskRun, RunRequests], Awaitable[Response]]


class TooLarge(Exception):
    """A body is larger than any that a task sends."""


def create_internal_application(spark: SparkHost) -> Starlette:
    """The ASGI application for the driver and for tasks on this machine, to be served on 127.0.0.1 only."""
    return _application([*_driver_routes(spark), *_task_routes(spark)])


def create_tasks_application(spark: SparkHost) -> Starlette:
    """The ASGI application for tasks at executors of a cluster, to be served by https."""
    return _application(_task_routes(spark))


def _application(routes: Sequence[Route]) -> Starlette:
    async def too_large(_: Request, __: Exception) -> Response:
        return Response(status_code=TOO_LARGE)

    return Starlette(routes=list(routes), exception_handlers={TooLarge: too_large})


def _bearer_is(request: Request, token: str) -> bool:
    given = request.headers.get("authorization", "")
    if not secrets.compare_digest(given.encode(), f"Bearer {token}".encode()):
        return False
    setattr(request.state, KNOWN, True)
    return True


async def _json_of(request: Request) -> Any:
    """The body, which only who has a token may send. TooLarge."""
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MOST_BODY:
            raise TooLarge
    return json.loads(content)


def _keys(request: Request) -> list[str]:
    return request.query_params.get("keys", "").split(",")


async def _each(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece
        await asyncio.sleep(0)


def _driver_routes(spark: SparkHost) -> list[Route]:
    def of_driver(request: Request) -> HostedSpark | None:
        return next((each for each in spark.applications if _bearer_is(request, each.token)), None)

    async def plan(request: Request) -> Response:
        if (asking := of_driver(request)) is None:
            return Response(status_code=UNAUTHORIZED)
        return JSONResponse(await spark.plan(int(request.query_params.get("after", "-1")), PLAN_HOLD_S, asking))

    async def driver(request: Request) -> Response:
        if (asking := of_driver(request)) is None:
            return Response(status_code=UNAUTHORIZED)
        body = await _json_of(request)
        told = body.get("jvm")
        there = body.get("executors")
        executors = None if there is None else [SparkExecutor.from_json(each) for each in there]
        jvm = None if told is None else JvmFigures.from_json(told)
        lacking = body.get("missing")
        missing = None if lacking is None else MissingExecutor.from_json(lacking)
        spark.driver_report(body["slots"], body["runs"], jvm, executors, missing, spark=asking)
        if (full := body.get("full")) is not None:
            spark.heap_filled(asking, full)
        return JSONResponse({})

    async def question(request: Request) -> Response:
        if of_driver(request) is not spark.computing:
            return Response(status_code=UNAUTHORIZED)
        return JSONResponse({"question": await spark.questions.next(PLAN_HOLD_S)})

    async def answer(request: Request) -> Response:
        if of_driver(request) is not spark.computing:
            return Response(status_code=UNAUTHORIZED)
        body = await _json_of(request)
        spark.questions.answer(body["number"], body["answer"])
        return JSONResponse({})

    return [
        Route("/plan", plan, methods=["GET"]),
        Route("/driver", driver, methods=["POST"]),
        Route("/question", question, methods=["GET"]),
        Route("/answer", answer, methods=["POST"]),
    ]


def _task_routes(spark: SparkHost) -> list[Route]:
    async def shared(request: Request) -> Response:
        process_id = request.path_params["process_id"]
        if (present := spark.shared.find(process_id)) is None:
            return Response(status_code=GONE)
        if not _bearer_is(request, present.token):
            return Response(status_code=UNAUTHORIZED)
        found = await spark.shared_runs(process_id, int(request.query_params.get("after", "-1")), PLAN_HOLD_S)
        return Response(status_code=GONE) if found is None else JSONResponse(found)

    async def lookup(request: Request) -> Response:
        preview = spark.preview_lookups.find(request.path_params["run_id"])
        if preview is None:
            return await _for_run(spark, _lookup)(request)
        if not _bearer_is(request, preview.token):
            return Response(status_code=UNAUTHORIZED)
        return _rows(await spark.preview_lookups.rows(preview, request.path_params["name"], _keys(request)))

    async def report(request: Request, run: TaskRun, requests: RunRequests) -> Response:
        received = TaskReport.from_json(await _json_of(request))
        hold = REPORT_HOLD_S if request.query_params.get("hold") == "1" else 0.0
        known = int(request.query_params.get("known", "0"))
        orders = await requests.report(run, received, hold_s=hold, known_version=known)
        if int(request.query_params.get("levels", "0")) != spark.log_levels.version:
            orders = replace(orders, log_levels=spark.log_levels)
        return JSONResponse(orders.to_json())

    return [
        Route("/shared/{process_id}", shared, methods=["GET"]),
        Route("/runs/{run_id}/spec", _for_run(spark, _spec), methods=["GET"]),
        Route("/runs/{run_id}/positions", _for_run(spark, _source_offsets), methods=["POST"]),
        Route("/runs/{run_id}/lookups/{name}", lookup, methods=["GET"]),
        Route("/runs/{run_id}/report", _for_run(spark, report), methods=["POST"]),
    ]


def _for_run(spark: SparkHost, handler: RunHandler) -> Callable[[Request], Awaitable[Response]]:
    """Serves a path of a run: finds the run, and checks that the request has its token."""

    async def handle(request: Request) -> Response:
        found = spark.runs.find(request.path_params["run_id"])
        if found is None:
            return Response(status_code=GONE)
        owner, run = found
        if not _bearer_is(request, run.token):
            return Response(status_code=UNAUTHORIZED)
        with log_flow(owner.flow):
            try:
                return await handler(request, run, owner.requests)
            except (ClusterUnreachable, NotAuthorized):
                return Response(status_code=UNAVAILABLE)

    return handle


async def _spec(request: Request, run: TaskRun, requests: RunRequests) -> Response:
    asked = request.query_params
    process = TaskProcess(asked.get("executor", DRIVER), int(asked["pid"])) if "pid" in asked else None
    shared = asked.get("shared") == "1"
    found = await requests.spec(run, asked.get("attempt", ""), process=process, shared=shared)
    return Response(status_code=GONE) if found is None else JSONResponse(found.to_json())


async def _source_offsets(request: Request, run: TaskRun, requests: RunRequests) -> Response:
    body = await _json_of(request)
    asked = [TopicPartition(topic, partition) for topic, partition in body["partitions"]]
    attempt = request.query_params.get("attempt", "")
    found = await requests.source_offsets(run, attempt, asked, fenceable=body["fenceable"])
    if found is None:
        return Response(status_code=GONE)
    return JSONResponse([[each.topic, each.partition, each.offset, each.topic_id, each.leader_epoch] for each in found])


async def _lookup(request: Request, run: TaskRun, requests: RunRequests) -> Response:
    return _rows(await requests.lookup(run, request.path_params["name"], _keys(request)))


def _rows(found: bytes | None) -> Response:
    if found is None:
        return Response(status_code=GONE)
    # In pieces: one write of all of it would take the loop for tens of milliseconds.
    pieces = (found[at : at + PIECE_BYTES] for at in range(0, len(found), PIECE_BYTES))
    return StreamingResponse(_each(pieces), media_type="application/vnd.apache.arrow.stream")
