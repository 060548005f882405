"""`python -m mirror_connect.app.standalone worker.properties [connector …]`: a standalone worker in the foreground.

Exit codes: those of app/foreground.py.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NoReturn

from mirror_connect.app.foreground import (
    Prepared,
    Program,
    WrongUsage,
    hide_secrets_of,
    main_of,
    set_up_environment,
    unknown_option,
)
from mirror_connect.app.standalone.connector_files import read_connector_files
from mirror_connect.app.standalone.standalone_config import load_standalone_config
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.app.version import API_VERSION
from mirror_connect.connectors.secrets import RedactingFilter
from mirror_connect.connectors.task_protocol import CONNECT

log = logging.getLogger("mirror_connect.app")

USAGE: Final = "usage: connect-standalone.sh worker.properties [connector1.properties connector2.json ...]"


def main() -> NoReturn:
    """Entry point."""
    main_of(prepare)


def prepare(arguments: Sequence[str], hiding: RedactingFilter) -> Prepared:
    """See foreground.Prepare. WrongUsage, ConfigError, ConnectorFileRefused."""
    if not arguments or any(each.startswith("-") for each in arguments):
        raise unknown_option(USAGE, arguments) or WrongUsage(USAGE)
    config = load_standalone_config(arguments[0])
    # Before anything starts: a slip of the pen in a name must not wait for the cluster.
    files = read_connector_files(arguments[1:])
    hide_secrets_of(config, hiding)
    set_up_environment(config, CONNECT)
    log.info(
        "mirror-connect %s starts standalone: offsets in %s, the cluster at %s",
        API_VERSION,
        config.offsets_file,
        config.own_client().get("bootstrap.servers"),
    )

    def make(launched: LaunchedSpark) -> Program:
        from mirror_connect.app.standalone.program import StandaloneWorker  # noqa: PLC0415 — see foreground.Prepared

        return StandaloneWorker(config, files, hiding.forget_all_but, launched)

    return Prepared(config.spark, make, config.log_format, config.task_listener)


if __name__ == "__main__":
    main()
