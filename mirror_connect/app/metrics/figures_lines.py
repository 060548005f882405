"""WorkerFigures as lines of JSON, so that neither side works for long at a time: a line has LINE_ROWS rows at most.

The first line names the worker, the last one says that nothing is missing. Unknown lines and members are of a later version,
and are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from mirror_connect.app.metrics.connector_figures import (
    ConnectorFigures,
    ConnectorRows,
    GroupFigures,
    PartitionFigures,
    TaskFigures,
    TaskPlace,
    WorkerFigures,
)
from mirror_connect.app.metrics.figures import Lag, Rate
from mirror_connect.app.metrics.shown_problem import ShownProblem
from mirror_connect.connectors.problems import ProblemCode

T = TypeVar("T")

# About a millisecond to make, or to read.
LINE_ROWS: Final = 100
_VERSION: Final = 1
END_LINE: Final = b'{"end":true}\n'
_CODES: Final = {each.value: each for each in ProblemCode}


class BadFigures(ValueError):
    """What came is not what `lines` makes, or not all of it."""


# Written.


def head_line(
    worker_id: str, process: str, version: str | None = None, lease: float | None = None, spark: str | None = None
) -> bytes:
    """The first one; see WorkerFigures."""
    told = {"worker_id": worker_id, "process": process, "worker_version": version, "lease": lease, "spark": spark}
    return _line({"version": _VERSION, **told})


def places_lines(places: Iterable[TaskPlace]) -> Iterator[bytes]:
    """Where tasks run."""
    for some in in_pieces(places):
        yield _line({"places": some})


def figures_line(name: str, figures: ConnectorFigures) -> bytes:
    """That of a connector's sums."""
    return _line({"connector": name, "figures": _sums(figures)})


def rows_lines(name: str, rows: ConnectorRows) -> Iterator[bytes]:
    """Those of a connector's rows, or of some of them."""
    for some in in_pieces(rows.partitions.items()):
        yield _line({"connector": name, "partitions": [[*key, *row] for key, row in some]})
    for topics in in_pieces(rows.latencies.items()):
        yield _line({"connector": name, "topics": [[topic, counts, most] for topic, (counts, most) in topics]})
    for groups in in_pieces(rows.groups.items()):
        yield _line({"connector": name, "groups": [[group, *row] for group, row in groups]})


def in_pieces(rows: Iterable[T]) -> Iterator[list[T]]:
    """LINE_ROWS at a time."""
    left = iter(rows)
    while piece := list(islice(left, LINE_ROWS)):
        yield piece


def _line(body: Mapping[str, object]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode() + b"\n"


def _sums(of: ConnectorFigures) -> dict[str, object]:
    return {
        "tasks": [
            [number, round(task.heard_ago, 3), task.lag.records, task.lag.seconds, task.lag.behind, task.lag.unknown]
            for number, task in of.tasks.items()
        ],
        "records": of.records,
        "bytes": of.bytes,
        "filtered": of.filtered,
        "skipped": of.skipped,
        "rate": None if of.rate is None else [of.rate.records, of.rate.bytes],
        "latency_counts": of.latency_counts,
        "recent_counts": of.recent_counts,
        "recent_most": of.recent_most,
        "problems": [[each.code.value, each.subject, each.line, each.since_ms, each.task] for each in of.problems],
        "more_problems": of.more_problems,
    }


# Read.


class FiguresReader:
    """Takes line by line; `result` when all have been taken. BadFigures."""

    def __init__(self) -> None:
        self._head: Mapping[str, Any] | None = None
        self._connectors: dict[str, ConnectorFigures] = {}
        self._partitions: dict[str, dict[tuple[str, int], PartitionFigures]] = {}
        self._latencies: dict[str, dict[str, tuple[tuple[int, ...], int]]] = {}
        self._groups: dict[str, dict[str, GroupFigures]] = {}
        self._places: list[TaskPlace] = []
        self._ended = False

    def take(self, line: bytes) -> None:
        """The next one, without its end."""
        try:
            body = json.loads(line)
            if self._head is None:
                self._head = {
                    "worker_id": str(body["worker_id"]),
                    "process": str(body["process"]),
                    "version": body.get("worker_version"),
                    "lease": body.get("lease"),
                    "spark": body.get("spark"),
                }
            elif body.get("end") is True:
                self._ended = True
            elif "places" in body:
                self._places += (TaskPlace._make(each[: len(TaskPlace._fields)]) for each in body["places"])
            elif isinstance(body.get("connector"), str):
                self._take_connector(body["connector"], body)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise BadFigures(f"{type(error).__name__} in a line of figures") from error

    def result(self) -> WorkerFigures:
        """All of it."""
        if self._head is None or not self._ended:
            raise BadFigures("the answer ends too early")
        names = self._partitions.keys() | self._latencies.keys() | self._groups.keys()
        rows = {
            name: ConnectorRows(
                self._partitions.get(name, {}), self._latencies.get(name, {}), self._groups.get(name, {})
            )
            for name in names
        }
        return WorkerFigures(**self._head, places=tuple(self._places), connectors=self._connectors, rows=rows)

    def _take_connector(self, name: str, body: Mapping[str, Any]) -> None:
        if "figures" in body:
            self._connectors[name] = _figures(body["figures"])
        elif "partitions" in body:
            partitions = self._partitions.setdefault(name, {})
            for topic, number, *row in body["partitions"]:
                partitions[topic, number] = PartitionFigures._make(row[: len(PartitionFigures._fields)])
        elif "topics" in body:
            latencies = self._latencies.setdefault(name, {})
            for topic, counts, most, *_ in body["topics"]:
                latencies[topic] = (tuple(counts), most)
        elif "groups" in body:
            groups = self._groups.setdefault(name, {})
            for group, *row in body["groups"]:
                groups[group] = GroupFigures._make(row[: len(GroupFigures._fields)])


def _figures(body: Mapping[str, Any]) -> ConnectorFigures:
    problems, more = _problems(body["problems"])
    return ConnectorFigures(
        tasks={
            int(number): TaskFigures(heard_ago, Lag(records, seconds, behind, unknown))
            for number, heard_ago, records, seconds, behind, unknown, *_ in body["tasks"]
        },
        records=body["records"],
        bytes=body["bytes"],
        # Workers of an earlier version do not tell them.
        filtered=body.get("filtered", 0),
        skipped=body.get("skipped", 0),
        rate=None if body["rate"] is None else Rate(*body["rate"]),
        latency_counts=tuple(body["latency_counts"]),
        recent_counts=tuple(body["recent_counts"]),
        recent_most=body["recent_most"],
        problems=problems,
        more_problems=body["more_problems"] + more,
    )


def _problems(rows: Sequence[Sequence[Any]]) -> tuple[tuple[ShownProblem, ...], int]:
    """Those with a known code, and how many others there are: a later version has more codes."""
    known = tuple(
        ShownProblem(_CODES[code], subject, line, since_ms, task)
        for code, subject, line, since_ms, task, *_ in rows
        if code in _CODES
    )
    return known, len(rows) - len(known)
