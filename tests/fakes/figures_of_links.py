"""Figures of links, many or odd ones, in front of a worker in memory: what a page has to show, and a test can choose.

Members and types are those of the worker's own answers (tests/fixtures/links); a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.fakes.connect_worker import SOURCE

LAG = {"records": 0, "seconds": 0.0, "partitions_behind": 0, "partitions_unknown": 0}
UNKNOWN_LAG = {"records": None, "seconds": None, "partitions_behind": None, "partitions_unknown": 4}
NOW_MS = 1_795_642_200_000


def link(source: str, target: str, **more: Any) -> dict[str, Any]:
    """A link that runs and is not behind, with `more` in the place of its members."""
    name = f"{source}->{target}"
    return {
        "name": name,
        "source": source,
        "target": target,
        "state": "RUNNING",
        "leads": True,
        "leader_url": None,
        "trace": None,
        "connectors": [],
        "topics": 12,
        "partitions": 48,
        "lag": LAG,
        "rate": {"records": 1523.4, "bytes": 1_530_000.0},
        "latency_ms": {"p50": 3.1, "p99": 18.0, "max": 61.0},
        "filtered": 0,
        "skipped": 0,
        "groups": 3,
        "since_ms": NOW_MS - 7_800_000,
        "problems": [],
        "more_problems": 0,
        "last_report_ms": NOW_MS,
        "unknown_workers": [],
        **more,
    }


def connector(name: str, state: str = "RUNNING", tasks: Sequence[str] = ("RUNNING", "RUNNING")) -> dict[str, Any]:
    """A source connector in a link."""
    return {
        "name": name,
        "class": SOURCE,
        "kind": "source",
        "state": state,
        "worker_id": "worker-1:8083",
        "trace": None,
        "tasks": [
            {"id": number, "state": each, "worker_id": "worker-1:8083", "trace": None}
            for number, each in enumerate(tasks)
        ],
    }


def problem(of: str, task: int | None = 1) -> dict[str, Any]:
    """A problem of a connector."""
    return {
        "code": "PARTITION_UNREADABLE",
        "subject": "source partition orders-3",
        "line": "Source partition orders-3 can't be read: it has no leader; it is tried again until it has one",
        "connector": of,
        "task": task,
        "since_ms": NOW_MS - 372_000,
    }


def topic(number: int, **more: Any) -> dict[str, Any]:
    """One of many topics; the higher its number, the less it is behind."""
    behind = max(0, 40 - number)
    lag = {"records": behind * 37, "seconds": behind / 4, "partitions_behind": min(4, behind), "partitions_unknown": 0}
    return {
        "topic": f"orders-{number:04d}",
        "remote_topic": f"A.orders-{number:04d}",
        "partitions": 4,
        "lag": lag,
        "rate": {"records": 12.5 + number, "bytes": 12_500.0 + 1000 * number},
        "latency_ms": {"p50": 2.0, "p99": 9.5, "max": 30.0},
        "problem": None,
        **more,
    }


def group(name: str, **more: Any) -> dict[str, Any]:
    """A consumer group that would lose and repeat nothing."""
    return {
        "group": name,
        "partitions": 8,
        "read_again": 0,
        "skipped": 0,
        "untranslated": 0,
        "checkpoint_latency_ms": 812.0,
        "synced_ms": NOW_MS - 4000,
        "topics": ["orders-0001", "orders-0002"],
        **more,
    }


def hour(step_s: int = 10) -> list[dict[str, Any]]:
    """An hour with a time of lag, and one in which nothing was known."""
    points = []
    for place in range(3600 // step_s):
        unknown, late = 150 <= place < 165, max(0.0, 8 - abs(place - 220) / 5)
        points.append(
            {
                "time_ms": NOW_MS - 3_600_000 + (place + 1) * step_s * 1000,
                "lag_records": None if unknown else int(late * 1500),
                "lag_seconds": None if unknown else round(0.1 + late, 2),
                "records": None if unknown else 1500 + 200 * ((place * 7919) % 13 - 6) / 6,
                "bytes": None if unknown else 1_500_000,
                "latency_p50_ms": None if unknown else 3.0 + late * 20,
                "latency_p99_ms": None if unknown else 18.0 + late * 200,
                "state": "UNASSIGNED" if unknown else "RUNNING",
            }
        )
    return points


@dataclass
class FakeLinks:
    """An application with links in front of it. `asked` has each request for them."""

    application: ASGIApp
    links: list[dict[str, Any]] = field(default_factory=list)
    topics: list[dict[str, Any]] = field(default_factory=list)
    groups: list[dict[str, Any]] = field(default_factory=list)
    points: list[dict[str, Any]] = field(default_factory=list)
    read_only: bool = False
    # Answered instead of everything that changes something.
    refusal: tuple[int, str] | None = None
    # There is no /admin/links, as with Kafka's own workers.
    absent: bool = False
    asked: list[str] = field(default_factory=list)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        parts = [unquote(part) for part in scope["raw_path"].decode().strip("/").split("/")]
        if parts[:2] == ["admin", "links"] and not self.absent:
            self.asked.append("/".join(parts))
            query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
            await self._answer(parts[2:], query)(scope, receive, send)
        elif self.refusal is not None and scope["method"] not in ("GET", "HEAD") and parts[-1] != "validate":
            status, message = self.refusal
            await JSONResponse({"error_code": status, "message": message}, status)(scope, receive, send)
        elif parts[:2] == ["admin", "links"]:
            await JSONResponse({"error_code": 404, "message": "HTTP 404 Not Found"}, 404)(scope, receive, send)
        else:
            await self.application(scope, receive, send)

    def _answer(self, parts: list[str], query: Mapping[str, str]) -> JSONResponse:
        match parts:
            case []:
                worker = {"id": "10.0.0.1:8083", "version": "0.1.0", "kafka_cluster_id": "c", "time_ms": NOW_MS}
                return JSONResponse({"worker": {**worker, "read_only": self.read_only}, "links": self.links})
            case [name, *_] if all(each["name"] != name for each in self.links):
                return JSONResponse({"error_code": 404, "message": f"Link {name} not found"}, 404)
            case [_, ("topics" | "groups") as member]:
                rows = self.topics if member == "topics" else self.groups
                return JSONResponse(_page(rows, member, member.removesuffix("s"), query))
            case [_, "topics", wanted]:
                return JSONResponse({"topic": wanted, "remote_topic": f"A.{wanted}", "partitions": _partitions()})
            case [_, "history"]:
                since = NOW_MS - int(query.get("minutes", "60")) * 60_000
                return JSONResponse({"step_s": 10, "points": [p for p in self.points if p["time_ms"] > since]})
            case _:
                pass
        return JSONResponse({"error_code": 404, "message": "HTTP 404 Not Found"}, 404)


def _page(rows: list[dict[str, Any]], member: str, name: str, query: Mapping[str, str]) -> dict[str, Any]:
    found = [row for row in rows if query.get("search", "") in row[name]]
    orders = {"lag": ("lag", "records"), "seconds": ("lag", "seconds"), "rate": ("rate", "records")}
    if (path := orders.get(query.get("sort", ""))) is not None:
        found.sort(key=lambda row: -(row[path[0]][path[1]] or 0))
    offset, limit = int(query.get("offset", "0")), int(query.get("limit", "50"))
    return {"total": len(found), member: found[offset : offset + limit]}


def _partitions() -> list[dict[str, Any]]:
    return [
        {
            "partition": number,
            "source_offset": 10_000 + number,
            "log_end": 10_000 + number if number else None,
            "lag_records": 0 if number else None,
            "lag_seconds": 0.0 if number else None,
            "records": 2500,
            "bytes": 2_560_000,
            "task": number % 2,
            "problem": None if number else problem("")["line"],
        }
        for number in range(4)
    ]
