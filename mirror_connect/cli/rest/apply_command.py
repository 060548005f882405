"""`mirror-connect apply`: connectors as files have them. Every file is validated before the first one is sent."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NoReturn

from rich.console import Console
from rich.text import Text

from mirror_connect.app.errors import ConnectorFileRefused
from mirror_connect.app.herder.lifecycle import INITIAL_STATES
from mirror_connect.app.standalone.connector_files import ConnectorFile, connector_of, read_connector_file
from mirror_connect.cli.rest.command_run import action_parser, run_action
from mirror_connect.cli.rest.config_changes import Change, changes
from mirror_connect.cli.rest.failures import FINE, WRONG, WrongUsage
from mirror_connect.cli.rest.figures import plain
from mirror_connect.cli.rest.worker_client import WorkerClient, connector_path, plugin_path
from mirror_connect.connectors.secrets import HIDDEN

_SUFFIXES: Final = (".json", ".properties")
_STDIN: Final = "-"
_STATES: Final = {state: name for name, state in INITIAL_STATES.items()}
CREATED, CHANGED, UNCHANGED = "created", "changed", "unchanged"


@dataclass(frozen=True, slots=True)
class Planned:
    """A file, and what it would change. `exists`: whether the worker has the connector."""

    file: ConnectorFile
    exists: bool
    changes: Sequence[Change]
    errors: Sequence[str]

    @property
    def outcome(self) -> str:
        """In a word."""
        return CREATED if not self.exists else CHANGED if self.changes else UNCHANGED


def arguments(parser: argparse.ArgumentParser) -> None:
    """Its own. `-f` is kcctl's way."""
    parser.add_argument("files", nargs="*", metavar="FILE")
    parser.add_argument("-f", "--file", action="append", default=[], dest="more", metavar="FILE")
    parser.add_argument("--name", metavar="NAME")
    parser.add_argument("--dry-run", action="store_true")


def main() -> NoReturn:
    """Entry point of `mirror-connect apply`."""
    run_action(action_parser("apply", arguments), act)


def act(worker: WorkerClient, chosen: argparse.Namespace) -> int:
    """Plans all, shows it, and sends what differs. Nothing is sent if a config is refused."""
    files = connector_files([*chosen.files, *chosen.more], chosen.name)
    planned = [_plan(worker, each) for each in files]
    console = Console(soft_wrap=True)
    refused = [each for each in planned if each.errors]
    for each in planned if chosen.dry_run or refused else ():
        _show(console, each, "refused" if each.errors else _foreseen(each), dry_run=chosen.dry_run)
    if refused:
        console.print(f"{_number(refused)} refused, so nothing is sent.", highlight=False)
        return WRONG
    if chosen.dry_run:
        return FINE
    for each in planned:
        if each.outcome != UNCHANGED:
            _send(worker, each)
        _show(console, each, each.outcome)
    return FINE


def connector_files(paths: Sequence[str], name: str | None = None) -> list[ConnectorFile]:
    """The connectors of files and of directories' files. WrongUsage names the file and what is wrong with it."""
    if not paths:
        raise WrongUsage("name a file or directory with connectors, or - for standard input")
    if name is not None and (len(paths) > 1 or Path(paths[0]).is_dir()):
        raise WrongUsage("--name is for one file")
    found = [_read(file, name) for path in paths for file in _files(path)]
    seen: dict[str, str] = {}
    for each in found:
        if each.name in seen:
            raise WrongUsage(f"{seen[each.name]} and {each.path} both have the connector {each.name}: leave one out")
        seen[each.name] = each.path
    return found


def _files(path: str) -> Iterator[str]:
    if path == _STDIN:
        yield _STDIN
    elif Path(path).is_dir():
        files = sorted(str(each) for each in Path(path).iterdir() if each.suffix in _SUFFIXES and each.is_file())
        if not files:
            raise WrongUsage(f"{path} has no .json or .properties file")
        yield from files
    else:
        yield path


def _read(path: str, name: str | None) -> ConnectorFile:
    # A file with settings alone is the body of a PUT, whose path has the name: scripts take the file's for it.
    try:
        if path == _STDIN:
            found = connector_of(sys.stdin.buffer.read(), "standard input", name)
        else:
            found = read_connector_file(path, name or Path(path).stem)
    except ConnectorFileRefused as error:
        raise WrongUsage(str(error)) from None
    if name is not None and found.name != name:
        raise WrongUsage(f"{path} has the connector {found.name}, not {name}: leave --name out")
    hidden = [key for key, value in found.config.items() if value == HIDDEN]
    if hidden:
        raise WrongUsage(f"{path} has {HIDDEN} as {hidden[0]}: mirror-connect config --secrets shows the value itself")
    return found


def _plan(worker: WorkerClient, file: ConnectorFile) -> Planned:
    current = worker.find(connector_path(file.name, "config"))
    wanted = {**file.config, "name": file.name}
    found = changes(current or {}, wanted)
    errors = _errors(worker, wanted) if current is None or found else []
    return Planned(file, current is not None, found, errors)


def _errors(worker: WorkerClient, config: Mapping[str, str | None]) -> list[str]:
    """What the worker's validation says against it, as `tasks.max: …`."""
    plugin = config.get("connector.class")
    if not plugin:
        return ["connector.class: it is missing"]
    answer = worker.send("PUT", plugin_path(plugin, "config", "validate"), dict(config))
    values = [each.get("value") or {} for each in (answer or {}).get("configs") or ()]
    return [f"{each.get('name')}: {error}" for each in values for error in each.get("errors") or ()]


def _send(worker: WorkerClient, planned: Planned) -> None:
    file = planned.file
    if not planned.exists and file.initial_state is not None:
        # Only POST takes it.
        body: Any = {"name": file.name, "config": dict(file.config), "initial_state": _STATES[file.initial_state]}
        worker.send("POST", "/connectors", body)
    else:
        worker.send("PUT", connector_path(file.name, "config"), dict(file.config))


def _show(console: Console, planned: Planned, outcome: str, *, dry_run: bool = False) -> None:
    console.print(Text(plain(f"{planned.file.name}: {outcome}  ({planned.file.path})"), style="bold"), highlight=False)
    # All of a new config is a change: it is in the file.
    for change in planned.changes if planned.exists or dry_run else ():
        for line in change.lines():
            console.print(line, highlight=False)
    for error in planned.errors:
        console.print(Text(plain(f"  {' '.join(error.split())}"), style="red"), highlight=False)


def _foreseen(planned: Planned) -> str:
    return UNCHANGED if planned.outcome == UNCHANGED else f"would be {planned.outcome}"


def _number(planned: Sequence[Planned]) -> str:
    return f"{len(planned)} config is" if len(planned) == 1 else f"{len(planned)} configs are"
