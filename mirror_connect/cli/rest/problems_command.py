"""`mirror-connect problems`: what is wrong, since when, and what to do. Of a worker of Kafka's: what has failed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from mirror_connect.cli.rest.command_run import run_view, view_parser
from mirror_connect.cli.rest.failures import Unsupported
from mirror_connect.cli.rest.figures import NOTHING, member, moment
from mirror_connect.cli.rest.link_figures import LINK, LINKS, notes
from mirror_connect.cli.rest.listings import Column, Listing, Row, View
from mirror_connect.cli.rest.selection import chosen_links
from mirror_connect.cli.rest.status_command import STOPPED_BY_ITSELF, cause_of, parts, statuses
from mirror_connect.cli.rest.worker_client import WorkerClient


def _part(row: Row) -> str:
    task = member(row, "task")
    return f"{row.get('connector') or NOTHING}" + ("" if task is None else f"/{task}")


_COLUMNS: Final = (
    Column("since", lambda row: NOTHING if row.get("since_ms") is None else moment(row["since_ms"])),
    LINK,
    Column("connector", _part),
    Column("code", lambda row: str(row.get("code") or NOTHING), wide=True),
    Column("subject", lambda row: str(row.get("subject") or NOTHING), wide=True),
    Column("problem", lambda row: str(row.get("line"))),
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("link", nargs="?", metavar="LINK")


def main() -> NoReturn:
    """Entry point of `mirror-connect problems`."""
    run_view(view_parser("problems", arguments), ask)


def ask(worker: WorkerClient, chosen: argparse.Namespace) -> View:
    """Of all links, or of those of a name or pattern; and of all connectors if the worker knows no links."""
    answer = worker.find(LINKS)
    lines: list[str] = []
    if answer is None:
        if chosen.link is not None:
            raise Unsupported(
                f"{worker.url} knows no links: without LINK, mirror-connect problems lists what has failed"
            )
        rows = [row for each in statuses(worker).values() for row in _of_status(each["status"])]
        lines.append(f"{worker.url} has no {LINKS}: these are the traces of its status.")
    else:
        links = chosen_links(chosen.link, answer.get("links") or [], worker.url)
        rows = [row for each in links for row in problems_of(each)]
        more = sum(int(each.get("more_problems") or 0) for each in links)
        lines += [f"… and {more:,} more problems"] if more else []
        lines += notes(links, worker.url)
        if links and not rows and all(each.get("problems") is None for each in links):
            return View({"problems": None}, [], lines, True)
    return View({"problems": rows}, [Listing(_COLUMNS, rows, "No problems.")], lines, bool(rows))


def problems_of(link: Mapping[str, Any]) -> Iterator[Row]:
    """Its problems, and what has failed of it: a failure is a state, and not in the list of problems."""
    for each in link.get("problems") or ():
        yield {"link": link["name"], **each}
    for connector in link.get("connectors") or ():
        status = {"name": connector.get("name"), "connector": connector, "tasks": connector.get("tasks")}
        for row in _of_status(status, only=STOPPED_BY_ITSELF):
            yield {**row, "link": link["name"]}


def _of_status(status: Mapping[str, Any], only: frozenset[str] | None = None) -> Iterator[Row]:
    name = str(status.get("name"))
    for part, each in parts(status):
        stopped = each.get("state") in STOPPED_BY_ITSELF
        if not stopped and (only is not None or not each.get("trace")):
            continue
        yield {
            "link": NOTHING,
            "code": each.get("state"),
            "subject": part,
            "line": f"{each.get('state')}: {'; '.join(cause_of(each.get('trace') or 'there is no trace'))}",
            "connector": name,
            "task": each.get("id") if part != name else None,
            "since_ms": each.get("since_ms"),
        }
