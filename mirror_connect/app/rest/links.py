"""/admin/links …: every link with its lag, rate, latency and problems, for page, command line and scripts. Of our own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Protocol

from fastapi import FastAPI, Query, Response

from mirror_connect.app.errors import BadRequest
from mirror_connect.app.herder.link_views import (
    ConnectorOfLink,
    GroupView,
    LinkView,
    PartitionView,
    ProblemOfLink,
    TopicOrder,
    TopicView,
    WorkerView,
)
from mirror_connect.app.herder.views import StateInfo
from mirror_connect.app.metrics.figures import Lag, Latency, Rate
from mirror_connect.app.metrics.link_history import STEP_S, HistoryPoint
from mirror_connect.app.rest.answers import errors
from mirror_connect.app.rest.link_bodies import (
    LinkGroupsBody,
    LinkHistoryBody,
    LinkPartitionsBody,
    LinksBody,
    LinkTopicsBody,
)

# Rows of one page, unless `limit` says otherwise, and at most.
PAGE: Final = 100
LARGEST_PAGE: Final = 10_000
# So many rows become text before other requests and the tasks' reports have their turn.
ROWS_AT_ONCE: Final = 200
HOUR_MIN: Final = 60


class Links(Protocol):
    """The links of a worker, or of all flows of a process. All methods raise NotReady, those of one link LinkNotFound."""

    async def worker(self) -> WorkerView:
        """The worker that answers."""

    async def all(self) -> list[LinkView]:
        """All links, by name."""

    async def topics(
        self, link: str, *, search: str = "", order: TopicOrder = TopicOrder.LAG, limit: int, offset: int = 0
    ) -> tuple[int, list[TopicView]]:
        """How many topics there are, and one page of them."""

    async def topic(self, link: str, topic: str) -> tuple[str | None, list[PartitionView]]:
        """The remote topic, and the partitions of a topic. NotFound."""

    async def groups(self, link: str, *, search: str = "", limit: int, offset: int = 0) -> tuple[int, list[GroupView]]:
        """How many groups there are, and one page of them."""

    async def history(self, link: str, minutes: float) -> list[HistoryPoint]:
        """The last minutes."""


Search = Annotated[str, Query(description="Only names with this text in them, in any case")]
Limit = Annotated[str, Query(description=f"Rows of one page: {PAGE}, and {LARGEST_PAGE} at most")]
Offset = Annotated[str, Query(description="Rows before the page")]


def add_link_routes(application: FastAPI, links: Callable[[], Links], *, read_only: bool = False) -> None:
    """Adds every resource below /admin/links. `read_only`: whether this REST interface changes nothing, to be shown."""

    @application.get("/admin/links", responses={200: {"model": LinksBody}, **errors()})
    async def list_links() -> Response:
        """Every link with its state, lag, rate, latency and problems."""
        worker = await links().worker()
        shown = {
            "id": worker.worker_id,
            "version": worker.version,
            "kafka_cluster_id": worker.kafka_cluster_id,
            "time_ms": worker.time_ms,
            "read_only": read_only,
        }
        return await _rows({"worker": shown}, "links", map(_link, await links().all()))

    @application.get("/admin/links/{link}/topics", responses={200: {"model": LinkTopicsBody}, **errors(404)})
    async def list_topics(
        link: str,
        search: Search = "",
        sort: Annotated[str, Query(description="lag, seconds, rate (the largest first) or name")] = "lag",
        limit: Limit = str(PAGE),
        offset: Offset = "0",
    ) -> Response:
        """The topics that a link copies; `search` also looks for names of remote topics."""
        try:
            order = TopicOrder(sort)
        except ValueError:
            raise BadRequest(f"sort is {sort}; lag, seconds, rate and name are known") from None
        rows, first = _number("limit", limit, LARGEST_PAGE), _number("offset", offset)
        total, found = await links().topics(link, search=search, order=order, limit=rows, offset=first)
        return await _rows({"total": total}, "topics", map(_topic, found))

    @application.get(
        "/admin/links/{link}/topics/{topic}", responses={200: {"model": LinkPartitionsBody}, **errors(404)}
    )
    async def get_topic(link: str, topic: str) -> Response:
        """The partitions of a topic that a link copies."""
        remote_topic, found = await links().topic(link, topic)
        return await _rows({"topic": topic, "remote_topic": remote_topic}, "partitions", map(_plain, found))

    @application.get("/admin/links/{link}/groups", responses={200: {"model": LinkGroupsBody}, **errors(404)})
    async def list_groups(link: str, search: Search = "", limit: Limit = str(PAGE), offset: Offset = "0") -> Response:
        """The consumer groups of a link, by name, and what their consumers would get if they moved to the target now."""
        rows, first = _number("limit", limit, LARGEST_PAGE), _number("offset", offset)
        total, found = await links().groups(link, search=search, limit=rows, offset=first)
        return await _rows({"total": total}, "groups", map(_plain, found))

    @application.get("/admin/links/{link}/history", responses={200: {"model": LinkHistoryBody}, **errors(404)})
    async def get_history(
        link: str, minutes: Annotated[str, Query(description=f"The last minutes, {HOUR_MIN} at most")] = str(HOUR_MIN)
    ) -> Response:
        """A link in the last hour, in steps of ten seconds."""
        found = await links().history(link, _number("minutes", minutes, HOUR_MIN))
        return await _rows({"step_s": STEP_S}, "points", map(_plain, found))


def _number(name: str, text: str, most: int | None = None) -> int:
    """A number of a query, `most` if it is larger; BadRequest."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise BadRequest(f"{name} is {text}; it must be a number that is not negative")
    return int(text) if most is None else min(int(text), most)


