"""`python -m mirror_connect.app worker.properties`: one worker in the foreground; app/foreground.py has its exit codes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final, NoReturn

from mirror_connect.app.config.worker_config import load_worker_config
from mirror_connect.app.foreground import (
    Prepared,
    Program,
    WrongUsage,
    hide_secrets_of,
    main_of,
    set_up_environment,
    unknown_option,
)
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.app.version import API_VERSION
from mirror_connect.connectors.secrets import RedactingFilter
from mirror_connect.connectors.task_protocol import CONNECT

log = logging.getLogger("mirror_connect.app")

USAGE: Final = "usage: connect-distributed.sh worker.properties"


def main() -> NoReturn:
    """Entry point."""
    main_of(prepare)


def prepare(arguments: Sequence[str], hiding: RedactingFilter) -> Prepared:
    """See foreground.Prepare. WrongUsage, ConfigError."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise unknown_option(USAGE, arguments) or WrongUsage(USAGE)
    config = load_worker_config(arguments[0])
    hide_secrets_of(config, hiding)
    set_up_environment(config, CONNECT)
    servers = config.own_client().get("bootstrap.servers")
    log.info("mirror-connect %s starts: group %s on the cluster at %s", API_VERSION, config.group_id, servers)

    def make(launched: LaunchedSpark) -> Program:
        from mirror_connect.app.distributed import DistributedWorker  # noqa: PLC0415 — see foreground.Prepared

        return DistributedWorker(config, hiding.forget_all_but, launched)

    return Prepared(config.spark, make, config.log_format, config.task_listener)


if __name__ == "__main__":
    main()
