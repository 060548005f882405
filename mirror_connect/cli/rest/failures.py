"""Why a command could not do what it was asked. Each is one line for people and an exit code."""

from __future__ import annotations

from typing import ClassVar, Final

FINE: Final = 0
# Something of what was asked about is wrong, or the worker refused what was asked of it.
WRONG: Final = 1
# Wrong usage, or no answer.
NOT_DONE: Final = 2
INTERRUPTED: Final = 130


class CommandFailed(Exception):
    """The text is one line; `exit_code` ends the command."""

    exit_code: ClassVar[int] = NOT_DONE


class WrongUsage(CommandFailed):
    """The arguments, or a file of the user, make no sense."""


class WorkerUnreachable(CommandFailed):
    """No answer of a Connect worker."""


class Unsupported(CommandFailed):
    """This worker has no such resource."""


class RequestRefused(CommandFailed):
    """The worker answered with an error. `status`: HTTP's."""

    exit_code = WRONG

    def __init__(self, line: str, status: int) -> None:
        super().__init__(line)
        self.status = status


class UnknownName(CommandFailed):
    """The worker has no connector, task, link or logger of this name."""
