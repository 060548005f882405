"""`mirror-connect preview`: the source's last records as the connector of a file would copy them."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NoReturn

from rich.console import Console
from rich.text import Text

from mirror_connect.cli.rest.arguments import add_output
from mirror_connect.cli.rest.command_run import action_parser, run_action
from mirror_connect.cli.rest.config_question import ask_about
from mirror_connect.cli.rest.failures import (
    FINE,
    WRONG,
)
from mirror_connect.cli.rest.figures import NOTHING, plain
from mirror_connect.cli.rest.listings import Column, Listing, Row, View
from mirror_connect.cli.rest.output import print_view
from mirror_connect.cli.rest.worker_client import WorkerClient

_STYLES: Final = {"left out": "yellow", "error": "bold red"}
# As app/planning/preview.py has it, which a command without a worker does not import.
_MOST_RECORDS: Final = 200
# Of a key, a value or a header, in a table.
_SHOWN: Final = 200


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--name", metavar="NAME")
    parser.add_argument("--records", type=_records, default=20, metavar="NUMBER")
    parser.add_argument("--topic", metavar="NAME")
    parser.add_argument("--before", action="store_true")
    add_output(parser)


def main() -> NoReturn:
    """Entry point of `mirror-connect preview`."""
    run_action(action_parser("preview", arguments), act)


def act(worker: WorkerClient, chosen: argparse.Namespace) -> int:
    """Shows the records; returns the exit code."""
    view = ask(worker, chosen)
    print_view(view, chosen.output, Console())
    return WRONG if view.wrong else FINE


def ask(worker: WorkerClient, chosen: argparse.Namespace) -> View:
    """The worker's preview of the file's connector."""
    query = {"records": chosen.records} | ({"topic": chosen.topic} if chosen.topic else {})
    query |= {"before": "true"} if chosen.before else {}
    return ask_about(worker, chosen, ("POST", "preview"), query, partial(view_of, before=chosen.before))


def view_of(answer: Mapping[str, Any], *, before: bool) -> View:
    """A row for each record, and with `before` one more for what the source has."""
    records = answer["preview"]["records"]
    rows: list[Row] = []
    for record in records:
        if before:
            rows.append({**record, "": "before", "shown": record["before"]})
        became = "after" if record["kept"] else "error" if record["error"] else "left out"
        rows.append({**record, "": became, "shown": record["after"]})
    listing = Listing(
        [
            Column("topic", lambda row: row["topic"]),
            Column("remote topic", lambda row: row["remote_topic"], wide=True),
            Column("partition", lambda row: str(row["partition"]), right=True),
            Column("offset", lambda row: str(row["offset"]), right=True),
            Column("time (UTC)", _time, wide=True),
            Column("", lambda row: Text(row[""], style=_STYLES.get(row[""], ""))),
            Column("key", lambda row: _part(row, "key")),
            Column("value", lambda row: _part(row, "value")),
            Column("headers", _headers),
            *([Column("error", lambda row: row["error"] or NOTHING)] if any(each["error"] for each in records) else []),
        ],
        rows,
        "",
        "",
    )
    kept = sum(record["kept"] for record in records)
    lines: list[str | Text] = [f"{kept} of {len(records)} records would be copied. Nothing was written."]
    if answer["preview"]["line"]:
        lines.insert(0, f"Note: {answer['preview']['line']}.")
    return View(answer, [listing] if rows else [], lines)


def _records(text: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) <= _MOST_RECORDS:
        return int(text)
    raise argparse.ArgumentTypeError(f"give a number from 1 to {_MOST_RECORDS}, not {text}")


def _part(row: Row, name: str) -> str:
    return NOTHING if row["shown"] is None else _content(row["shown"][name])


def _headers(row: Row) -> str:
    if row["shown"] is None or not row["shown"]["headers"]:
        return NOTHING
    return ", ".join(plain(f"{each['key']}={_content(each['value'])}") for each in row["shown"]["headers"])


def _content(content: Row | None) -> str:
    if content is None:
        return "null"
    text = content["data"] if content["encoding"] == "text" else f"base64:{content['data']}"
    cut = f"{text[:_SHOWN]}…" if len(text) > _SHOWN else text
    return plain(cut)


def _time(row: Row) -> str:
    # A statement may change it.
    timestamp = row["timestamp"] if row["shown"] is None else row["shown"]["timestamp"]
    if timestamp < 0:
        return NOTHING
    try:
        when = datetime.datetime.fromtimestamp(timestamp / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return str(timestamp)
    return f"{when:%Y-%m-%d %H:%M:%S}"
