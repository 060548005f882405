"""`mirror-connect groups`: what consumer groups would read again or skip if they moved to the target now."""

from __future__ import annotations

import argparse
from typing import Final, NoReturn

from mirror_connect.cli.rest.command_run import run_view, view_parser
from mirror_connect.cli.rest.figures import NOTHING, ago, count, member, milliseconds
from mirror_connect.cli.rest.lag_command import limit
from mirror_connect.cli.rest.link_figures import LINK, link_path, links_of, pages
from mirror_connect.cli.rest.listings import Column, Listing, View
from mirror_connect.cli.rest.worker_client import WorkerClient

_TOPICS_SHOWN: Final = 5


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("link", nargs="?", metavar="LINK")
    parser.add_argument("--search", default="", metavar="TEXT")
    parser.add_argument("--limit", type=limit, default=0, metavar="NUMBER")


def main() -> NoReturn:
    """Entry point of `mirror-connect groups`."""
    run_view(view_parser("groups", arguments), ask)


def ask(worker: WorkerClient, chosen: argparse.Namespace) -> View:
    """The groups of all links, or of those of a name or pattern."""
    answer, links = links_of(worker, chosen.link)
    now = member(answer, "worker", "time_ms")
    query = {"search": chosen.search} if chosen.search else {}
    rows = [
        {"link": each["name"], **row}
        for each in links
        for row in pages(worker, link_path(each["name"], "groups"), "groups", chosen.limit, **query)
    ]
    listing = Listing(
        [
            LINK,
            Column("group", lambda row: str(row.get("group"))),
            Column("partitions", lambda row: count(row.get("partitions")), right=True),
            Column("read again", lambda row: count(row.get("read_again")), right=True),
            Column("skipped", lambda row: count(row.get("skipped")), right=True),
            Column("untranslated", lambda row: count(row.get("untranslated")), right=True, spare=True),
            Column("checkpoint latency", lambda row: milliseconds(row.get("checkpoint_latency_ms")), right=True),
            Column("synced", lambda row: ago(row["synced_ms"], now) if row.get("synced_ms") else NOTHING),
            Column("topics", lambda row: _topics(row.get("topics") or []), wide=True),
        ],
        rows,
        f"No group has {chosen.search} in its name." if chosen.search else "No group is known yet.",
    )
    return View({"groups": rows}, [listing])


def _topics(names: list[object]) -> str:
    shown = ", ".join(map(str, names[:_TOPICS_SHOWN])) or NOTHING
    return shown + (f" and {len(names) - _TOPICS_SHOWN} more" if len(names) > _TOPICS_SHOWN else "")
