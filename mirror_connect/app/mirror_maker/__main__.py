"""`python -m mirror_connect.app.mirror_maker`: MirrorMaker 1 in the foreground. options.py has the command line.

Exit codes: those of app/foreground.py.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from mirror_connect.app.config.kafka_environment import notices
from mirror_connect.app.config.metrics_settings import metrics_from_environment
from mirror_connect.app.foreground import Prepared, Program, main_of
from mirror_connect.app.mirror_maker.client_files import read_sources, read_target
from mirror_connect.app.mirror_maker.options import Asked, help_text, parse
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.app.version import API_VERSION
from mirror_connect.connectors.secrets import RedactingFilter
from mirror_connect.connectors.task_protocol import MIRROR_MAKER_1

log = logging.getLogger("mirror_connect.app")

PROGRAM: Final = "kafka-mirror-maker.sh"


def main() -> NoReturn:
    """Entry point."""
    main_of(prepare)


def prepare(arguments: Sequence[str], hiding: RedactingFilter) -> Prepared:
    """See foreground.Prepare. ConfigError. What asks for the help or the version ends here."""
    options = parse(arguments)
    if isinstance(options, Asked):
        print(help_text(PROGRAM) if options.what == "help" else API_VERSION)
        sys.exit(0)
    metrics = metrics_from_environment(os.environ)
    target = read_target(options.producer_file, hiding.keep)
    sources = read_sources(options.consumer_files, hiding.keep)
    from_files = (*target.notices, *(line for source in sources for line in source.notices))
    for line in (*options.notices, *from_files, *notices({}, os.environ, MIRROR_MAKER_1)):
        log.warning("%s", line)
    for source in sources:
        log.info(
            "mirror-connect %s copies as MirrorMaker 1: group %s on %s to %s",
            API_VERSION,
            source.group_id,
            source.consumer["bootstrap.servers"],
            target.producer["bootstrap.servers"],
        )

    def make(launched: LaunchedSpark) -> Program:
        from mirror_connect.app.mirror_maker.program import MirrorMaker  # noqa: PLC0415 — see foreground.Prepared

        return MirrorMaker(options, sources, target, {}, hiding.forget_all_but, launched=launched, metrics=metrics)

    return Prepared({}, make)


if __name__ == "__main__":
    main()
