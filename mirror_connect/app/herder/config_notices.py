"""Warnings for valid connector configs with settings that have no effect, or another effect than expected; logged once."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.herder.client_properties import PREFIXES, split
from mirror_connect.connectors import DEFINITIONS
from mirror_connect.connectors.config.alias_settings import idle_alias_settings, unused_predicates
from mirror_connect.connectors.config.converter_settings import unapplied_converters
from mirror_connect.connectors.config.security_settings import CLUSTER_CLIENT_NAMES
from mirror_connect.connectors.definition import ConnectorDefinition
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS
from mirror_connect.connectors.mirror.lookups import LOOKUP
from mirror_connect.connectors.mirror.transform_sql import SECRET as SECRET_OF_SQL
from mirror_connect.connectors.mirror.transforms import json_parts
from mirror_connect.connectors.secrets import redact
from mirror_connect.connectors.wording import unknown_names_line
from mirror_connect.kafka_io.client.client_keys import CLIENT_NAMES

log = logging.getLogger(__name__)

# Settings of all three MirrorMaker connectors: people use one file for all of them.
_OF_MIRROR_MAKER: Final = frozenset(
    {
        "use.defaults.from",
        *(name for definition in DEFINITIONS for name in definition.own_keys.keys),
        *(name for definition in DEFINITIONS for name in definition.validation_order.keys),
    }
)
# Connectors write these into task configs, so configs that were copied from there have them.
_OF_TASKS: Final = frozenset(
    {"task.class", "task.index", ASSIGNED_PARTITIONS, "task.assigned.groups", "task.assigned.groups.json"}
)
# Other tables check what follows these.
_OPEN: Final = (
    "config.providers.",
    "header.converter.",
    "key.converter.",
    "metrics.context.",
    "predicates.",
    LOOKUP,
    SECRET_OF_SQL,
    "topic.creation.",
    "transforms.",
    "value.converter.",
)
# Settings of transactions, with the value that means the same as none.
_OF_TRANSACTIONS: Final[Mapping[str, str]] = {"transaction.boundary": "poll", "transaction.boundary.interval.ms": ""}
KNOWN_NAMES: Final = (
    *sorted(_OF_MIRROR_MAKER),
    *sorted(f"{prefix}{name}" for prefix, table in PREFIXES.items() for name in table.keys),
)


def names_without_effect(config: Iterable[str]) -> tuple[list[str], list[str]]:
    """The names that nobody reads: unknown ones, and client properties behind a prefix that does not take them."""
    unknown: list[str] = []
    misplaced: list[str] = []
    for name in config:
        if name in _OF_MIRROR_MAKER or name in _OF_TASKS or name.startswith(_OPEN):
            continue
        parts = split(name)
        if parts is not None and parts[1] in PREFIXES[parts[0]].keys:
            continue
        (misplaced if parts is not None and parts[1] in CLIENT_NAMES else unknown).append(name)
    return unknown, misplaced


def idle_transaction_settings(config: Mapping[str, str | None], support: Support) -> list[str]:
    """The names of the settings that have no effect, as the worker's tasks don't write in transactions."""
    if support is Support.ENABLED:
        return []
    return sorted(name for name, default in _OF_TRANSACTIONS.items() if _differs(config.get(name), default))


def _differs(value: str | None, default: str) -> bool:
    return value is not None and value.strip().lower() != default


class ConfigNotices:
    """Logs each line once for a connector, however often its config is written or started, until the lines change.

    `offsets_topic` is the worker's, empty if it has a file. `converters`: the worker's, by their settings, for
    connectors that name none.
    `derived`: configs are derived from an mm2.properties file, by which each name has been checked. They have names that
    nobody reads and nobody wrote, such as `source.cluster.offset.flush.interval.ms`. `exactly_once`: the worker's.
    """

    def __init__(
        self,
        offsets_topic: str = "",
        converters: Mapping[str, str] = MappingProxyType({}),
        *,
        derived: bool = False,
        exactly_once: Support = Support.DISABLED,
    ) -> None:
        self._derived = derived
        self._exactly_once = exactly_once
        self._offsets_topic = offsets_topic
        self._converters = converters
        self._logged: dict[str, frozenset[str]] = {}

    def log_once(
        self,
        name: str,
        definition: ConnectorDefinition,
        config: Mapping[str, str],
        as_written: Mapping[str, str | None],
    ) -> None:
        """Checks a resolved config, in any thread. Values from config providers are not shown."""
        provided = {value for setting, value in config.items() if value != as_written.get(setting)}
        # In a file, a login at the top level is one of all clusters.
        own = {each: config[each] for each in config if not self._derived or each not in CLUSTER_CLIENT_NAMES}
        found = [*definition.warnings(own), *self._lines(config)]
        lines = dict.fromkeys(redact(line, provided) for line in found)
        for line in lines:
            if line not in self._logged.get(name, ()):
                log.warning("Connector %s: %s", ConnectorName(name), line)
        self._logged[name] = frozenset(lines)

    def _lines(self, config: Mapping[str, str]) -> Iterator[str]:
        unapplied = unapplied_converters(config, self._converters, json_parts(config))
        if unapplied is not None:
            yield unapplied
        if (topic := config.get("offsets.storage.topic")) is not None and not self._offsets_topic:
            yield f"offsets.storage.topic={topic} is not used: a standalone worker keeps source offsets in its offset file"
        if idle := idle_transaction_settings(config, self._exactly_once):
            yield f"Without effect, as this worker has no exactly.once.source.support=enabled: {', '.join(idle)}"
        unknown, misplaced = names_without_effect(() if self._derived else config)
        idle_of_aliases, of_aliases = idle_alias_settings(config)
        line = unknown_names_line([*unknown, *idle_of_aliases], (*KNOWN_NAMES, *of_aliases), "properties")
        if line is not None:
            yield line
        if unused := unused_predicates(config):
            yield f"Without effect, as no transformation of transforms names them: predicates {', '.join(unused)}"
        if misplaced:
            yield (
                f"Without effect, as their prefix does not take them: {', '.join(sorted(misplaced))} (source.cluster.* and "
                "target.cluster.* take only bootstrap.servers, security.protocol, ssl.* and sasl.*; others need "
                "source.consumer.*, target.producer.* …)"
            )
