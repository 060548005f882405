"""`mirror-connect verify`: arguments, the way to the clusters, exit codes. The comparison itself is cli/verify/."""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer
import uvloop
from rich.console import Console

from mirror_connect.app.config.properties import read_properties
from mirror_connect.cli.follow_command import follow
from mirror_connect.cli.verify_output import print_report, watcher_for
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.user_code.known_classes import DEFAULT_POLICY, IDENTITY_POLICY
from mirror_connect.connectors.user_code.user_class import PLUGIN_MODULES
from mirror_connect.verify.follow import FollowOptions
from mirror_connect.verify.link import Link, WorkerRest, described_link, link_of
from mirror_connect.verify.place import CannotCompareError
from mirror_connect.verify.run import NOT_COMPARED, Options, Report
from mirror_connect.verify.run import verify as compare
from mirror_connect.verify.stored_positions import stored_positions

PASSWORD: Final = "MIRROR_CONNECT_PASSWORD"
_POLICIES: Final = {"default": DEFAULT_POLICY, "identity": IDENTITY_POLICY}
_UNITS: Final = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "ki": 2**10, "mi": 2**20, "gi": 2**30}
_RATE: Final = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]i?|)b?(?:/s)?", re.IGNORECASE)


def bytes_per_second(text: str) -> float:
    """`50MB/s`, `8MiB`, `1000000`: bytes a second. BadParameter."""
    found = _RATE.fullmatch(text.strip())
    if found is None or float(found[1]) == 0:
        raise typer.BadParameter(f"{text!r} is no rate: write it as 50MB/s")
    return float(found[1]) * _UNITS[found[2].lower()]


def moment(text: str) -> int:
    """`2026-11-21T08:00:00Z`, or milliseconds since the epoch, as these. BadParameter."""
    if text.isdigit():
        return int(text)
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time: write it as 2026-11-21T08:00:00Z") from None
    aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return int(aware.timestamp() * 1000)


def verify(  # noqa: PLR0917 — typer makes options of them, nobody calls it
    connector: Annotated[
        str | None, typer.Argument(help="Name of a MirrorSourceConnector of a running worker.")
    ] = None,
    worker: Annotated[str, typer.Option(help="The worker's REST interface.")] = "http://localhost:8083",
    user: Annotated[
        str | None, typer.Option(help=f"User of the REST interface; the password: ${PASSWORD}, or asked for.")
    ] = None,
    source: Annotated[Path | None, typer.Option(help="Client properties of the source cluster.")] = None,
    target: Annotated[Path | None, typer.Option(help="Client properties of the target cluster.")] = None,
    topics: Annotated[
        str | None, typer.Option(help="As the connector's setting: names and regular expressions.")
    ] = None,
    topics_exclude: Annotated[str | None, typer.Option(help="As the connector's setting topics.exclude.")] = None,
    source_alias: Annotated[
        str | None, typer.Option(help="source.cluster.alias: remote topics are named by it; needed without CONNECTOR.")
    ] = None,
    target_alias: Annotated[
        str | None, typer.Option(help="target.cluster.alias: topics that come from it are left out.")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="How remote topics are named: default or identity.")] = None,
    separator: Annotated[str | None, typer.Option(help="replication.policy.separator.")] = None,
    offsets_topic: Annotated[
        str | None,
        typer.Option(help="Topic of the target with the link's positions, where the worker doesn't tell them."),
    ] = None,
    since: Annotated[
        str | None, typer.Option("--from", help="Records from this time on, as 2026-11-21T08:00:00Z.")
    ] = None,
    rate: Annotated[str | None, typer.Option(help="Reads no faster than this from each cluster, as 50MB/s.")] = None,
    most: Annotated[int, typer.Option("--list", min=0, help="Faults listed of each partition; all are counted.")] = 20,
    strict: Annotated[bool, typer.Option("--strict", help="Records repeated after a restart are faults, too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="The result as JSON on standard output.")] = False,
    following: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Goes on behind the running CONNECTOR, until Ctrl-C, by the copier's own fast reader; JSON comes in lines.",
        ),
    ] = False,
    cpu_share: Annotated[
        float, typer.Option(min=0.001, help="With --follow: CPU used at most, for each CPU second of copying.")
    ] = 0.05,
    whole: Annotated[
        bool, typer.Option("--whole", help="With --follow: every record instead of samples, whatever CPU it takes.")
    ] = False,
    seed: Annotated[int | None, typer.Option(help="With --follow: which samples are taken; by default any.")] = None,
    seconds: Annotated[float | None, typer.Option("--for", help="With --follow: ends after so many seconds.")] = None,
) -> None:
    """Compare source and target of a link, record by record, and say what is missing, doubled, reordered or changed.

    CONNECTOR takes everything from the connector's config; --source and --target replace its client properties.

    Without CONNECTOR both are needed, and --source-alias or --policy identity.

    Both clusters are read by librdkafka, which shares no code with what copies; every record is
    unpacked, which takes 4 to 6 microseconds of CPU each, both sides together. --rate bounds it.

    Exit code: 0 equal, 1 differences, 2 couldn't be compared.
    """
    # Whoever calls this command may run any Python here; a worker's limit is for those who only may write its configs.
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
        # A guess would call every topic missing.
        raise typer.BadParameter(
            "give --source-alias, the link's source.cluster.alias: remote topics are named by it "
            "(where they keep their names: --policy identity)"
        )

    if following and (connector is None or offsets_topic is not None):
        raise typer.BadParameter("--follow asks the worker how far the link has come: name its CONNECTOR")

    async def run() -> Report:
        files = _properties("source", source), _properties("target", target)
        if connector is None:
            link = described_link(source=files[0] or {}, target=files[1] or {}, settings=settings)
        else:
            link = await _of_connector(WorkerRest(worker, _login(user)), connector, settings, *files)
        if offsets_topic is not None:
            found = await stored_positions(link.target, offsets_topic, link.source_alias, connector)
            link = replace(link, positions=found)
        watcher = watcher_for(Console(stderr=True))
        with watcher:
            return await compare(link, options, watcher)

    async def run_behind(name: str) -> int:
        files = _properties("source", source), _properties("target", target)
        async with WorkerRest(worker, _login(user)) as rest:
            link = await _of_connector(rest, name, settings, *files)
            return await follow(
                link,
                lambda: rest.positions(name, link.source_alias),
                FollowOptions(
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
            report = runner.run(run())
    except (CannotCompareError, ClusterUnreachable, NotAuthorized, ConfigError) as error:
        _say(str(error))
        _end(NOT_COMPARED)
    except KeyboardInterrupt:
        _say("stopped before the end")
        _end(130)
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


def _login(user: str | None) -> tuple[str, str] | None:
    if user is None:
        return None
    password = os.environ.get(PASSWORD)
    if password is None:
        if not sys.stdin.isatty():
            raise CannotCompareError(f"the password of {user} is in no terminal's reach: set {PASSWORD}")
        password = typer.prompt(f"Password of {user}", hide_input=True, err=True)
    return user, password


def _say(line: str) -> None:
    print(f"mirror-connect: {' '.join(line.split())}", file=sys.stderr, flush=True)


def _end(code: int) -> None:
    sys.stdout.flush()
    raise typer.Exit(code)
