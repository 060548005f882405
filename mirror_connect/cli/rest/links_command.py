"""`mirror-connect links`: every link with state, lag, rate and problems."""

from __future__ import annotations

import argparse
from typing import NoReturn

from mirror_connect.cli.rest.command_run import run_view, view_parser
from mirror_connect.cli.rest.figures import NOTHING, ago, count, plain
from mirror_connect.cli.rest.link_figures import (
    BYTES_RATE,
    LAG_RECORDS,
    LAG_SECONDS,
    LATENCY_MAX,
    LATENCY_P50,
    LATENCY_P99,
    LINK,
    RECORDS_RATE,
    STATE,
    is_stopped_by_itself,
    links_of,
    notes,
)
from mirror_connect.cli.rest.listings import Column, Listing, Row, View
from mirror_connect.cli.rest.problems_command import problems_of
from mirror_connect.cli.rest.worker_client import WorkerClient


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("link", nargs="?", metavar="LINK")


def main() -> NoReturn:
    """Entry point of `mirror-connect links`."""
    run_view(view_parser("links", arguments), ask)


def ask(worker: WorkerClient, chosen: argparse.Namespace) -> View:
    """All links, or those of a name or pattern."""
    answer, links = links_of(worker, chosen.link)
    now = (answer.get("worker") or {}).get("time_ms")
    rows = [{"link": each["name"], **each} for each in links]
    listing = Listing(
        [
            LINK,
            STATE,
            Column("since", lambda row: ago(row.get("since_ms"), now), spare=True),
            LAG_RECORDS,
            LAG_SECONDS,
            RECORDS_RATE,
            BYTES_RATE,
            LATENCY_P99,
            Column("problems", lambda row: count(_problems(row)), right=True),
            Column("topics", lambda row: count(row.get("topics")), right=True, spare=True),
            Column("groups", lambda row: count(row.get("groups")), right=True, spare=True),
        ],
        rows,
        f"{worker.url} has no links: it runs no mirror connector.",
    )
    # A table of its own: in one, rows would have more columns than a terminal.
    more = Listing(
        [
            LINK,
            Column("partitions", lambda row: count(row.get("partitions")), right=True),
            LATENCY_P50,
            LATENCY_MAX,
            Column("filtered", lambda row: count(row.get("filtered")), right=True),
            Column("skipped", lambda row: count(row.get("skipped")), right=True),
            Column("told", lambda row: ago(row.get("last_report_ms"), now)),
            Column("connectors", _connectors),
        ],
        rows,
        "",
        wide=True,
    )
    lines = [f"{plain(each['name'])}: {problem['line']}" for each in links for problem in list(problems_of(each))[:1]]
    lines += notes(links, worker.url)
    if any((_problems(each) or 0) > 1 for each in links):
        lines.append("mirror-connect problems lists all problems.")
    listings = [listing, more] if rows else [listing]
    return View({**answer, "links": links}, listings, lines, any(map(is_stopped_by_itself, links)))


def _problems(link: Row) -> int | None:
    found = link.get("problems")
    return None if found is None else sum(1 for _ in problems_of(link)) + int(link.get("more_problems") or 0)


def _connectors(link: Row) -> str:
    return ", ".join(str(each.get("name")) for each in link.get("connectors") or ()) or NOTHING
