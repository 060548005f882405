"""`mirror-connect plan`: what a connector of a file would do, or what a change would do to one that runs."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, Final, NoReturn

import typer
from rich.console import Console
from rich.text import Text

from mirror_connect.cli.rest.arguments import add_output
from mirror_connect.cli.rest.command_run import action_parser, run_action
from mirror_connect.cli.rest.config_question import ask_about
from mirror_connect.cli.rest.failures import (
    FINE,
    WRONG,
)
from mirror_connect.cli.rest.figures import NOTHING, bytes_rate, count, duration, plain, records_rate
from mirror_connect.cli.rest.listings import Column, Listing, Row, View
from mirror_connect.cli.rest.output import print_view
from mirror_connect.cli.rest.worker_client import WorkerClient
from mirror_connect.cli.verify_command import bytes_per_second

_STYLES: Final = {"create": "green", "grow": "green", "refused": "bold red"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its own."""
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--name", metavar="NAME")
    parser.add_argument("--speed", type=_speed, metavar="RATE")
    add_output(parser)


def main() -> NoReturn:
    """Entry point of `mirror-connect plan`."""
    run_action(action_parser("plan", arguments), act)


def act(worker: WorkerClient, chosen: argparse.Namespace) -> int:
    """Shows the plan; returns the exit code."""
    view = ask(worker, chosen)
    print_view(view, chosen.output, Console())
    return WRONG if view.wrong else FINE


def ask(worker: WorkerClient, chosen: argparse.Namespace) -> View:
    """The worker's plan of the file's connector."""
    query = {} if chosen.speed is None else {"speed": chosen.speed}
    return ask_about(worker, chosen, ("PUT", "plan"), query, view_of)


def view_of(answer: Mapping[str, Any]) -> View:
    """Tables of a plan; only those that have something in them."""
    plan: Mapping[str, Any] = answer["plan"]
    listings = [each for each in _listings(plan) if each.rows]
    return View(answer, listings, list(_lines(plan)), wrong=bool(plan["refused"]))


def _listings(plan: Mapping[str, Any]) -> Iterator[Listing]:
    yield Listing(
        [
            Column("setting", lambda row: row["name"]),
            Column("now", lambda row: _or_nothing(row["now"])),
            Column("then", lambda row: _or_nothing(row["then"])),
        ],
        plan["config"],
        "",
        f"Connector {plan['name']} exists. Its config would change:",
    )
    yield Listing(
        [
            Column("topic", lambda row: row["topic"]),
            Column("remote topic", lambda row: row["remote_topic"]),
            Column("", _action),
            Column("partitions", _partitions, right=True),
            Column("records", lambda row: count(row["records"]), right=True),
            Column("bytes", lambda row: _size(row["bytes"]), right=True),
            Column("replicas", lambda row: _replicas(row["replication_factor"]), right=True, spare=True),
            Column("configs", lambda row: _configs(row["configs"]), spare=True),
            Column("copied now", lambda row: "yes" if row["running"] else "no", wide=True),
        ],
        plan["topics"],
        "",
        "Topics to copy:",
    )
    yield Listing(
        [Column("topic", lambda row: row["topic"]), Column("not copied, because", lambda row: row["line"])],
        plan["excluded"],
        "",
        "Left out:",
    )
    yield Listing(
        [
            Column("topic", lambda row: row["topic"]),
            Column("cluster", lambda row: row["cluster"]),
            Column("", _action),
            Column("replicas", lambda row: _replicas(row["replication_factor"]), right=True),
        ],
        plan["internal_topics"],
        "",
        "The connector's own topics:",
    )
    yield Listing(
        [
            Column("remote topic", lambda row: row["remote_topic"]),
            Column("config", lambda row: row["name"]),
            Column("now", lambda row: _or_nothing(row["now"])),
            Column("then", lambda row: "its default" if row["then"] is None else row["then"]),
        ],
        plan["topic_configs"],
        "",
        "Configs of remote topics that would change:",
    )
    changes = [{"": what, **each} for what in ("add", "remove") for each in plan["acls"][what]]
    yield Listing(
        [
            Column("", lambda row: row[""]),
            Column("ACL", lambda row: f"{row['permission']} {row['operation']}"),
            Column("principal", lambda row: row["principal"]),
            Column("host", lambda row: row["host"]),
            Column("topic", lambda row: f"{row['pattern']} {row['name']}"),
        ],
        changes,
        "",
        "ACLs of the target:",
    )
    yield Listing(
        [
            Column("group", lambda row: row["group"]),
            Column("topic", lambda row: row["topic"]),
            Column("partition", lambda row: str(row["partition"]), right=True),
            Column("source offset", lambda row: count(row["source_offset"]), right=True, spare=True),
            Column("target has", lambda row: NOTHING if row["now"] is None else count(row["now"]), right=True),
            Column(
                "would be set to", lambda row: count(row["target_offset"]) if row["synced"] else NOTHING, right=True
            ),
        ],
        [{"group": each["group"], **position} for each in plan["groups"] for position in each["positions"]],
        "",
        "Group offsets on the target:",
    )


