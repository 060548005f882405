"""`python -m mirror_connect.app worker.properties`: one worker in the foreground; app/foreground.py has its exit codes."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, NoReturn

from mirror_connect.app.config.worker_config import load_worker_config
from mirror_connect.app.distributed import DistributedWorker
from mirror_connect.app.foreground import WrongUsage, hide_secrets_of, main_of, set_up_environment
from mirror_connect.app.version import API_VERSION
from mirror_connect.connectors.secrets import RedactingFilter
from mirror_connect.connectors.task_protocol import CONNECT

log = logging.getLogger("mirror_connect.app")

USAGE: Final = "usage: connect-distributed.sh worker.properties"


def main() -> NoReturn:
    """Entry point."""
    main_of(prepare)


def prepare(arguments: Sequence[str], hiding: RedactingFilter) -> Callable[[], DistributedWorker]:
    """See foreground.Prepare. WrongUsage, ConfigError."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        raise WrongUsage(USAGE)
    config = load_worker_config(arguments[0])
    hide_secrets_of(config, hiding)
    set_up_environment(config, CONNECT)
    servers = config.own_client().get("bootstrap.servers")
    log.info("mirror-connect %s starts: group %s on the cluster at %s", API_VERSION, config.group_id, servers)
    return lambda: DistributedWorker(config, hiding.forget_all_but)


if __name__ == "__main__":
    main()
