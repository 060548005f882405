"""`mirror-connect topics`: the topics of links with lag, rate and latency."""

from __future__ import annotations

import argparse
from typing import Final, NoReturn

from mirror_connect.cli.rest.command_run import run_view, view_parser
from mirror_connect.cli.rest.figures import NOTHING, count
from mirror_connect.cli.rest.lag_command import REMOTE_TOPIC, TOPIC, limit
from mirror_connect.cli.rest.link_figures import (
    BYTES_RATE,
    LAG_RECORDS,
    LAG_SECONDS,
    LATENCY_MAX,
    LATENCY_P50,
    LATENCY_P99,
    LINK,
    RECORDS_RATE,
    link_path,
    links_of,
    notes,
    pages,
)
from mirror_connect.cli.rest.listings import Column, Listing, View
from mirror_connect.cli.rest.worker_client import WorkerClient

SORTS: Final = ("name", "lag", "seconds", "rate")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("link", nargs="?", metavar="LINK")
    parser.add_argument("--search", default="", metavar="TEXT")
    parser.add_argument("--sort", choices=SORTS, default="name")
    parser.add_argument("--limit", type=limit, default=0, metavar="NUMBER")


def main() -> NoReturn:
    """Entry point of `mirror-connect topics`."""
    run_view(view_parser("topics", arguments), ask)


def ask(worker: WorkerClient, chosen: argparse.Namespace) -> View:
    """The topics of all links, or of those of a name or pattern."""
    _, links = links_of(worker, chosen.link)
    query = {"sort": chosen.sort, **({"search": chosen.search} if chosen.search else {})}
    rows = [
        {"link": each["name"], **row}
        for each in links
        for row in pages(worker, link_path(each["name"], "topics"), "topics", chosen.limit, **query)
    ]
    listing = Listing(
        [
            LINK,
            TOPIC,
            REMOTE_TOPIC,
            Column("partitions", lambda row: count(row.get("partitions")), right=True, spare=True),
            LAG_RECORDS,
            LAG_SECONDS,
            RECORDS_RATE,
            BYTES_RATE,
            LATENCY_P50,
            LATENCY_P99,
            LATENCY_MAX,
            Column("problem", lambda row: str(row.get("problem") or NOTHING)),
        ],
        rows,
        f"No topic has {chosen.search} in its name." if chosen.search else "No topic is known yet.",
    )
    return View({"topics": rows}, [listing], notes(links, worker.url))