def _lines(plan: Mapping[str, Any]) -> Iterator[str | Text]:
    source, target = plan["source"], plan["target"]
    if target is not None:
        link = f"{source['alias']} ({source['cluster_id']}) -> " if source is not None else "target "
        yield f"{link}{target['alias']} ({target['cluster_id']})"
    tasks = plan["tasks"]
    before = f", {tasks['now']} now" if plan["exists"] else ""
    moves = f"; {tasks['moved']} of their partitions or groups move" if tasks["moved"] else ""
    yield f"{tasks['then']} {'task' if tasks['then'] == 1 else 'tasks'}{before}{moves}."
    if tasks["dropped"]:
        yield f"No longer copied: {', '.join(tasks['dropped'])}."
    if plan["not_selected"]:
        what = "groups are" if plan["connector"].endswith("MirrorCheckpointConnector") else "topics are"
        yield f"{plan['not_selected']} {what} not selected."
    if plan["amount"] is not None:
        yield from _amount(plan["amount"])
    for group in plan["groups"]:
        if group["line"] or group["untranslated"]:
            waits = f"{group['untranslated']} offsets can't be translated yet" if group["untranslated"] else ""
            yield f"Group {group['group']}: {'; '.join(filter(None, (group['line'], waits)))}."
    for line in filter(None, (plan["acls"]["line"], *plan["remarks"])):
        yield f"Note: {line}."
    for refusal in plan["refused"]:
        yield Text(plain(f"refused: {refusal['line']}"), style="bold red")
    yield "Nothing was changed."


def _amount(amount: Row) -> Iterator[str]:
    yield f"To copy: {count(amount['records'])} records, about {_size(amount['bytes'])}."
    grows = amount["records_per_s"], amount["bytes_per_s"]
    if amount["sampled_s"]:
        yield f"The source grows by {records_rate(grows[0])}, {bytes_rate(grows[1])} (seen for {amount['sampled_s']:g} s)."
    if amount["seconds"] is not None and amount["speed"] is not None:
        yield f"At {bytes_rate(amount['speed'])} the copy has caught up after {duration(amount['seconds'])}."
    if amount["line"]:
        yield f"{amount['line'][0].upper()}{amount['line'][1:]}."


def _size(value: float | None) -> str:
    return bytes_rate(value).removesuffix("/s")


def _action(row: Row) -> Text:
    return Text(row["action"], style=_STYLES.get(row["action"], ""))


def _partitions(row: Row) -> str:
    now, then = row["remote_partitions"], row["partitions"]
    return f"{now} -> {then}" if row["action"] == "grow" else str(then)


def _replicas(factor: int | None) -> str:
    if factor is None:
        return NOTHING
    return "default" if factor < 0 else str(factor)


def _configs(configs: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(configs.items())) or NOTHING


def _or_nothing(value: str | None) -> str:
    return NOTHING if value is None else value


def _speed(text: str) -> float:
    try:
        return bytes_per_second(text)
    except typer.BadParameter as wrong:
        raise argparse.ArgumentTypeError(str(wrong)) from None
