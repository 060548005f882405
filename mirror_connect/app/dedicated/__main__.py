"""`python -m mirror_connect.app.dedicated mm2.properties [--clusters A B]`: the flows of a file in the foreground."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from typing import Final, NoReturn

from mirror_connect.app.dedicated.findings import RefusedFile
from mirror_connect.app.dedicated.mm2_file import read_mm2_file
from mirror_connect.app.dedicated.start_settings import start_settings
from mirror_connect.app.foreground import (
    Prepared,
    Program,
    WrongSettings,
    WrongUsage,
    hide_secrets_of,
    main_of,
    set_up_environment,
    unknown_option,
)
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.app.version import API_VERSION
from mirror_connect.connectors.secrets import RedactingFilter, secrets_of
from mirror_connect.connectors.task_protocol import DEDICATED

log = logging.getLogger("mirror_connect.app")

PROGRAM: Final = "connect-mirror-maker"


class _Arguments(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise WrongUsage(f"{_usage_of(self)}: {message}")


def _usage_of(parser: argparse.ArgumentParser) -> str:
    return " ".join(parser.format_usage().split())


def arguments_parser() -> argparse.ArgumentParser:
    """The arguments of Kafka's program of this name."""
    parser = _Arguments(prog=PROGRAM, description="MirrorMaker 2.0 driver", allow_abbrev=False)
    parser.add_argument("config", metavar="mm2.properties", help="MM2 configuration file.")
    parser.add_argument("--clusters", nargs="+", metavar="CLUSTER", help="Target cluster to use for this node.")
    return parser


def main() -> NoReturn:
    """Entry point."""
    main_of(prepare)


def prepare(arguments: Sequence[str], hiding: RedactingFilter) -> Prepared:
    """See foreground.Prepare. WrongUsage, WrongSettings, ConfigError."""
    parser = arguments_parser()
    # argparse says of an unknown option that the file is missing, if it is, too.
    if wrong := unknown_option(_usage_of(parser), arguments, ["--clusters"]):
        raise wrong
    given = parser.parse_args(arguments)
    try:
        settings = start_settings(read_mm2_file(given.config, given.clusters))
    except RefusedFile as refused:
        raise WrongSettings([finding.shown for finding in refused.findings]) from None
    config, own, configs = settings.config, settings.process, settings.flows
    for each in (own, *configs.values()):
        hide_secrets_of(each, hiding)
    for flow in config.flows:
        for connector in flow.connectors.values():
            hiding.keep(secrets_of(connector))
    set_up_environment(own, DEDICATED)
    for warning in config.warnings:
        log.warning("%s", warning.shown)
    for flow in config.flows:
        what = "copies" if flow.enabled else "only heartbeats"
        log.info(
            "mirror-connect %s starts: flow %s (%s), group %s", API_VERSION, flow.name, what, flow.worker["group.id"]
        )

    def make(launched: LaunchedSpark) -> Program:
        from mirror_connect.app.dedicated.program import DedicatedMirrorMaker  # noqa: PLC0415 — see foreground.Prepared

        return DedicatedMirrorMaker(config, own, configs, hiding.forget_all_but, launched)

    return Prepared(own.spark, make, own.log_format, own.task_listener)


if __name__ == "__main__":
    main()
