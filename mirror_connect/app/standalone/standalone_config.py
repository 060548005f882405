"""The settings of a standalone worker: those of Connect's StandaloneConfig."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mirror_connect.app.config.common_config import (
    CommonConfig,
    check_own_client,
    checked,
    common_config,
    members,
    naming_file,
    quoting_references,
    warn_of_exposed_providers,
    warn_of_unknown,
)
from mirror_connect.app.config.config_providers import Resolved, Resolver, resolve_own
from mirror_connect.app.config.properties import read_properties
from mirror_connect.app.config.worker_keys import OFFSETS_FILE, STANDALONE_KEYS, is_of_groups
from mirror_connect.connectors.config.table import RefusedConfig
from mirror_connect.connectors.errors import ConfigError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StandaloneConfig(CommonConfig):
    """With the file of source offsets."""

    offsets_file: str


def load_standalone_config(path: str | Path, environment: Mapping[str, str] | None = None) -> StandaloneConfig:
    """From a properties file. ConfigError with one line: unreadable file, wrong or missing setting."""
    properties = read_properties(path, what="the worker's properties file")
    if OFFSETS_FILE not in properties and _is_of_a_connector(properties):
        raise RefusedConfig(
            OFFSETS_FILE,
            f"{path} is a connector's file, and the worker's file comes first: "
            "connect-standalone.sh WORKER-FILE CONNECTOR-FILE …",
        )
    with naming_file(path):
        return standalone_config(properties, environment)


def _is_of_a_connector(properties: Mapping[str, str]) -> bool:
    # As properties, JSON has names that begin with its braces.
    return "connector.class" in properties or next(iter(properties), "").startswith("{")


def standalone_config(
    properties: Mapping[str, str], environment: Mapping[str, str] | None = None, *, warnings: bool = True
) -> StandaloneConfig:
    """From properties as written, as worker_config does for a worker of a group. ConfigError names the setting."""
    resolver, resolved = resolve_own(properties, environment)
    try:
        return _checked(resolver, resolved, warnings=warnings)
    except ConfigError as error:
        raise quoting_references(error, resolved) from None


def _checked(resolver: Resolver, resolved: Resolved, *, warnings: bool) -> StandaloneConfig:
    settings = checked(resolved, STANDALONE_KEYS)
    path = settings.text(OFFSETS_FILE)
    if not path:
        raise ConfigError(OFFSETS_FILE, "", "it must not be empty")
    config = StandaloneConfig(**members(common_config(settings, resolver, resolved)), offsets_file=path)
    if warnings:
        idle = sorted(filter(is_of_groups, resolved.values))
        if idle:
            log.warning("Without effect, as a standalone worker has no group and no topics: %s", ", ".join(idle))
        warn_of_unknown({name: value for name, value in resolved.values.items() if not is_of_groups(name)})
        warn_of_exposed_providers(config)
    check_own_client(config)
    return config
