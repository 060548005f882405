"""The settings of a worker of distributed mode: read from its properties file, checked once at the start."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

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
from mirror_connect.app.config.exactly_once import SUPPORT, Support
from mirror_connect.app.config.inter_worker import InterWorker
from mirror_connect.app.config.properties import read_properties
from mirror_connect.app.config.worker_keys import WORKER_KEYS, likely_storage_name
from mirror_connect.connectors.config.table import Settings
from mirror_connect.connectors.errors import ConfigError

log = logging.getLogger(__name__)

Storage = Literal["config", "offset", "status"]
# A worker can read its topics only if they have its own values.
_FIXED: Final = ("config.storage.partitions", *(f"{kind}.storage.cleanup.policy" for kind in get_args(Storage)))


@dataclass(frozen=True, slots=True)
class StorageTopic:
    """How to create an internal topic: -1 for the broker's default; `configs` from `<kind>.storage.*`."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class WorkerConfig(CommonConfig):
    """With the group, and the topics of its state."""

    group_id: str
    config_storage: StorageTopic
    offset_storage: StorageTopic
    status_storage: StorageTopic
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    inter_worker: InterWorker
    sync_timeout_ms: int
    unsync_backoff_ms: int
    rebalance_delay_ms: int = 0
    exactly_once: Support = Support.DISABLED

    @property
    def config_topic(self) -> str:
        """Name of the topic of connector configs."""
        return self.config_storage.name

    @property
    def offset_topic(self) -> str:
        """Name of the topic of source offsets."""
        return self.offset_storage.name

    @property
    def status_topic(self) -> str:
        """Name of the topic of states."""
        return self.status_storage.name

    def internal_topics(self, *, own_cluster: bool) -> frozenset[str]:
        """See CommonConfig. On another cluster: the offset topic of connectors that write there."""
        if not own_cluster:
            return frozenset({self.offset_topic})
        return frozenset({self.config_topic, self.offset_topic, self.status_topic})


def load_worker_config(path: str | Path, environment: Mapping[str, str] | None = None) -> WorkerConfig:
    """From a properties file. ConfigError with one line: unreadable file, wrong or missing setting."""
    properties = read_properties(path, what="the worker's properties file")
    with naming_file(path):
        return worker_config(properties, environment)


def worker_config(
    properties: Mapping[str, str], environment: Mapping[str, str] | None = None, *, warnings: bool = True
) -> WorkerConfig:
    """From properties as written, with references to config providers. ConfigError names the setting.

    Key stores and logins are read and checked here too, so that a wrong one ends the start. `warnings`: whether doubtful
    settings are logged.
    """
    resolver, resolved = resolve_own(properties, environment, warnings=warnings)
    try:
        return _checked(resolver, resolved, warnings=warnings)
    except ConfigError as error:
        raise quoting_references(error, resolved) from None


def checked_settings(resolved: Resolved) -> Settings:
    """Parsed worker settings, also of its connectors' clients. ConfigError for the first one that is refused."""
    settings = checked(resolved, WORKER_KEYS)
    _refuse_unsupported(settings)
    return settings


def _checked(resolver: Resolver, resolved: Resolved, *, warnings: bool) -> WorkerConfig:
    settings = checked_settings(resolved)
    if warnings:
        warn_of_unknown(resolved.values)
    config = WorkerConfig(
        **members(common_config(settings, resolver, resolved)),
        group_id=settings.text("group.id"),
        config_storage=_storage(settings, "config"),
        offset_storage=_storage(settings, "offset"),
        status_storage=_storage(settings, "status"),
        session_timeout_ms=settings.integer("session.timeout.ms"),
        heartbeat_interval_ms=settings.integer("heartbeat.interval.ms"),
        rebalance_timeout_ms=settings.integer("rebalance.timeout.ms"),
        sync_timeout_ms=settings.integer("worker.sync.timeout.ms"),
        unsync_backoff_ms=settings.integer("worker.unsync.backoff.ms"),
        rebalance_delay_ms=settings.integer("scheduled.rebalance.max.delay.ms"),
        exactly_once=Support(settings.text(SUPPORT).lower()),
        inter_worker=InterWorker.of(settings),
    )
    if warnings:
        for name in storage_fixed(resolved.values):
            log.warning("%s has no effect: the worker needs its own value", name)
        for name in sorted(resolved.values):
            if (likely := likely_storage_name(name)) is not None:
                log.warning("%s is taken for a setting of the topic: did you mean %s?", name, likely)
        warn_of_exposed_providers(config)
    check_own_client(config)
    return config


def storage_fixed(properties: Iterable[str]) -> list[str]:
    """The properties of internal topics that have no effect. `properties`: names."""
    return [name for name in properties if name in _FIXED]


def _storage(settings: Settings, kind: Storage) -> StorageTopic:
    prefix = f"{kind}.storage."
    # All others become configs of the topic if the worker creates it (KIP-605).
    own = {f"{prefix}{name}" for name in ("topic", "partitions", "replication.factor")}
    configs = {
        name.removeprefix(prefix): value
        for name, value in settings.originals.items()
        if name.startswith(prefix) and name not in own
    }
    for fixed in _FIXED:
        configs.pop(fixed.removeprefix(prefix), None)
    partitions = 1 if kind == "config" else settings.integer(f"{prefix}partitions")
    return StorageTopic(
        settings.text(f"{prefix}topic"), partitions, settings.integer(f"{prefix}replication.factor"), configs
    )


def _refuse_unsupported(settings: Settings) -> None:
    session, heartbeat = settings.integer("session.timeout.ms"), settings.integer("heartbeat.interval.ms")
    if heartbeat >= session:
        problem = f"it has to be lower than session.timeout.ms ({session}), a third of it as a rule"
        raise ConfigError("heartbeat.interval.ms", str(heartbeat), problem)
    for name in ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic"):
        if not settings.text(name):
            raise ConfigError(name, "", "it must not be empty")
    topics = [settings.text(f"{kind}.storage.topic") for kind in ("config", "offset", "status")]
    if len(set(topics)) < len(topics):
        raise ConfigError("config.storage.topic", topics[0], "the three storage topics have to be different ones")
