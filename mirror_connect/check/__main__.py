"""`mirror-connect check FILE|URL`: arguments, output, exit codes."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import javaproperties
import typer
from rich.console import Console

from mirror_connect.check.judge import check_file, check_worker
from mirror_connect.check.judgement import Verdict
from mirror_connect.check.links import DEFAULT_WORKER
from mirror_connect.check.mm2_judge import Mm2File
from mirror_connect.check.own_command import own_command
from mirror_connect.check.report import Report, VerifyLink
from mirror_connect.check.table import WIDTH, print_report
from mirror_connect.connectors.errors import ConfigError

PASSWORD: Final = "MIRROR_CONNECT_PASSWORD"
# Of all that typer raises for wrong arguments. Its releases have it in different modules.
_USAGE_ERROR: Final = typer.BadParameter.__mro__[1]
NOTHING_REFUSED, REFUSED, UNREADABLE = range(3)
_INTERRUPTED: Final = 130


application = typer.Typer(
    add_completion=False,
    # Rich's traces would print local variables, which may be passwords.
    pretty_exceptions_enable=False,
)


@application.command()
def check(  # noqa: PLR0917 — typer makes options of them, nobody calls it
    checked: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE|URL...",
            help="An mm2.properties, a connector's JSON or properties, a worker's properties, or a running worker's URL.",
        ),
    ],
    worker: Annotated[
        str, typer.Option(help="Where the connectors of a file run today, for the commands of verify.")
    ] = DEFAULT_WORKER,
    user: Annotated[
        str | None, typer.Option(help=f"User of the worker's REST interface. The password comes from ${PASSWORD}.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Leave out what is the same.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    verifying: Annotated[
        bool, typer.Option("--verify", help="Run verify for each link that MirrorMaker runs today.")
    ] = False,
    client: Annotated[
        str | None,
        typer.Option(
            metavar="ALIAS",
            help="Print the client properties of a cluster of an mm2.properties file, passwords included, and nothing else.",
        ),
    ] = None,
) -> None:
    """Tell what mirror-connect does with a configuration of Kafka Connect or MirrorMaker 2: each property, with its line.

    Nothing is changed. A running worker is only read.

    Exit code: 0 nothing is refused, 1 something is refused, 2 wrong usage or unreadable. With --verify also 1 if a copy
    differs, and 2 if one could not be compared.
    """
    # The worker's log lines are findings here.
    logging.disable(logging.CRITICAL)
    if client is not None:
        raise typer.Exit(_print_client(checked, client))
    codes, results = [], []
    program = own_command(sys.orig_argv)
    for each in checked:
        report = _checked(each, worker, user)
        codes.append(REFUSED if report.count(Verdict.REFUSED) else NOTHING_REFUSED)
        result = report.as_json(program)
        if not as_json:
            print_report(report, _console(), quiet=quiet, program=program)
        if verifying:
            for number, link in enumerate(report.links):
                code, outcome = _verify(link, as_json=as_json)
                codes.append(code)
                result["links"][number]["result"] = outcome
        results.append(result)
    if as_json:
        print(json.dumps(results[0] if len(results) == 1 else results, indent=2))
    raise typer.Exit(max(codes))


def main() -> NoReturn:
    """Entry point. Wrong usage is one line and exit code 2."""
    try:
        code = application(prog_name="mirror-connect check", standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        code = _interrupted()
    except Exception as error:
        if not isinstance(error, _USAGE_ERROR):
            raise
        code = _refuse(f"{error}; mirror-connect check --help lists the options")
    sys.exit(code)


def _interrupted() -> int:
    _refuse("interrupted")
    return _INTERRUPTED


def _checked(each: str, worker: str, user: str | None) -> Report:
    try:
        if each.startswith(("http://", "https://")):
            return check_worker(each, None if user is None else (user, _password(user)))
        return check_file(each, worker, user)
    except ConfigError as error:
        raise typer.Exit(_refuse(str(error))) from None
    except KeyboardInterrupt:
        # Typer would end without a word.
        raise typer.Exit(_interrupted()) from None


def _password(user: str) -> str:
    given = os.environ.get(PASSWORD)
    if given is None and not sys.stdin.isatty():
        raise typer.Exit(_refuse(f"there is no terminal to ask for the password of {user}: set {PASSWORD}"))
    return typer.prompt(f"Password of {user}", hide_input=True, err=True) if given is None else given


def _print_client(checked: list[str], alias: str) -> int:
    try:
        found = Mm2File(checked[0]).client(alias)
    except ConfigError as error:
        return _refuse(str(error))
    if found is None:
        return _refuse(f"{checked[0]} has no flow from or to {alias}")
    print(_written(found), end="")
    return NOTHING_REFUSED


def _written(properties: Mapping[str, str]) -> str:
    text: str = javaproperties.dumps(properties, timestamp=False)
    return text


def _refuse(line: str) -> int:
    print(f"mirror-connect: {' '.join(line.split())}", file=sys.stderr, flush=True)
    return UNREADABLE


def _console() -> Console:
    console = Console()
    # For a file or a pipe, rich takes 80 columns.
    return Console(width=min(WIDTH, console.width) if console.is_terminal else WIDTH)


def _verify(link: VerifyLink, *, as_json: bool) -> tuple[int, Any]:
    """Exit code of `verify`, and its JSON."""
    if link.note:
        return _refuse(f"{link.name} is not verified. {link.note}"), None
    with tempfile.TemporaryDirectory(prefix="mirror-connect-check-") as directory:
        options = list(link.options)
        for option, alias in link.clients.items():
            path = Path(directory, f"{option.strip('-')}.properties")
            path.touch(0o600)
            path.write_text(_written(Mm2File(link.file).client(alias) or {}), "iso-8859-1")
            options += [option, str(path)]
        command = [sys.executable, "-P", "-m", "mirror_connect.cli", "verify", *options, *(("--json",) if as_json else ())]
        sys.stdout.flush()
        done = subprocess.run(command, stdout=subprocess.PIPE if as_json else None, check=False)
    return done.returncode, json.loads(done.stdout) if as_json and done.stdout else None


if __name__ == "__main__":
    main()
