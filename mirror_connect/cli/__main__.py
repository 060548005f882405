"""`mirror-connect COMMAND`, also `python -m mirror_connect.cli COMMAND`: the commands for people."""

from __future__ import annotations

import logging
import os
from typing import Final

import typer

from mirror_connect.cli.verify_command import verify

_HELP: Final = "Tools for mirror-connect. The worker itself is started by connect-distributed.sh."

application = typer.Typer(
    name="mirror-connect",
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    # Rich's traces would print local variables, which may be passwords.
    pretty_exceptions_enable=False,
)
application.command()(verify)


# Without a callback, typer would take the name of the only command for an argument.
@application.callback(help=_HELP)
def _commands() -> None:
    logging.basicConfig(
        level=os.environ.get("MIRROR_CONNECT_LOG_LEVEL", "ERROR").upper(), format="%(levelname)s %(message)s"
    )
    # httpx logs every request at INFO.
    logging.getLogger("httpx").setLevel(logging.WARNING)


def main() -> None:
    """Entry point."""
    application()


if __name__ == "__main__":
    main()
