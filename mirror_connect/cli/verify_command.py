"""`mirror-connect verify`: arguments, client properties, exit codes. The package verify compares."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, NoReturn

import typer
import uvloop
from rich.console import Console

from mirror_connect.app.config.properties import read_properties
from mirror_connect.check.command_line import INTERRUPTED, PASSWORD, login, run, say
from mirror_connect.cli.sampling_command import verify_samples
from mirror_connect.cli.verify_output import print_report, watcher_for
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.log_format import asked_level
from mirror_connect.connectors.user_code.known_classes import DEFAULT_POLICY, IDENTITY_POLICY
from mirror_connect.connectors.user_code.user_class import PLUGIN_MODULES
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.link import Link, WorkerRest, described_link, link_of
from mirror_connect.verify.run import NOT_COMPARED, Options, Report
from mirror_connect.verify.run import verify as compare
from mirror_connect.verify.sampling import SamplingOptions
from mirror_connect.verify.stored_offsets import stored_offsets

_POLICIES: Final = {"default": DEFAULT_POLICY, "identity": IDENTITY_POLICY}
_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_STOPPED: Final = "stopped before the comparison was complete"
_MILLISECONDS: Final = re.compile(r"[0-9]{1,15}")
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?|)b?(?:/s)?", re.IGNORECASE)


application = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    # Rich's traces would print local variables, which may be passwords.
    pretty_exceptions_enable=False,
)


# Without a callback, typer would take the name of the only command for an argument.
@application.callback()
def _commands() -> None:
    logging.basicConfig(level=asked_level(os.environ, "ERROR"), format="%(levelname)s %(message)s")
    # httpx logs every request at INFO.
    logging.getLogger("httpx").setLevel(logging.WARNING)


def main() -> NoReturn:
    """Entry point of `mirror-connect verify`."""
    run(application, ["verify", *sys.argv[1:]], "mirror-connect", command="verify", stopped=_STOPPED)


def bytes_per_second(text: str) -> float:
    """Bytes per second of `50MB/s`, `8MiB` or `1000000`. BadParameter."""
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise typer.BadParameter(f"{text!r} is no rate: give bytes per second, such as 50MB/s")
    return float(found[1]) * _UNITS[found[2].lower()]


def moment(text: str) -> int:
    """Milliseconds since the epoch, of such a number or of `2026-11-21T08:00:00Z`. BadParameter."""
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time: give one such as 2026-11-21T08:00:00Z") from None
    aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


@application.command()
def verify(  # noqa: PLR0917 — typer makes options of them, nobody calls it
    connector: Annotated[
        str | None, typer.Argument(help="The name of a MirrorSourceConnector of a running worker.")
    ] = None,
    worker: Annotated[str, typer.Option(help="The worker's REST interface.")] = "http://localhost:8083",
    user: Annotated[
        str | None, typer.Option(help=f"User of the REST interface. The password comes from ${PASSWORD} or a prompt.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Client properties of the source cluster.")] = None,
    target: Annotated[Path | None, typer.Option(help="Client properties of the target cluster.")] = None,
    topics: Annotated[
        str | None,
        typer.Option(help="Topics to compare, as in the connector's setting: names and regular expressions."),
    ] = None,
    topics_exclude: Annotated[
        str | None, typer.Option(help="Topics to leave out, as in the connector's setting topics.exclude.")
    ] = None,
    source_alias: Annotated[
        str | None, typer.Option(help="source.cluster.alias, part of remote topics' names. Required without CONNECTOR.")
    ] = None,
    target_alias: Annotated[
        str | None, typer.Option(help="target.cluster.alias. Topics that come from the target are left out.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="The naming of remote topics: default or identity.")] = None,
    separator: Annotated[str | None, typer.Option(help="replication.policy.separator.")] = None,
    offsets_topic: Annotated[
        str | None,
        typer.Option(help="The target's topic with the link's source offsets, if the worker cannot report them."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Compare only records from this time on, such as 2026-11-21T08:00:00Z.")
    ] = None,
    rate: Annotated[
        str | None, typer.Option(help="The highest rate at which to read from each cluster, such as 50MB/s.")
    ] = None,
    most: Annotated[
        int, typer.Option("--list", min=0, help="How many faults to list per partition. All are counted.")
    ] = 20,
    strict: Annotated[bool, typer.Option("--strict", help="Count duplicates after a restart as faults.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output.")] = False,
    following: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Verify samples behind the running CONNECTOR until Ctrl-C, with the copier's reader. JSON comes in lines.",
        ),
    ] = False,
    cpu_share: Annotated[
        float, typer.Option(min=0.001, help="With --follow: the most CPU seconds for each CPU second of copying.")
    ] = 0.05,
    whole: Annotated[
        bool, typer.Option("--whole", help="With --follow: compare every record instead of samples, at any CPU cost.")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="With --follow: the seed that chooses the samples. Random by default.")
    ] = None,
    seconds: Annotated[float | None, typer.Option("--for", help="With --follow: stop after this many seconds.")] = None,
) -> None:
    """Compare source and target of a link record by record. Report records that are missing, doubled, reordered or changed.

    With CONNECTOR, everything comes from the connector's config. --source and --target replace its client properties.

    Without CONNECTOR, both are required, and --source-alias or --policy identity.

    librdkafka reads both clusters. It shares no code with the copier. Every record is
    unpacked, which costs 4 to 6 microseconds of CPU per record for both sides. --rate limits this.

    Exit code: 0 equal, 1 different, 2 not compared.
    """
    # The user of this command may run any Python here. The worker's limit is for people who may only write its configs.
    os.environ.setdefault(PLUGIN_MODULES, "*")
    options = Options(
        rate=None if rate is None else bytes_per_second(rate),
        from_ms=None if since is None else moment(since),
        most_listed=most,
        strict=strict,
    )
    settings = {
        name: value
        for name, value in {
            "topics": topics,
            "topics.exclude": topics_exclude,
            "source.cluster.alias": source_alias,
            "target.cluster.alias": target_alias,
            "replication.policy.class": None if policy is None else _POLICIES.get(policy, policy),
            "replication.policy.separator": separator,
        }.items()
        if value is not None
    }
    if connector is None and (source is None or target is None):
        raise typer.BadParameter("name a connector, or give both --source and --target")
    if connector is None and source_alias is None and policy not in ("identity", IDENTITY_POLICY):
        # A wrong guess would call every topic missing.
        raise typer.BadParameter(
            "give --source-alias, the link's source.cluster.alias, which is part of remote topics' names "
            "(or --policy identity if topics keep their names)"
        )

    if following and (connector is None or offsets_topic is not None):
        raise typer.BadParameter("--follow asks a worker for the link's source offsets: name a CONNECTOR")

    async def run_once() -> Report:
        files = _properties("source", source), _properties("target", target)
        if connector is None:
            link = described_link(source=files[0] or {}, target=files[1] or {}, settings=settings)
        else:
            link = await _of_connector(WorkerRest(worker, login(user)), connector, settings, *files)
        if offsets_topic is not None:
            found = await stored_offsets(link.target, offsets_topic, link.source_alias, connector)
            link = replace(link, positions=found)
        watcher = watcher_for(Console(stderr=True))
        with watcher:
            return await compare(link, options, watcher)

    async def run_behind(name: str) -> int:
        files = _properties("source", source), _properties("target", target)
        async with WorkerRest(worker, login(user)) as rest:
            link = await _of_connector(rest, name, settings, *files)
            return await verify_samples(
                link,
                lambda: rest.positions(name, link.source_alias),
                SamplingOptions(
                    cpu_share=None if whole else cpu_share,
                    rate=options.rate,
                    from_ms=options.from_ms,
                    most_listed=most,
                    seed=random.randrange(1 << 31) if seed is None else seed,
                    strict=strict,
                ),
                seconds=seconds,
                as_json=as_json,
            )

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            if following and connector is not None:
                _end(runner.run(run_behind(connector)))
            report = runner.run(run_once())
    except (CannotCompareError, ClusterUnreachable, NotAuthorized, ConfigError) as error:
        say(str(error))
        _end(NOT_COMPARED)
    except KeyboardInterrupt:
        say(_STOPPED)
        _end(INTERRUPTED)
    if as_json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        print_report(report, Console())
    _end(report.outcome)


async def _of_connector(
    rest: WorkerRest,
    name: str,
    settings: Mapping[str, str],
    source: Mapping[str, str] | None,
    target: Mapping[str, str] | None,
) -> Link:
    config = await rest.config(name)
    link = link_of(name, {**config, **settings}, source=source, target=target)
    return replace(link, positions=await rest.positions(name, link.source_alias))


def _properties(side: str, path: Path | None) -> dict[str, str] | None:
    return None if path is None else read_properties(path, what=f"the {side} cluster's properties")


def _end(code: int) -> None:
    sys.stdout.flush()
    raise typer.Exit(code)
