"""The options that all commands for a running worker share, and the connection that they describe."""

from __future__ import annotations

import argparse
import os
from typing import Final, NoReturn

from mirror_connect.check.command_line import PASSWORD, login
from mirror_connect.cli.rest.contexts import Context, Contexts
from mirror_connect.cli.rest.failures import WrongUsage
from mirror_connect.cli.rest.worker_client import WorkerClient, tls_context
from mirror_connect.connectors.errors import ConfigError

TABLE, WIDE, JSON, YAML = FORMATS = ("table", "wide", "json", "yaml")
INTERVAL_S: Final = 2.0


class Parser(argparse.ArgumentParser):
    """Wrong usage is a WrongUsage. `command`: its name."""

    def __init__(self, command: str) -> None:
        super().__init__(f"mirror-connect {command}", add_help=False, allow_abbrev=False)
        self._command = command

    def error(self, message: str) -> NoReturn:
        """As argparse calls it."""
        raise WrongUsage(f"{message}; mirror-connect {self._command} --help lists the options")


def add_connection(parser: argparse.ArgumentParser) -> None:
    """Where the worker is, and how to log in."""
    parser.add_argument("--worker", metavar="URL")
    parser.add_argument("--context", metavar="NAME")
    parser.add_argument("--user", metavar="NAME")
    parser.add_argument("--cacert", metavar="FILE")
    parser.add_argument("--cert", metavar="FILE")
    parser.add_argument("--key", metavar="FILE")


def add_output(parser: argparse.ArgumentParser) -> None:
    """How a result is printed."""
    parser.add_argument("-o", "--output", choices=FORMATS, default=TABLE)


def add_watch(parser: argparse.ArgumentParser) -> None:
    """How often a result is shown."""
    parser.add_argument("-w", "--watch", action="store_true")
    parser.add_argument("--interval", type=_seconds, default=INTERVAL_S)


def chosen_context(arguments: argparse.Namespace) -> Context:
    """The worker that the arguments name, or the current context. WrongUsage."""
    if arguments.worker is not None and arguments.context is not None:
        raise WrongUsage("give --worker or --context, not both")
    # Of a context, nothing goes to another URL: neither its password nor its certificate.
    if arguments.worker is not None:
        return Context("", arguments.worker)
    contexts = Contexts()
    return contexts.current if arguments.context is None else contexts.named(arguments.context)


def connect(arguments: argparse.Namespace) -> WorkerClient:
    """A client of the worker that the arguments describe. WrongUsage."""
    context = chosen_context(arguments)
    tls = tls_context(arguments.cacert or context.cacert, arguments.cert or context.cert, arguments.key or context.key)
    user = arguments.user or context.username
    return WorkerClient(context.cluster, _login(user, context), tls)


def _login(user: str | None, context: Context) -> tuple[str, str] | None:
    if user is not None and user == context.username and context.password is not None and PASSWORD not in os.environ:
        return user, context.password
    try:
        return login(user)
    except ConfigError as error:
        raise WrongUsage(str(error)) from None


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.1 <= found <= 3600:
        raise argparse.ArgumentTypeError(f"{text} is no number of seconds from 0.1 to 3600")
    return found
