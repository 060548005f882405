"""The settings that every kind of worker has: REST, clients, connectors' rights, Spark. Checked once at the start."""

from __future__ import annotations

import logging
import re
import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal

from mirror_connect.app.config.allowed_paths import LookupPaths, existing_paths
from mirror_connect.app.config.config_providers import Resolved, Resolver
from mirror_connect.app.config.cross_origins import CrossOrigins
from mirror_connect.app.config.exposed_providers import exposed_providers_line
from mirror_connect.app.config.listener_tls import (
    ADMIN_PREFIX,
    LISTENER_TLS_KEYS,
    MAIN_PREFIX,
    client_context,
    listener_context,
)
from mirror_connect.app.config.listeners import Listener, advertised, parse_listeners, worker_id
from mirror_connect.app.config.metrics_settings import MetricsSettings, metrics_settings
from mirror_connect.app.config.response_headers import HeaderRule, header_rules
from mirror_connect.app.config.spark_security import secured
from mirror_connect.app.config.task_listener import TaskListener, task_listener
from mirror_connect.app.config.worker_keys import KNOWN_PREFIXES, WORKER_KEYS
from mirror_connect.connectors.config.converter_settings import CONVERTER_SETTINGS
from mirror_connect.connectors.config.table import ConfigTable, RefusedConfig, Settings
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.lookups import ALLOWED_PATHS
from mirror_connect.connectors.mirror.transform_sql import OF_WORKERS, is_of_connectors
from mirror_connect.connectors.spark_masters import problem_of
from mirror_connect.connectors.user_code.user_function import ALLOWED_SETTING
from mirror_connect.connectors.wording import unknown_names_line
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS, CLIENT_NAMES, prefixed
from mirror_connect.kafka_io.client.client_settings import librdkafka_config

log = logging.getLogger(__name__)

Kind = Literal["consumer", "producer", "admin"]

_POLICIES: Final = ("All", "None", "Principal", "Allowlist")
# Settings that mean one thing for a worker and another for a client.
_NOT_OF_CLIENTS: Final = frozenset({"group.id", "session.timeout.ms", "heartbeat.interval.ms", "config.providers"})


@dataclass(frozen=True, slots=True)
class CommonConfig:
    """Typed worker settings, but for where its state is. `repr` shows no value that may be secret.

    `admin_listeners`: None for those of `listeners`, empty for none. `tls`, `admin_tls`: None without https listeners.
    """

    bootstrap_servers: str
    listeners: tuple[Listener, ...]
    admin_listeners: tuple[Listener, ...] | None
    tls: ssl.SSLContext | None
    admin_tls: ssl.SSLContext | None
    rest_advertised_host_name: str | None
    rest_advertised_port: int | None
    rest_advertised_listener: str | None
    rest_extension_classes: tuple[str, ...]
    rest_docs_enabled: bool
    rest_read_only: bool
    rest_ui_enabled: bool
    metrics: MetricsSettings
    cross_origins: CrossOrigins | None
    response_headers: tuple[HeaderRule, ...]
    offset_flush_interval_ms: int
    offset_flush_timeout_ms: int
    task_shutdown_graceful_timeout_ms: int
    topic_tracking_enable: bool
    topic_tracking_allow_reset: bool
    override_policy: str
    override_allowlist: tuple[str, ...]
    client_id: str
    plugin_path: tuple[str, ...]
    plugin_modules: tuple[str, ...]
    allowed_functions: tuple[str, ...]
    lookup_paths: LookupPaths
    log_format: str
    task_listener: TaskListener
    spark: Mapping[str, str] = field(repr=False)
    resolver: Resolver = field(repr=False)
    resolved: Resolved = field(repr=False)

    @property
    def offset_topic(self) -> str:
        """Name of the topic of source offsets; empty if they are in no topic."""
        return ""

    def internal_topics(self, *, own_cluster: bool) -> frozenset[str]:
        """The worker's topics on its own cluster, or on another one that a connector writes to: no copy may lead there."""
        del own_cluster
        return frozenset()

    @property
    def converters(self) -> dict[str, str]:
        """The converters that the properties name, by their settings."""
        values = self.resolved.values
        return {name: values[name] for name in CONVERTER_SETTINGS if values.get(name)}

    def advertised_url(self, bound_ports: Sequence[int] = ()) -> Listener:
        """The address that other workers use; `bound_ports`: the ports that the listeners got, in their order."""
        return advertised(
            self.listeners,
            bound_ports=bound_ports,
            scheme=self.rest_advertised_listener,
            host=self.rest_advertised_host_name,
            port=self.rest_advertised_port,
        )

    def worker_id(self, bound_ports: Sequence[int] = ()) -> str:
        """`host:port` of the advertised address, the worker's name in statuses."""
        return worker_id(self.advertised_url(bound_ports))

    def client_tls(self) -> ssl.SSLContext:
        """For requests to https listeners of other workers. Reads key stores; ConfigError."""
        return client_context(self.resolved.values)

    def own_client(self) -> dict[str, str]:
        """Java client properties for the clients of the internal topics and the group: top-level settings only.

        As in Connect, `producer.*`, `consumer.*` and `admin.*` do not apply to them.
        """
        return self._top_level()

    def client(self, kind: Kind) -> dict[str, str]:
        """Java client properties for connectors' clients on the worker's cluster: `<kind>.*` over top-level settings.

        Connect passes only bootstrap.servers on, and fails if the cluster needs a login that only the top level has.
        Taking the login as well changes nothing for configs that work. `<kind>.bootstrap.servers` may name another cluster,
        which must not get the logins of the top level.
        """
        own = _with_prefix(self.resolved.values, f"{kind}.")
        base = self._top_level()
        if "bootstrap.servers" in own:
            base = {name: value for name, value in base.items() if not name.startswith(("sasl.", "ssl.", "security."))}
        return {**base, **own}

    def _top_level(self) -> dict[str, str]:
        values = self.resolved.values
        return {name: value for name, value in values.items() if name in CLIENT_NAMES and name not in _NOT_OF_CLIENTS}


