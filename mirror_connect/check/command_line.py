"""What the commands check and verify share: errors in one line, exit codes, the login of a worker's REST interface."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from typing import Final, NoReturn

import typer

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.log_format import one_line

PASSWORD: Final = "MIRROR_CONNECT_PASSWORD"
WRONG_USAGE: Final = 2
# Not 1, which both commands have for a result.
UNEXPECTED: Final = 2
INTERRUPTED: Final = 130
# Of all that typer raises for wrong arguments. Its releases have it in different modules.
_USAGE_ERROR: Final = typer.BadParameter.__mro__[2]


class NoPassword(ConfigError):
    """Nobody can be asked for a password. The text is one line."""

    def __init__(self, user: str) -> None:
        super().__init__(PASSWORD, None, "")
        self.args = (f"there is no terminal to ask for the password of {user}: set {PASSWORD}",)


def run(
    application: typer.Typer, arguments: Sequence[str] | None, program: str, *, command: str, stopped: str
) -> NoReturn:
    """Runs a command and ends the process. `program`: for typer's help; `stopped`: the line after Ctrl-C.

    Whatever else is raised is a bug. Its trace has no values of variables.
    """
    try:
        code = application(arguments, prog_name=program, standalone_mode=False)
    except (typer.Abort, KeyboardInterrupt):
        say(stopped)
        code = INTERRUPTED
    except ConfigError as error:
        say(str(error))
        code = WRONG_USAGE
    except Exception as error:  # noqa: BLE001 — whatever it is, the exit code must not be that of a result
        if isinstance(error, _USAGE_ERROR):
            say(f"{error}; mirror-connect {command} --help lists the options")
            code = WRONG_USAGE
        else:
            traceback.print_exc()
            say(f"{command} ended because of an unexpected error, {type(error).__name__}")
            code = UNEXPECTED
    sys.exit(code)


def say(line: str) -> None:
    """One line on standard error."""
    print(f"mirror-connect: {one_line(' '.join(line.split()))}", file=sys.stderr, flush=True)


def login(user: str | None) -> tuple[str, str] | None:
    """User and password for REST; None without a user. NoPassword."""
    if user is None:
        return None
    given = os.environ.get(PASSWORD)
    if given is None:
        if not sys.stdin.isatty():
            raise NoPassword(user)
        given = typer.prompt(f"Password of {user}", hide_input=True, err=True)
    return user, given
