"""`mirror-connect lag`: how far behind its source a link is, by topic or partition if asked; with --max-lag a check."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from mirror_connect.cli.rest.command_run import run_view, view_parser
from mirror_connect.cli.rest.figures import NOTHING, count, duration, member, plain
from mirror_connect.cli.rest.link_figures import (
    LAG_RECORDS,
    LAG_SECONDS,
    LINK,
    PARTITIONS_BEHIND,
    PARTITIONS_UNKNOWN,
    RECORDS_RATE,
    STATE,
    copies,
    is_stopped_by_itself,
    link_path,
    links_of,
    notes,
    pages,
)
from mirror_connect.cli.rest.listings import Column, Listing, Row, View
from mirror_connect.cli.rest.worker_client import WorkerClient

LINKS, TOPICS, PARTITIONS = BY = ("link", "topic", "partition")
_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)")
_MOST: Final = 100
TOPIC: Final = Column("topic", lambda row: str(row.get("topic")))
REMOTE_TOPIC: Final = Column("remote topic", lambda row: str(row.get("remote_topic") or NOTHING), spare=True)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("link", nargs="?", metavar="LINK")
    parser.add_argument("--by", choices=BY)
    parser.add_argument("--max-lag", type=seconds, metavar="TIME")
    parser.add_argument("--limit", type=limit, default=_MOST, metavar="NUMBER")


def main() -> NoReturn:
    """Entry point of `mirror-connect lag`."""
    run_view(view_parser("lag", arguments), ask)


def ask(worker: WorkerClient, chosen: argparse.Namespace) -> View:
    """Links; of one link its topics, unless --by says otherwise."""
    answer, links = links_of(worker, chosen.link)
    by = chosen.by or (LINKS if chosen.link is None else TOPICS)
    late = [] if chosen.max_lag is None else _late([each for each in links if copies(each)], chosen.max_lag)
    remarks = [*notes(links, worker.url), *late]
    wrong = bool(late) or any(map(is_stopped_by_itself, links))
    if by == LINKS:
        rows: Sequence[Row] = [{"link": each["name"], **each} for each in links]
        columns = [LINK, STATE, LAG_RECORDS, LAG_SECONDS, PARTITIONS_BEHIND, PARTITIONS_UNKNOWN, RECORDS_RATE]
        return View(
            {"worker": answer.get("worker"), "links": [_of_link(each) for each in links]},
            [Listing(columns, rows, f"{worker.url} has no links: it runs no mirror connector.")],
            remarks,
            wrong,
        )
    topics: list[Row] = [
        {"link": each["name"], **row}
        for each in links
        for row in pages(worker, link_path(each["name"], "topics"), "topics", chosen.limit, sort="seconds")
    ]
    if by == TOPICS:
        shown = topics[: chosen.limit or None]
        columns = [LINK, TOPIC, LAG_RECORDS, LAG_SECONDS, PARTITIONS_BEHIND, PARTITIONS_UNKNOWN, RECORDS_RATE]
        more = sum(each.get("topics") or 0 for each in links) - len(shown)
        body = {"topics": shown}
    else:
        shown, more = _partitions(worker, topics, chosen.limit)
        columns = _PARTITION_COLUMNS
        body = {"partitions": shown}
    lines = [f"… and {more:,} more: --limit 0 lists all"] if more > 0 else []
    return View(body, [Listing(columns, shown, f"No {by} is known yet.")], [*lines, *remarks], wrong)


def seconds(text: str) -> float:
    """Seconds of `30`, `30s`, `5m`, `1h`. ArgumentTypeError."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or found[2] not in _UNITS:
        raise argparse.ArgumentTypeError(f"{text} is no time: give one such as 30s, 5m or 1h")
    return float(found[1]) * _UNITS[found[2]]


def limit(text: str) -> int:
    """A number of rows; 0 for all. ArgumentTypeError."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is no number of rows: give one such as 20, or 0 for all")
    return int(text)


_PARTITION_COLUMNS: Final = [
    LINK,
    TOPIC,
    Column("partition", lambda row: str(row.get("partition")), right=True),
    Column("lag, records", lambda row: count(row.get("lag_records")), right=True),
    Column("lag, time", lambda row: duration(row.get("lag_seconds")), right=True),
    Column("source offset", lambda row: count(row.get("source_offset")), right=True, spare=True),
    Column("log end", lambda row: count(row.get("log_end")), right=True, spare=True),
    Column("task", lambda row: NOTHING if row.get("task") is None else str(row["task"]), right=True),
    Column("records", lambda row: count(row.get("records")), right=True, wide=True),
    Column("bytes", lambda row: count(row.get("bytes")), right=True, wide=True),
    Column("problem", lambda row: str(row.get("problem") or NOTHING)),
]


def _partitions(worker: WorkerClient, topics: Sequence[Row], most: int) -> tuple[list[Row], int]:
    """Partitions, those that are most behind first, and how many are left out. Topics come in that order, too."""
    found: list[Row] = []
    left = 0
    for topic in topics:
        # One request for each topic: those at the end of the list would not be shown.
        if most and len(found) >= most:
            left += int(topic.get("partitions") or 0)
            continue
        answer = worker.find(link_path(topic["link"], "topics", str(topic["topic"]))) or {}
        rows = [{"link": topic["link"], "topic": topic["topic"], **each} for each in answer.get("partitions") or ()]
        found += rows
    found.sort(key=_most_behind_first)
    return found[: most or None], left + max(0, len(found) - most if most else 0)


def _most_behind_first(row: Row) -> tuple[float, float]:
    # What is not known may be the worst.
    behind = row.get("lag_seconds")
    return (-(float("inf") if behind is None else behind), -(row.get("lag_records") or 0))


def _of_link(link: Mapping[str, Any]) -> dict[str, Any]:
    return {name: link.get(name) for name in ("name", "source", "target", "state", "since_ms", "lag", "rate")}


def _late(links: Sequence[Mapping[str, Any]], most: float) -> list[str]:
    """A line for each link whose lag is more than `most` seconds, or unknown."""
    lines = []
    for each in links:
        behind = member(each, "lag", "seconds")
        unknown = member(each, "lag", "partitions_unknown")
        if behind is None or unknown:
            of = "" if behind is None else f" of {count(unknown)} partitions"
            lines.append(f"{plain(each['name'])}: the lag{of} is unknown, so it may be more than {duration(most)}")
        elif behind > most:
            lines.append(f"{plain(each['name'])}: the lag of {duration(behind)} is more than {duration(most)}")
    return lines