def checked(resolved: Resolved, table: ConfigTable) -> Settings:
    """Parsed settings of a worker's table, also of its connectors' clients. ConfigError for the first one refused."""
    for result in table.validate_all(resolved.values, resolved.as_written).values():
        if result.errors:
            raise RefusedConfig(result.name, result.errors[0])
    _check_clients(resolved)
    settings = table.parse_all(resolved.values)
    master = settings.text("spark.master")
    if (problem := problem_of(master)) is not None:
        raise ConfigError("spark.master", master, problem)
    return settings


def common_config(settings: Settings, resolver: Resolver, resolved: Resolved) -> CommonConfig:
    """From checked settings. ConfigError for listeners, key stores, logins and paths, which are looked at here."""
    listeners = parse_listeners("listeners", settings.texts("listeners"))
    admin_listeners = _admin_listeners(settings)
    config = CommonConfig(
        bootstrap_servers=",".join(settings.texts("bootstrap.servers")),
        listeners=listeners,
        admin_listeners=admin_listeners,
        tls=_tls(listeners, resolved, MAIN_PREFIX),
        admin_tls=_tls(admin_listeners or (), resolved, ADMIN_PREFIX),
        rest_advertised_host_name=settings["rest.advertised.host.name"] or None,
        rest_advertised_port=settings["rest.advertised.port"],
        rest_advertised_listener=_advertised_scheme(settings),
        rest_extension_classes=tuple(settings.texts("rest.extension.classes")),
        rest_docs_enabled=settings.boolean("rest.docs.enabled"),
        rest_read_only=settings.boolean("rest.read.only"),
        rest_ui_enabled=settings.boolean("rest.ui.enabled"),
        log_format=settings.text("log.format"),
        metrics=metrics_settings(settings),
        cross_origins=CrossOrigins.of(
            settings.text("access.control.allow.origin"), settings.text("access.control.allow.methods")
        ),
        response_headers=header_rules(settings.text("response.http.headers.config")),
        offset_flush_interval_ms=settings.integer("offset.flush.interval.ms"),
        offset_flush_timeout_ms=settings.integer("offset.flush.timeout.ms"),
        task_shutdown_graceful_timeout_ms=settings.integer("task.shutdown.graceful.timeout.ms"),
        topic_tracking_enable=settings.boolean("topic.tracking.enable"),
        topic_tracking_allow_reset=settings.boolean("topic.tracking.allow.reset"),
        override_policy=_policy(settings),
        override_allowlist=tuple(settings.texts("connector.client.config.override.allowlist")),
        client_id=settings.text("client.id"),
        plugin_path=tuple(settings["plugin.path"] or ()),
        plugin_modules=tuple(settings.texts("plugin.modules")),
        allowed_functions=tuple(settings.texts(ALLOWED_SETTING)),
        lookup_paths=LookupPaths(existing_paths(ALLOWED_PATHS, settings.texts(ALLOWED_PATHS))),
        task_listener=task_listener(settings),
        spark=_spark(settings),
        resolver=resolver,
        resolved=resolved,
    )
    config.advertised_url()
    return config


def members(config: CommonConfig) -> dict[str, Any]:
    """What a config of one kind of worker takes over."""
    return {each.name: getattr(config, each.name) for each in fields(CommonConfig)}


def quoting_references(error: ConfigError, resolved: Resolved) -> ConfigError:
    """The error without a value that a provider gave, which may be a secret: it quotes the reference instead."""
    value = resolved.values.get(error.name)
    if not value or not resolved.referenced(error.name):
        return error
    return RefusedConfig(error.name, str(error).replace(value, resolved.as_written[error.name]))


