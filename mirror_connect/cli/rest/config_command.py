"""`mirror-connect config`: a connector's config, and the contexts that name workers."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn
from urllib.parse import urlsplit

from rich.console import Console

from mirror_connect.cli.rest.arguments import Parser, add_output
from mirror_connect.cli.rest.command_run import run, run_view, view_parser
from mirror_connect.cli.rest.contexts import CURRENT, Contexts
from mirror_connect.cli.rest.failures import FINE, WRONG, UnknownName, WrongUsage
from mirror_connect.cli.rest.figures import NOTHING
from mirror_connect.cli.rest.listings import Column, Listing, View
from mirror_connect.cli.rest.output import print_view
from mirror_connect.cli.rest.worker_client import WorkerClient, connector_path, tls_context
from mirror_connect.connectors.secrets import HIDDEN, is_secret

_COMMAND: Final = "config"


def arguments(parser: ArgumentParser) -> None:
    """Those of `config CONNECTOR`."""
    parser.add_argument("connector", metavar="CONNECTOR")
    parser.add_argument("--secrets", action="store_true")


def main() -> NoReturn:
    """Entry point of `mirror-connect config`."""
    verb = next(iter(sys.argv[1:]), None)
    if verb is None:
        run(lambda: _get_contexts([]))
    if verb in VERBS:
        run(lambda: VERBS[verb](sys.argv[2:]))
    run_view(view_parser(_COMMAND, arguments, watched=False), ask)


def ask(worker: WorkerClient, chosen: Namespace) -> View:
    """The connector's config. Secret values are hidden unless asked for."""
    config = worker.get(connector_path(chosen.connector, "config"))
    if not isinstance(config, Mapping):
        raise UnknownName(f"{worker.url} has no connector {chosen.connector}")
    shown = {name: shown_value(name, value, secrets=chosen.secrets) for name, value in sorted(config.items())}
    columns = [Column("property", lambda row: str(row["name"])), Column("value", lambda row: str(row["value"]))]
    rows = [{"name": name, "value": value} for name, value in shown.items()]
    return View(shown, [Listing(columns, rows, "The config is empty.")])


def shown_value(name: str, value: str | None, *, secrets: bool = False) -> str | None:
    """The value for people. A reference to a config provider is no secret."""
    if secrets or not value or not is_secret(name) or (value.startswith("${") and value.endswith("}")):
        return value
    return HIDDEN


def _set_context(words: list[str]) -> int:
    parser = Parser(_COMMAND)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("--worker", "--cluster", dest="cluster", metavar="URL")
    parser.add_argument("--user", "--username", dest="username", metavar="NAME")
    parser.add_argument("--password")
    for each in ("cacert", "cert", "key"):
        parser.add_argument(f"--{each}", metavar="FILE")
    given = parser.parse_intermixed_args(words)
    if given.password is not None:
        raise WrongUsage("a password is not stored: it comes from MIRROR_CONNECT_PASSWORD, or is asked for")
    members = {"cluster": given.cluster, "username": given.username}
    contexts = Contexts()
    known = contexts.all.get(given.name)
    if given.cluster is not None:
        _check_url(given.cluster)
    elif known is None:
        raise WrongUsage("give the worker's URL: --worker http://localhost:8083")
    else:
        members["cluster"] = known.cluster
    for each in ("cacert", "cert", "key"):
        file = getattr(given, each)
        # The command may be called from another directory next time.
        members[each] = None if file is None else str(Path(file).expanduser().absolute())
    tls_context(members["cacert"], members["cert"], members["key"])
    current = contexts.add(given.name, {name: value for name, value in members.items() if value is not None})
    print(
        f"Context {given.name} is set"
        + ("." if current else f"; mirror-connect config use-context {given.name} uses it.")
    )
    return FINE


def _use_context(words: list[str]) -> int:
    name = _name(words)
    Contexts().use(name)
    print(f"Context {name} is in use.")
    return FINE


def _remove_context(words: list[str]) -> int:
    name = _name(words)
    Contexts().remove(name)
    print(f"Context {name} is removed.")
    return FINE


def _current_context(words: list[str]) -> int:
    Parser(_COMMAND).parse_args(words)
    contexts = Contexts()
    if not contexts.all:
        print(f"There is no context; commands ask {contexts.current.cluster}.")
        return WRONG
    print(contexts.current.name or f"No context is in use; commands ask {contexts.current.cluster}.")
    return FINE if contexts.current.name else WRONG


def _get_contexts(words: list[str]) -> int:
    parser = Parser(_COMMAND)
    add_output(parser)
    chosen = parser.parse_args(words)
    contexts = Contexts()
    current = contexts.current.name
    columns = [
        Column("", lambda row: "*" if row["name"] == current else ""),
        Column("context", lambda row: str(row["name"])),
        Column("worker", lambda row: str(row["cluster"])),
        Column("user", lambda row: str(row.get("username") or NOTHING)),
        Column("file", lambda row: str(row["file"]), wide=True),
    ]
    rows = [
        {
            "name": each.name,
            "cluster": each.cluster,
            **{name: text for name in ("username", "cacert", "cert", "key") if (text := getattr(each, name))},
            "file": str(each.file),
        }
        for each in contexts.all.values()
    ]
    empty = (
        f"There is no context; commands ask {contexts.current.cluster}. mirror-connect config set-context makes one."
    )
    body = {CURRENT: current or None, "contexts": rows}
    print_view(View(body, [Listing(columns, rows, empty)]), chosen.output, Console())
    return FINE


# kcctl's names.
VERBS: Final[Mapping[str, Callable[[list[str]], int]]] = {
    "get-contexts": _get_contexts,
    "current-context": _current_context,
    "use-context": _use_context,
    "set-context": _set_context,
    "remove-context": _remove_context,
}


def _name(words: list[str]) -> str:
    parser = Parser(_COMMAND)
    parser.add_argument("name", metavar="NAME")
    return str(parser.parse_args(words).name)


def _check_url(url: str) -> None:
    try:
        parsed = urlsplit(url)
        host, password, scheme = parsed.hostname, parsed.password, parsed.scheme
    except ValueError:
        host = password = scheme = None
    if password is not None:
        raise WrongUsage("a password is not stored: give the URL without it, and the user with --user")
    if not host or scheme not in ("http", "https"):
        raise WrongUsage(f"{url} is no URL of a worker: give one such as http://localhost:8083")
