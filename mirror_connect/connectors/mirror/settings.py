"""The settings that the three mirror connectors share, and the client properties from prefixed settings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, Literal

from mirror_connect.connectors.config.framework_settings import CONNECTOR_KEYS
from mirror_connect.connectors.config.security_settings import (
    CLUSTER_CLIENT_NAMES,
    SASL_KEYS,
    SECURITY_PROTOCOL_KEY,
    TLS_KEYS,
)
from mirror_connect.connectors.config.table import (
    BOOLEAN,
    CLASS,
    HIGH,
    LIST,
    LONG,
    LOW,
    REQUIRED,
    STRING,
    ConfigTable,
    Key,
    Settings,
)
from mirror_connect.connectors.config.validators import distinct, stands_for
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.user_code.known_classes import (
    DEFAULT_POLICY,
    FORWARDING_ADMIN,
    IDENTITY_POLICY,
    JMX_REPORTER,
)
from mirror_connect.connectors.user_code.user_class import name_problem

Side = Literal["source", "target"]
Kind = Literal["consumer", "producer", "admin"]
PRODUCER_OVERRIDE: Final = "producer.override."


def _no_forwarding(_: str) -> str:
    return (
        f"Only {FORWARDING_ADMIN} is possible: clusters are administered without Java, so another class would not be "
        "called. Leave it out."
    )


# fmt: off
MIRROR_KEYS: Final = ConfigTable(
    Key("enabled", BOOLEAN, True, LOW, "false: the connector makes no tasks and does no work on topics."),
    Key("source.cluster.alias", STRING, REQUIRED, HIGH,
        "Short name of the source cluster: prefix of remote topics, part of source offsets and metrics."),
    Key("target.cluster.alias", STRING, "target", HIGH,
        "Short name of the target cluster: detects cycles, names the offset-syncs topic, part of metrics."),
    Key("admin.timeout.ms", LONG, 60000, LOW, "The longest time for each administrative step, in milliseconds."),
    Key("replication.policy.class", CLASS, DEFAULT_POLICY, LOW,
        "The class that names remote topics; also python:package.module:Class.", validator=stands_for("ReplicationPolicy"),
        foreign=partial(name_problem, interface="ReplicationPolicy")),
    Key("replication.policy.separator", STRING, ".", LOW, "The text between alias and topic in the name of a remote topic."),
    Key("replication.policy.internal.topic.separator.enabled", BOOLEAN, True, LOW,
        "Whether replication.policy.separator is used in the names of checkpoints and offset-syncs topics, too."),
    Key("forwarding.admin.class", CLASS, FORWARDING_ADMIN, LOW,
        "Class through which a Java worker administers clusters: Kafka's own and no other.",
        validator=stands_for("ForwardingAdmin"), foreign=_no_forwarding),
    Key("metric.reporters", LIST, [JMX_REPORTER], LOW, "Metric reporters of a Java worker.", validator=distinct()),
    SECURITY_PROTOCOL_KEY,
    Key("config.providers", LIST, [], LOW, "Aliases of config providers, handed down by the dedicated mode.",
        validator=distinct()),
    *TLS_KEYS,
    *SASL_KEYS,
)

# Defined for every mirror connector; without a prefix no client reads them.
_SECURITY_NAMES: Final = frozenset(key.name for key in (SECURITY_PROTOCOL_KEY, *TLS_KEYS, *SASL_KEYS))

# Java adds this key after a connector's own keys, for all connectors with metrics.
METRIC_NAMES_KEY: Final = Key(
    "metric.names.formats", LIST, ["legacy"], LOW,
    "Deprecated. Which names of MirrorMaker's own metrics there are: legacy, new or both.",
    validator=distinct("legacy", "new", empty=False))
# fmt: on


def admin_timeout_s(settings: Settings) -> float:
    """`admin.timeout.ms` in seconds."""
    return settings.integer("admin.timeout.ms") / 1000


def client_properties(config: Mapping[str, str], side: Side, kind: Kind) -> dict[str, str]:
    """Java client properties of one client, by MirrorMaker's precedence (MirrorConnectorConfig), later ones winning:

    `<side>.cluster.<p>` for bootstrap.servers, security.protocol, ssl.*, sasl.* only; `<kind>.<p>`; `<side>.<kind>.<p>`.
    """
    cluster = _with_prefix(config, f"{side}.cluster.")
    properties = {name: value for name, value in cluster.items() if name in CLUSTER_CLIENT_NAMES}
    properties |= _with_prefix(config, f"{kind}.")
    if kind == "producer":
        # producer.override.* is Connect's, for the producer of the data, and no property `override.…`.
        properties = {name: value for name, value in properties.items() if not name.startswith("override.")}
    properties.pop("poll.timeout.ms", None)  # from consumer.poll.timeout.ms, a setting of the connector
    return properties | _with_prefix(config, f"{side}.{kind}.")


def source_consumer(config: Mapping[str, str]) -> dict[str, str]:
    """Properties of the client that reads the source. It never commits, and by default begins at the earliest offset."""
    properties = client_properties(config, "source", "consumer")
    return {"auto.offset.reset": "earliest", **properties, "enable.auto.commit": "false"}


def target_consumer(config: Mapping[str, str]) -> dict[str, str]:
    """Properties of a client that reads from the target (checkpoints, offset-syncs stored there)."""
    properties = client_properties(config, "target", "consumer")
    return {"auto.offset.reset": "earliest", **properties, "enable.auto.commit": "false"}


def source_producer(config: Mapping[str, str]) -> dict[str, str]:
    """Properties of the client that writes to the source (offset-syncs stored there)."""
    return client_properties(config, "source", "producer")


def target_producer(config: Mapping[str, str]) -> dict[str, str]:
    """Properties of `target.producer.*`; the data's producer is the worker's with `producer_overrides`, as in Java."""
    return client_properties(config, "target", "producer")


def source_admin(config: Mapping[str, str]) -> dict[str, str]:
    """Properties of the client that administers the source."""
    return client_properties(config, "source", "admin")


def target_admin(config: Mapping[str, str]) -> dict[str, str]:
    """Properties of the client that administers the target."""
    return client_properties(config, "target", "admin")


def producer_overrides(config: Mapping[str, str]) -> dict[str, str]:
    """`producer.override.*` without the prefix: for the producer of the data, over the worker's `producer.*`."""
    return _with_prefix(config, PRODUCER_OVERRIDE)


