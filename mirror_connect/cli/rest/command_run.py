"""Runs a command: parses its arguments, connects, prints what it answers, and ends with its exit code."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import NoReturn

from rich.console import Console

from mirror_connect.check.command_line import say
from mirror_connect.cli.rest.arguments import JSON, WIDE, YAML, Parser, add_connection, add_output, add_watch, connect
from mirror_connect.cli.rest.failures import FINE, INTERRUPTED, NOT_DONE, WRONG, CommandFailed, WrongUsage
from mirror_connect.cli.rest.figures import plain
from mirror_connect.cli.rest.listings import View
from mirror_connect.cli.rest.output import close_quietly, print_view
from mirror_connect.cli.rest.watching import watch
from mirror_connect.cli.rest.worker_client import WorkerClient
from mirror_connect.connectors.log_format import asked_level

AddArguments = Callable[[argparse.ArgumentParser], None]


def view_parser(command: str, add: AddArguments, *, watched: bool = True) -> Parser:
    """Of a command that shows something. `watched`: whether it has --watch."""
    parser = Parser(command)
    add(parser)
    add_connection(parser)
    add_output(parser)
    if watched:
        add_watch(parser)
    return parser


def action_parser(command: str, add: AddArguments) -> Parser:
    """Of a command that changes something."""
    parser = Parser(command)
    add(parser)
    add_connection(parser)
    return parser


def run_view(parser: Parser, ask: Callable[[WorkerClient, argparse.Namespace], View]) -> NoReturn:
    """Runs a command that shows something; `ask` makes the view."""

    def body() -> int:
        arguments = parser.parse_intermixed_args(sys.argv[1:])
        watching = getattr(arguments, "watch", False)
        if watching and arguments.output in (JSON, YAML):
            raise WrongUsage("--watch shows tables: give -o table or wide")
        console = Console()
        if watching and not (console.is_terminal and sys.stdin.isatty() and not console.is_dumb_terminal):
            say("there is no terminal to watch it on: printed once")
            watching = False
        with connect(arguments) as worker:
            if watching:
                title = f"{' '.join(['mirror-connect', *parser.prog.split()[1:]])}  {worker.url}"
                asked = partial(ask, worker, arguments)
                return watch(title, asked, console, interval=arguments.interval, wide=arguments.output == WIDE)
            view = ask(worker, arguments)
        print_view(view, arguments.output, console)
        return WRONG if view.wrong else FINE

    run(body)


def run_action(parser: Parser, act: Callable[[WorkerClient, argparse.Namespace], int]) -> NoReturn:
    """Runs a command that changes something; `act` returns the exit code."""

    def body() -> int:
        arguments = parser.parse_intermixed_args(sys.argv[1:])
        with connect(arguments) as worker:
            return act(worker, arguments)

    run(body)


def run(body: Callable[[], int]) -> NoReturn:
    """Ends the process with the body's exit code, or with that of its failure and one line."""
    logging.basicConfig(level=asked_level(os.environ, "ERROR"), format="%(levelname)s %(message)s")
    # httpx logs every request at INFO.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    try:
        code = body()
    except CommandFailed as failure:
        say(plain(failure))
        code = failure.exit_code
    except KeyboardInterrupt:
        say("interrupted")
        code = INTERRUPTED
    except BrokenPipeError:
        close_quietly()
        code = FINE
    except Exception as error:  # noqa: BLE001 — whatever it is, the exit code must not be that of a result
        traceback.print_exc()
        say(f"ended because of an unexpected error, {type(error).__name__}")
        code = NOT_DONE
    sys.exit(code)