@contextmanager
def naming_file(path: str | Path) -> Iterator[None]:
    """Puts the worker's file before the text of each ConfigError: a process may have been given several files."""
    try:
        yield
    except ConfigError as error:
        raise RefusedConfig(error.name, f"{path}: {error}") from None


def check_own_client(config: CommonConfig) -> None:
    """ConfigError if the client settings at the top level can't be used."""
    librdkafka_config(config.own_client(), "admin")


def warn_of_exposed_providers(config: CommonConfig) -> None:
    """If anyone who reaches REST may read what config providers give, the log says so."""
    certificates = config.tls is not None and config.tls.verify_mode == ssl.CERT_REQUIRED
    login = bool(config.rest_extension_classes)
    line = exposed_providers_line(config.resolved.values, config.listeners, login=login, certificates=certificates)
    if line is not None:
        log.warning(line)


def _admin_listeners(settings: Settings) -> tuple[Listener, ...] | None:
    urls: Any = settings["admin.listeners"]
    return None if urls is None else parse_listeners("admin.listeners", urls)


def _tls(listeners: Sequence[Listener], resolved: Resolved, prefix: str) -> ssl.SSLContext | None:
    return listener_context(resolved.values, prefix) if any(each.scheme == "https" for each in listeners) else None


def _advertised_scheme(settings: Settings) -> str | None:
    scheme: str | None = settings["rest.advertised.listener"]
    return scheme.lower() if scheme else None


def policy_alias(given: str) -> str | None:
    """Of an override policy, from an alias or a class name; None for others.

    `None` is the alias of org.apache.kafka…NoneConnectorClientConfigOverridePolicy, too.
    """
    simple = given.rsplit(".", 1)[-1].removesuffix("ConnectorClientConfigOverridePolicy")
    return simple if simple in _POLICIES else None


def _policy(settings: Settings) -> str:
    given = settings.text("connector.client.config.override.policy")
    simple = policy_alias(given)
    if simple is None:
        problem = f"it has to be one of {', '.join(_POLICIES)}"
        raise ConfigError("connector.client.config.override.policy", given, problem)
    return simple


def _spark(settings: Settings) -> dict[str, str]:
    given = {
        name: value
        for name, value in settings.originals.items()
        if name.startswith("spark.") and not is_of_connectors(name) and name not in OF_WORKERS
    }
    return secured({"spark.master": settings.text("spark.master")} | given)


def unknown_properties(names: Iterable[str]) -> list[str]:
    """The names of a worker's properties that nobody reads."""
    kinds = tuple(f"{kind}." for kind in CLIENT_KEYS)
    return [
        name
        for name in names
        if name not in WORKER_KEYS and name not in CLIENT_NAMES and _unknown_behind_prefix(name, kinds)
    ]


def known_properties() -> list[str]:
    """All names that a worker's properties may have, but for open prefixes."""
    known = [
        *WORKER_KEYS.keys,
        *CLIENT_NAMES,
        *(f"{kind}.{name}" for kind in CLIENT_KEYS for name in sorted(CLIENT_NAMES)),
    ]
    return known + [f"{prefix}{name}" for prefix in (MAIN_PREFIX, ADMIN_PREFIX) for name in LISTENER_TLS_KEYS.keys]


def warn_of_unknown(values: Mapping[str, str]) -> None:
    """Names the properties that nobody reads in one line of the log."""
    line = unknown_names_line(unknown_properties(values), known_properties(), "worker properties")
    if line is not None:
        log.warning(line)


def _unknown_behind_prefix(name: str, kinds: tuple[str, ...]) -> bool:
    for prefix in (MAIN_PREFIX, ADMIN_PREFIX):
        if name.startswith(prefix):
            return name.removeprefix(prefix) not in LISTENER_TLS_KEYS
    return name.partition(".")[2] not in CLIENT_NAMES if name.startswith(kinds) else not name.startswith(KNOWN_PREFIXES)


def _check_clients(resolved: Resolved) -> None:
    """Checks `producer.*`, `consumer.*` and `admin.*` by the clients' own definitions; errors use the names in the file."""
    for kind, table in CLIENT_KEYS.items():
        prefix = f"{kind}."
        keys = prefixed(prefix, table, _with_prefix(resolved.values, prefix))
        given = {name: resolved.values[name] for name in keys.keys}
        for result in keys.validate_all(given, resolved.as_written).values():
            if result.errors:
                raise RefusedConfig(result.name, result.errors[0])


def _with_prefix(values: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {
        re.sub(f"^{re.escape(prefix)}", "", name): value for name, value in values.items() if name.startswith(prefix)
    }
