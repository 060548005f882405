"""`mirror-connect COMMAND`, also `python -m mirror_connect.cli COMMAND`: runs the command that the table has.

Wrong usage is one line on standard error and exit code 2.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Final, NoReturn

from mirror_connect.cli.command_row import FILE, Command
from mirror_connect.cli.commands import COMMANDS

WRONG_USAGE: Final = 2
INTERRUPTED: Final = 130
HELP: Final = ("--help", "-h")
# Of the completion scripts, and in no help.
_ASKING: Final = Command("__words", "", "", "mirror_connect.cli.rest.offered_words:main", "")


def main() -> NoReturn:
    """Entry point."""
    code: str | int | None = 0
    try:
        try:
            _main(sys.argv[1:])
        except SystemExit as end:
            code = end.code
        if sys.stdout is not None:
            # What is short is written here, and not before.
            sys.stdout.flush()
    except BrokenPipeError:
        # Who read it has gone (`| head`): what Python would still write at its end goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _main(arguments: Sequence[str]) -> None:
    if not arguments:
        print(overview(), file=sys.stderr)
        sys.exit(WRONG_USAGE)
    name, *rest = arguments
    if name in (*HELP, "help"):
        print(overview())
    elif name == "--version":
        print(f"mirror-connect {_version()}")
    elif name == _ASKING.name:
        run(_ASKING, rest)
    elif name not in COMMANDS:
        print(f"mirror-connect: {unknown(name)}", file=sys.stderr)
        sys.exit(WRONG_USAGE)
    elif _asks_for_help(rest):
        command = COMMANDS[name]
        print(f"{command.usage}\n{command.help}")
    elif _lacks_its_file(COMMANDS[name], rest):
        print(COMMANDS[name].usage, file=sys.stderr)
        sys.exit(WRONG_USAGE)
    else:
        try:
            run(COMMANDS[name], rest)
        except KeyboardInterrupt:
            # A command's modules take a second to import.
            print("mirror-connect: interrupted", file=sys.stderr)
            sys.exit(INTERRUPTED)


def run(command: Command, arguments: Sequence[str]) -> None:
    """Imports the command and runs it, with its arguments as its process's."""
    module, function = command.entry.split(":")
    sys.argv = [f"mirror-connect {command.name}", *arguments]
    getattr(import_module(module), function)()


def overview() -> str:
    """The help of `mirror-connect`: a line for each command, and one for each group of them."""
    groups: dict[str, list[str]] = {}
    for row in COMMANDS.values():
        if row.group:
            groups.setdefault(row.group, []).append(row.name)
    width = max(len(row.name) for row in COMMANDS.values() if not row.group) + 2
    group_width = max(map(len, groups)) + 2
    return "\n".join(
        (
            "usage: mirror-connect COMMAND [ARGUMENT …]",
            "Mirrors Kafka topics between clusters, as Kafka Connect with MirrorMaker 2 does.",
            "",
            *(f"  {each.name:{width}}{each.summary}" for each in COMMANDS.values() if not each.group),
            "Of a running worker, ours or Kafka's:",
            *(f"  {group:{group_width}}{', '.join(names)}" for group, names in groups.items()),
            "",
            "  --help     this text; behind a command: that command's",
            "  --version  the version",
        )
    )


def unknown(name: str) -> str:
    """What to say of a word that is no command."""
    near = get_close_matches(name, COMMANDS, 1)
    return f"no command {name}; {f'did you mean {near[0]}?' if near else 'mirror-connect --help lists them'}"


def _asks_for_help(arguments: Sequence[str]) -> bool:
    return any(each in HELP for each in arguments)


def _lacks_its_file(command: Command, arguments: Sequence[str]) -> bool:
    """Whether it is known without starting the command. Others judge their arguments themselves, and all name options."""
    if any(each.startswith("-") for each in arguments):
        return False
    if command.arguments == FILE:
        return len(arguments) != 1
    return command.arguments.startswith(FILE) and not arguments


def _version() -> str:
    # Only here: it takes a tenth of a second.
    return str(import_module("mirror_connect.app.version").API_VERSION)


if __name__ == "__main__":
    main()
