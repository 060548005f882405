"""`mirror-connect check FILE|URL`: arguments, output, exit codes."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import javaproperties
import typer
from rich.console import Console

from mirror_connect.check.command_line import INTERRUPTED, PASSWORD, login, run, say
from mirror_connect.check.judge import check_file, check_worker
from mirror_connect.check.judgement import Verdict
from mirror_connect.check.links import DEFAULT_WORKER
from mirror_connect.check.mm2_judge import Mm2File
from mirror_connect.check.own_command import own_command
from mirror_connect.check.report import Report, VerifyLink
from mirror_connect.check.table import WIDTH, print_report
from mirror_connect.connectors.errors import ConfigError

NOTHING_REFUSED, REFUSED, UNREADABLE = range(3)
_VERIFY_CODES: Final = (0, 1, 2)
_INTERRUPTED: Final = "interrupted"


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
    credentials = login(user) if any(map(_is_url, checked)) else None
    for each in checked:
        try:
            report = _checked(each, worker, user, credentials)
        except ConfigError as error:
            codes.append(_refuse(str(error)))
            results.append({"checked": error.name, "unreadable": str(error)})
            continue
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
    """Entry point."""
    run(application, None, "mirror-connect check", command="check", stopped=_INTERRUPTED)


def _is_url(checked: str) -> bool:
    return checked.startswith(("http://", "https://"))


def _checked(each: str, worker: str, user: str | None, credentials: tuple[str, str] | None) -> Report:
    try:
        if _is_url(each):
            return check_worker(each, credentials)
        return check_file(each, worker, user)
    except KeyboardInterrupt:
        # Typer would end without a word.
        say(_INTERRUPTED)
        raise typer.Exit(INTERRUPTED) from None


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
    say(line)
    return UNREADABLE


def _console() -> Console:
    console = Console()
    # For a file or a pipe, rich takes 80 columns.
    return Console(width=min(WIDTH, console.width) if console.is_terminal else WIDTH)


def _verify(link: VerifyLink, *, as_json: bool) -> tuple[int, Any]:
    """Exit code of `verify`, and its JSON."""
    if link.impossible or link.note:
        return _refuse(f"{link.name} is not verified. {link.impossible or link.note}"), None
    with tempfile.TemporaryDirectory(prefix="mirror-connect-check-") as directory:
        options = [*link.options, *(("--json",) if as_json else ())]
        for option, alias in link.clients.items():
            path = Path(directory, f"{option.strip('-')}.properties")
            path.touch(0o600)
            try:
                properties = link.client_of(alias) if link.client_of is not None else None
            except ConfigError as error:
                return _refuse(f"{link.name} is not verified. {error}"), None
            path.write_text(_written(properties or {}), "iso-8859-1")
            options += [option, str(path)]
        sys.stdout.flush()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "mirror_connect.cli", "verify", *options],
            stdout=subprocess.PIPE if as_json else None,
            check=False,
        )
    if done.returncode not in _VERIFY_CODES:
        return _refuse(f"{link.name} is not compared: verify ended with code {done.returncode}"), None
    return done.returncode, json.loads(done.stdout) if as_json and done.stdout else None


if __name__ == "__main__":
    main()
