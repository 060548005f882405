"""`mirror-connect status`: connectors and tasks with their states, and why something failed."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

from rich.text import Text

from mirror_connect.cli.rest.command_run import run_view, view_parser
from mirror_connect.cli.rest.figures import NOTHING, member, plain, state
from mirror_connect.cli.rest.listings import Column, Listing, Row, View
from mirror_connect.cli.rest.selection import chosen_names, is_pattern
from mirror_connect.cli.rest.worker_client import WorkerClient, connector_path

# States in which nobody works on it.
STOPPED_BY_ITSELF: Final = frozenset({"FAILED", "UNASSIGNED"})
_CAUSED_BY: Final = "Caused by: "


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("connector", nargs="?", metavar="CONNECTOR")


def main() -> NoReturn:
    """Entry point of `mirror-connect status`."""
    run_view(view_parser("status", arguments), ask)


def ask(worker: WorkerClient, chosen: argparse.Namespace) -> View:
    """All connectors, those of a pattern, or one in detail."""
    asked = chosen.connector
    if asked is not None and not is_pattern(asked):
        return _one(worker.get(connector_path(asked, "status")))
    found = statuses(worker)
    names = sorted(found) if asked is None else chosen_names([asked], found, worker.url)
    rows = [_row(name, found[name]) for name in names]
    listing = Listing(
        [
            Column("connector", lambda row: str(row["name"])),
            Column("type", lambda row: row["type"], spare=True),
            Column("state", lambda row: state(row["state"])),
            Column("tasks running", lambda row: row["tasks"]),
            Column("worker", lambda row: row["worker"], spare=True),
            Column("class", lambda row: row["class"], wide=True),
            Column("version", lambda row: row["version"], wide=True),
        ],
        rows,
        f"{worker.url} has no connectors.",
    )
    return View(
        {name: {"status": found[name]["status"]} for name in names},
        [listing],
        [line for name in names for line in _brief(found[name]["status"])],
        any(_is_wrong(found[name]["status"]) for name in names),
    )


def statuses(worker: WorkerClient) -> dict[str, Mapping[str, Any]]:
    """Connector → its `status`, and `info` if the worker tells it."""
    found = worker.get("/connectors", expand=["status", "info"])
    if isinstance(found, Mapping):
        return {name: each for name, each in found.items() if isinstance(member(each, "status"), Mapping)}
    # Workers before 2.3 know no expand.
    answers = {str(name): worker.find(connector_path(str(name), "status")) for name in found or ()}
    return {name: {"status": answer} for name, answer in answers.items() if answer is not None}


def parts(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The connector and its tasks as (name, state …)."""
    name = str(status.get("name"))
    yield name, member(status, "connector") or {}
    for task in status.get("tasks") or ():
        yield f"{name}/{task.get('id')}", task


def cause_of(trace: object) -> list[str]:
    """What people need of a trace: its lines if it is no stack trace, else its first one and the last cause."""
    lines = [line for line in str(trace).splitlines() if line.strip()]
    if not any(line.startswith("\tat ") for line in lines):
        return lines
    causes = [line for line in lines if line.startswith(_CAUSED_BY)]
    return lines[:1] + causes[-1:]


def _one(status: Mapping[str, Any]) -> View:
    listing = Listing(
        [
            Column("connector, task", lambda row: str(row["name"])),
            Column("state", lambda row: state(row["state"])),
            Column("worker", lambda row: row["worker"]),
            Column("version", lambda row: row["version"]),
        ],
        [
            {"name": name, "state": each.get("state"), "worker": _worker(each), "version": _version(each)}
            for name, each in parts(status)
        ],
        "",
    )
    lines: list[str | Text] = []
    for name, each in parts(status):
        if each.get("trace"):
            lines += [Text(plain(f"{name}:"), style="bold"), str(each["trace"]).rstrip()]
    return View(status, [listing], lines, _is_wrong(status))


def _row(name: str, found: Mapping[str, Any]) -> Row:
    status = found["status"]
    connector = member(status, "connector") or {}
    states = [task.get("state") for task in status.get("tasks") or ()]
    return {
        "name": name,
        "type": str(status.get("type", NOTHING)),
        "state": connector.get("state"),
        "tasks": _tasks(states),
        "worker": _worker(connector),
        "class": str(member(found, "info", "config", "connector.class") or NOTHING),
        "version": _version(connector),
    }


def _tasks(states: list[Any]) -> Text:
    """`2 of 3, 1 FAILED`."""
    running = states.count("RUNNING")
    text = Text(f"{running} of {len(states)}" if states else NOTHING)
    for name in sorted({str(each) for each in states} - {"RUNNING"}):
        text.append(f", {states.count(name)} ").append(state(name))
    return text


def _brief(status: Mapping[str, Any]) -> list[str | Text]:
    lines: list[str | Text] = []
    for name, each in parts(status):
        cause = cause_of(each["trace"]) if each.get("trace") else []
        lines += [f"{name}: {line.strip()}" for line in cause]
    return lines


def _is_wrong(status: Mapping[str, Any]) -> bool:
    return any(each.get("state") in STOPPED_BY_ITSELF for _, each in parts(status))


def _worker(part: Mapping[str, Any]) -> str:
    return str(part.get("worker_id") or NOTHING)


def _version(part: Mapping[str, Any]) -> str:
    return str(part.get("version") or NOTHING)