async def _rows(members: Mapping[str, object], name: str, rows: Iterable[Mapping[str, object]]) -> Response:
    """An answer with one list of many rows as its last member."""
    pieces = [json.dumps({**members, name: []})[:-2]]
    chunk: list[str] = []
    for count, row in enumerate(rows, 1):
        chunk.append(json.dumps(row, ensure_ascii=False, separators=(",", ":")))
        if count % ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)
    return Response(f"{pieces[0]}{','.join(chunk)}]}}", media_type="application/json")


def _link(view: LinkView) -> dict[str, Any]:
    problems = view.problems
    return {
        "name": view.name,
        "source": view.source,
        "target": view.target,
        "state": view.state,
        "leads": view.leads,
        "leader_url": view.leader_url,
        "trace": view.trace,
        "connectors": [_connector(each) for each in view.connectors],
        "topics": view.topics,
        "partitions": view.partitions,
        "lag": _lag(view.lag),
        "rate": _rate(view.rate),
        "latency_ms": _latency(view.latency),
        "filtered": view.filtered,
        "skipped": view.skipped,
        "groups": view.groups,
        "since_ms": view.since_ms,
        "problems": None if problems is None else [_problem(each) for each in problems],
        "more_problems": view.more_problems,
        "last_report_ms": view.last_report_ms,
        "unknown_workers": list(view.unknown_workers),
    }


def _connector(view: ConnectorOfLink) -> dict[str, Any]:
    tasks = [{"id": number, **_state(task)} for number, task in sorted(view.tasks.items())]
    return {"name": view.name, "class": view.class_name, "kind": view.kind, **_state(view.state), "tasks": tasks}


def _state(state: StateInfo) -> dict[str, Any]:
    return {"state": state.state, "since_ms": state.since_ms, "worker_id": state.worker_id, "trace": state.trace}


def _problem(view: ProblemOfLink) -> dict[str, Any]:
    problem = view.problem
    return {
        "code": problem.code.value,
        "subject": problem.subject,
        "line": problem.line,
        "connector": view.connector,
        "task": problem.task,
        "since_ms": problem.since_ms,
    }


def _topic(view: TopicView) -> dict[str, Any]:
    return {
        "topic": view.topic,
        "remote_topic": view.remote_topic,
        "partitions": view.partitions,
        "lag": _lag(view.lag),
        "rate": _rate(view.rate),
        "latency_ms": _latency(view.latency),
        "problem": view.problem,
    }


def _lag(lag: Lag) -> dict[str, Any]:
    return {
        "records": lag.records,
        "seconds": lag.seconds,
        "partitions_behind": lag.behind,
        "partitions_unknown": lag.unknown,
    }


def _rate(rate: Rate | None) -> dict[str, float] | None:
    return None if rate is None else {"records": round(rate.records, 3), "bytes": round(rate.bytes, 1)}


def _latency(latency: Latency | None) -> dict[str, float] | None:
    if latency is None:
        return None
    return {"p50": round(latency.p50, 1), "p99": round(latency.p99, 1), "max": round(latency.max, 1)}


def _plain(view: PartitionView | GroupView | HistoryPoint) -> dict[str, Any]:
    """Of a value whose members have the names of the answer's."""
    return {name: getattr(view, name) for name in view.__dataclass_fields__}