def client_id(config: Mapping[str, str], role: str, task: int | None = None, configured: str | None = None) -> str:
    """`A->B|connector[-task]|role`, after the client.id of the config if there is one."""
    aliases = f"{config.get('source.cluster.alias')}->{config.get('target.cluster.alias', 'target')}"
    name = config.get("name", "") if task is None else f"{config.get('name', '')}-{task}"
    return "|".join(filter(None, (configured, aliases, name, role)))


def mirror_warnings(config: Mapping[str, str], *, converts: bool = False) -> list[str]:
    """Lines about settings that have no effect, or another one than their author may expect.

    `converts`: whether there are records that can't be transformed.
    """
    lines = []
    errors = sorted(name for name in config if name in CONNECTOR_KEYS and name.startswith("errors."))
    unused = [name for name in errors if not converts or name.startswith("errors.retry.")]
    if unused:
        why = "a transformation is not tried again" if converts else "batches are copied without conversion"
        lines.append(f"{', '.join(unused)}: no effect, because {why}")
    if "topic.creation.groups" in config or any(name.startswith("topic.creation.") for name in config):
        lines.append("topic.creation.*: no effect, because remote topics are created like their sources")
    unprefixed = sorted(name for name in config if name in _SECURITY_NAMES)
    if unprefixed:
        lines.append(
            f"{', '.join(unprefixed)}: no effect on any client, as in MirrorMaker 2. Give client settings the prefix "
            f"source.cluster. or target.cluster., such as source.cluster.{unprefixed[0]}"
        )
    return lines + _same_alias(config)


def required_source_admin(config: Mapping[str, str]) -> dict[str, str]:
    """source_admin. Without brokers, ConfigError with the name of the connector's setting."""
    properties = source_admin(config)
    if not properties.get("bootstrap.servers", "").strip():
        # Connect also accepts such a config and fails the connector at its start, but without the setting's name.
        name = "source.cluster.bootstrap.servers"
        raise ConfigError(
            name, None, "No bootstrap urls given in bootstrap.servers; name brokers of the source cluster"
        )
    return properties


def _same_alias(config: Mapping[str, str]) -> list[str]:
    alias = config.get("source.cluster.alias")
    if alias is None or alias != config.get("target.cluster.alias", "target"):
        return []
    identity = config.get("replication.policy.class") == IDENTITY_POLICY
    which = "every topic counts" if identity else f"topics with the prefix of {alias} count"
    return [
        f"source.cluster.alias and target.cluster.alias are both {alias}: {which} as come from the target and "
        f"{'is' if identity else 'are'} not copied; give each cluster an alias of its own"
    ]


def _with_prefix(config: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name[len(prefix) :]: value for name, value in config.items() if name.startswith(prefix) and name != prefix}
