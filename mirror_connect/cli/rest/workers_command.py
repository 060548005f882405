"""`mirror-connect workers`: the workers of the group, who leads, and what runs where."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Mapping
from typing import Any, NoReturn

from mirror_connect.cli.rest.command_run import run_view, view_parser
from mirror_connect.cli.rest.figures import NOTHING, UNKNOWN, count, duration, plain
from mirror_connect.cli.rest.listings import Column, Listing, Row, View
from mirror_connect.cli.rest.worker_client import WorkerClient


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its own: none."""


def main() -> NoReturn:
    """Entry point of `mirror-connect workers`."""
    run_view(view_parser("workers", arguments), ask)


def ask(worker: WorkerClient, chosen: argparse.Namespace) -> View:
    """All workers of the group."""
    del chosen
    answer = worker.extension("/admin/workers")
    workers = answer.get("workers") or []
    listing = Listing(
        [
            Column("worker", lambda row: str(row["worker_id"])),
            Column("", lambda row: "leads" if row.get("leads") else ""),
            Column("connectors", lambda row: count(len(row.get("connectors") or ())), right=True),
            Column("tasks", lambda row: count(len(row.get("tasks") or ())), right=True),
            Column("runs", _runs),
            Column("spark", lambda row: str(row.get("spark") or UNKNOWN).lower(), spare=True),
            Column("executors", _executors, wide=True),
            Column("lease", _lease, right=True, spare=True),
            Column("version", lambda row: str(row.get("version") or UNKNOWN), spare=True),
            Column("url", lambda row: str(row.get("url") or NOTHING), wide=True),
        ],
        workers,
        f"{worker.url} knows no worker of its group.",
    )
    present = {each.get("worker_id") for each in workers}
    gone = [each for each in answer.get("lost") or () if each.get("worker_id") not in present]
    lost = [_lost(each) for each in gone if each.get("connectors") or each.get("tasks")]
    if delay := answer.get("delay_ms"):
        lost.append(f"What a lost worker ran waits for it for {duration(delay / 1000)} more.")
    nobody = not any(each.get("leads") for each in workers)
    if nobody:
        lost.append("No worker leads the group now.")
    return View(answer, [listing], lost, nobody)


def _runs(row: Row) -> str:
    """`mirror-source/0, /1; mirror-heartbeat` in short: connectors by name, with the numbers of their tasks."""
    numbers: dict[str, list[int]] = {name: [] for name in row.get("connectors") or ()}
    for task in row.get("tasks") or ():
        numbers.setdefault(str(task.get("connector")), []).append(int(task.get("task", -1)))
    shown = [f"{plain(name)}{_ranges(sorted(found))}" for name, found in sorted(numbers.items())]
    return ", ".join(shown) or NOTHING


def _executors(row: Row) -> str:
    """`3 on host2: mirror-source/0-1`: where the tasks run on a Spark cluster."""
    there: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for task in row.get("tasks") or ():
        if task.get("executor") is not None:
            there.setdefault((str(task["executor"]), str(task.get("host") or UNKNOWN)), []).append(task)
    shown = [
        f"{plain(executor)} on {plain(host)}: {_runs({'tasks': tasks})}"
        for (executor, host), tasks in sorted(there.items())
    ]
    return "; ".join(shown) or NOTHING


def _ranges(numbers: list[int]) -> str:
    """`/0-2/5` of 0, 1, 2 and 5."""
    text, at = "", 0
    while at < len(numbers):
        end = at
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        text += f"/{numbers[at]}" if end == at else f"/{numbers[at]}-{numbers[end]}"
        at = end + 1
    return text


def _lease(row: Row) -> str:
    lease = row.get("lease_ms")
    if lease is None:
        return UNKNOWN if row.get("version") is None else NOTHING
    return duration(lease / 1000)


def _lost(each: Mapping[str, Any]) -> str:
    tasks = Counter(str(task.get("connector")) for task in each.get("tasks") or ())
    told = ", ".join(f"{plain(name)} ({number})" for name, number in sorted(tasks.items()))
    ago = duration((each.get("lost_ago_ms") or 0) / 1000)
    return f"{plain(each.get('worker_id'))} left the group or was lost {ago} ago" + (
        f" with tasks of {told}" if told else ""
    )
