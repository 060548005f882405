"""`mirror-connect COMMAND`, also `python -m mirror_connect.cli COMMAND`: the commands for people."""

from __future__ import annotations

import logging
import os
from typing import Final

import typer

from mirror_connect.cli.verify_command import verify

_HELP: Final = "Tools beside the worker, which is started by connect-distributed.sh."

application = typer.Typer(
    name="mirror-connect",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    # Rich's own traces would print local variables: passwords may be among them.
    pretty_exceptions_enable=False,
)
application.command()(verify)


# Without a callback an application of one command would take its name for an argument.
@application.callback(help=_HELP)
def _commands() -> None:
    logging.basicConfig(
        level=os.environ.get("MIRROR_CONNECT_LOG_LEVEL", "ERROR").upper(), format="%(levelname)s %(message)s"
    )
    # It tells of every request at INFO.
    logging.getLogger("httpx").setLevel(logging.WARNING)


def main() -> None:
    """Entry point."""
    application()


if __name__ == "__main__":
    main()
