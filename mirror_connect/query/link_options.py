"""The link of a query, from a connector's config, from files of client properties, or from the data source's options."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from mirror_connect.app.config.properties import read_properties
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.mirror_source import MirrorSource
from mirror_connect.connectors.replication_policy import replication_policy
from mirror_connect.connectors.translation.offset_ranges import offset_ranges_topic
from mirror_connect.query.errors import QueryError
from mirror_connect.query.link import ISOLATION, READ_COMMITTED, READ_UNCOMMITTED, ROLES, STATUSES, QueryLink, Rest
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.link import WorkerRest, client_of

ALIAS: Final = "source.cluster.alias"
WORKER: Final = "worker"
USER: Final = "user"
CONNECTOR: Final = "connector"
FILES: Final[Mapping[str, str]] = {"source": "source.properties", "target": "target.properties"}


_SOURCE_CLASSES: Final = MirrorSource().names
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Worker:
    """The worker at this URL."""

    url: str
    login: tuple[str, str] | None = field(default=None, repr=False)

    def get(self, path: str) -> Any:
        """See Rest."""
        try:
            return asyncio.run(WorkerRest(self.url, self.login).get(path))
        except CannotCompareError as error:
            raise QueryError(str(error)) from None


def link_of_config(
    name: str,
    config: Mapping[str, str],
    given: Mapping[str, Mapping[str, str]],
    *,
    rest: Rest | None = None,
    isolation: str | None = None,
) -> QueryLink:
    """The link of a MirrorSourceConnector. `given`: client properties of a side that replace the config's. QueryError."""
    kind = config.get("connector.class", "")
    if kind not in _SOURCE_CLASSES:
        raise QueryError(
            f"connector {name} is a {kind.rpartition('.')[2] or 'connector without a class'}, which copies no topics: "
            "name a MirrorSourceConnector"
        )
    properties: dict[str, Mapping[str, str]] = {}
    unknown: dict[str, str] = {}
    for role in ROLES:
        try:
            properties[role] = _with_isolation(client_of(role, config, given.get(role)).consumer, isolation)
        except CannotCompareError as error:
            unknown[role] = str(error)
        except ConfigError as error:
            raise QueryError(str(error)) from None
    alias = config.get(ALIAS) or "source"
    try:
        policy = replication_policy(config)
    except ConfigError as error:
        raise QueryError(str(error)) from None
    return QueryLink(
        properties,
        unknown,
        name,
        alias,
        offset_ranges_topic(policy, alias),
        policy.checkpoints_topic(alias),
        rest,
    )


def link_of_files(
    given: Mapping[str, Mapping[str, str]],
    alias: str | None,
    *,
    rest: Rest | None = None,
    isolation: str | None = None,
) -> QueryLink:
    """The link of client properties, without a connector. Its policy is MirrorMaker's default. QueryError."""
    config = {"connector.class": MirrorSource.class_name, ALIAS: alias or "source"}
    found = link_of_config("the link", config, given, rest=rest, isolation=isolation)
    missing: dict[str, str] = {
        role: f"the {role} cluster is not known: give its client properties, or a connector" for role in ROLES
    }
    return QueryLink(
        found.properties,
        missing,
        None,
        alias,
        found.ranges_topic if alias else None,
        found.checkpoints_topic if alias else None,
        rest,
    )


def link_of_options(options: Mapping[str, str]) -> QueryLink:
    """The link that options of the data source describe. QueryError."""
    isolation = isolation_of(options.get(ISOLATION))
    given = {role: properties_in(role, options[name]) for role, name in FILES.items() if options.get(name)}
    if not options.get(WORKER):
        if options.get(CONNECTOR):
            raise QueryError(f"{CONNECTOR} {options[CONNECTOR]}: give {WORKER} too, the URL of its worker")
        return link_of_files(given, options.get(ALIAS), isolation=isolation)
    rest = Worker(options[WORKER], _login(options.get(USER)))
    name = options.get(CONNECTOR) or only_source(source_configs(rest.get(STATUSES)), options[WORKER])
    config = rest.get(f"/connectors/{quote(name, safe='')}/config")
    if not isinstance(config, Mapping):
        raise QueryError(f"the worker at {options[WORKER]} has no connector {name}")
    return link_of_config(
        name,
        {str(key): str(value) for key, value in config.items()},
        given,
        rest=rest,
        isolation=isolation,
    )


def isolation_of(text: str | None) -> str | None:
    """The isolation level that an option names. QueryError."""
    if text is not None and text not in (READ_COMMITTED, READ_UNCOMMITTED):
        raise QueryError(f"{ISOLATION} {text}: give {READ_COMMITTED} or {READ_UNCOMMITTED}")
    return text


def properties_in(role: str, path: str) -> dict[str, str]:
    """The client properties in a file. QueryError."""
    try:
        return read_properties(path, what=f"the {role} cluster's properties")
    except ConfigError as error:
        raise QueryError(str(error)) from None


def source_configs(listed: Any) -> dict[str, Mapping[str, str]]:
    """The configs of the MirrorSourceConnectors in an answer to STATUSES."""
    found = {}
    for name, entry in listed.items() if isinstance(listed, Mapping) else ():
        config = entry.get("info", {}).get("config", {})
        if config.get("connector.class") in _SOURCE_CLASSES:
            found[name] = config
    return found


def only_source(configs: Mapping[str, Mapping[str, str]], url: str, option: str = CONNECTOR) -> str:
    """The name of the worker's one MirrorSourceConnector. QueryError if there are none, or several.

    `option`: the one that names a connector.
    """
    if len(configs) == 1:
        return next(iter(configs))
    if not configs:
        raise QueryError(f"the worker at {url} has no MirrorSourceConnector: name the clusters by their properties")
    names = sorted(configs)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    raise QueryError(
        f"the worker at {url} has {len(names)} MirrorSourceConnectors: "
        f"name one of {', '.join(names[:_SHOWN])}{more} by {option}"
    )


def _with_isolation(consumer: Mapping[str, str], isolation: str | None) -> dict[str, str]:
    return {**consumer, **({} if isolation is None else {ISOLATION: isolation})}


def _login(user: str | None) -> tuple[str, str] | None:
    if not user:
        return None
    from mirror_connect.check.command_line import PASSWORD  # noqa: PLC0415 — it imports what commands alone need

    if PASSWORD not in os.environ:
        raise QueryError(f"there is no password of {user}: set {PASSWORD} before Spark starts")
    return user, os.environ[PASSWORD]
