"""`mirror-connect logs`: the levels of a worker's loggers. Its log itself is not in REST."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, Final, NoReturn
from urllib.parse import quote

from mirror_connect.cli.rest.command_run import run_view, view_parser
from mirror_connect.cli.rest.failures import UnknownName, WrongUsage
from mirror_connect.cli.rest.figures import NOTHING, moment
from mirror_connect.cli.rest.listings import Column, Listing, View
from mirror_connect.cli.rest.worker_client import WorkerClient

LOGGERS: Final = "/admin/loggers"
LEVELS: Final = ("OFF", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE")
SCOPES: Final = ("worker", "cluster")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("logger", nargs="?", metavar="LOGGER")
    parser.add_argument("level", nargs="?", metavar="LEVEL", type=str.upper)
    parser.add_argument("--scope", choices=SCOPES, default="worker")


def main() -> NoReturn:
    """Entry point of `mirror-connect logs`."""
    run_view(view_parser("logs", arguments, watched=False), ask)


def ask(worker: WorkerClient, chosen: argparse.Namespace) -> View:
    """All levels, one, or the loggers whose level was changed."""
    if chosen.level is not None:
        return _set(worker, chosen.logger, chosen.level, chosen.scope)
    found = worker.find(_path(chosen.logger))
    if found is None:
        missing = (
            f"no {LOGGERS}: its admin.listeners are elsewhere, or it is older than Connect 2.4"
            if chosen.logger is None
            else f"no logger {chosen.logger} with a level; mirror-connect logs lists them"
        )
        raise UnknownName(f"{worker.url} has {missing}")
    loggers = found if chosen.logger is None else {chosen.logger: found}
    return View(found, [_listing(loggers)])


def _set(worker: WorkerClient, logger: str, level: str, scope: str) -> View:
    if level not in LEVELS:
        raise WrongUsage(f"there is no level {level}; {', '.join(LEVELS)} are known")
    query = {"scope": scope} if scope != "worker" else {}
    changed = worker.send("PUT", _path(logger), {"level": level}, **query)
    if changed is None:
        return View({"scope": scope}, [], [f"All workers set {logger} to {level}."])
    if not changed:
        return View([], [], [f"{logger} is {level} already."])
    return View(changed, [], [f"{each} is {level} now." for each in changed])


def _listing(loggers: Mapping[str, Any]) -> Listing:
    return Listing(
        [
            Column("logger", lambda row: str(row["logger"])),
            Column("level", lambda row: str(row.get("level"))),
            Column("changed", lambda row: moment(row["last_modified"]) if row.get("last_modified") else NOTHING),
        ],
        [{"logger": name, **each} for name, each in sorted(loggers.items())],
        "No logger has a level.",
    )


def _path(logger: str | None) -> str:
    return LOGGERS if logger is None else f"{LOGGERS}/{quote(logger, safe='')}"
