"""Client properties that have no effect here. A user who sets one gets a line in the log, once.

A test walks the tables (client_keys.py): a property is either here, or a client changes with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror_connect.connectors.config.security_settings import SASL_KEYS, SECURITY_PROTOCOL_KEY, TLS_KEYS
from mirror_connect.connectors.config.table import ConfigTable, Settings
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS, Kind

# No line for these: Connect and MirrorMaker 2 set them by themselves, or what they ask for is done anyway.
SILENT: Final = frozenset(
    {
        "allow.auto.create.topics",
        "auto.include.jmx.reporter",
        "enable.auto.commit",
        "enable.metrics.push",
        "group.id",
        "key.deserializer",
        "key.serializer",
        "max.poll.interval.ms",
        "metric.reporters",
        "poll.timeout.ms",
        "retries",
        "transactional.id",
        "value.deserializer",
        "value.serializer",
    }
)
_OF_ALL: Final = frozenset(
    {
        "config.providers",
        "interceptor.classes",
        "metric.names.formats",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "security.providers",
    }
)
# Of clients that use librdkafka: the worker's own, and all administration.
_OF_LIBRDKAFKA: Final[Mapping[Kind, frozenset[str]]] = {
    "admin": _OF_ALL | {"bootstrap.controllers"},
    "consumer": _OF_ALL
    | {
        "default.api.timeout.ms",
        "exclude.internal.topics",
        "group.protocol",
        "group.remote.assignor",
        "internal.leave.group.on.close",
        "internal.throw.on.fetch.stable.offset.unsupported",
        "max.poll.records",
        "partition.assignment.strategy",
        "share.acknowledgement.mode",
        "share.acquire.mode",
        "socket.connection.setup.timeout.max.ms",
    },
    "producer": _OF_ALL
    | {
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.zstd.level",
        "max.block.ms",
        "metadata.max.idle.ms",
        "partitioner.adaptive.partitioning.enable",
        "partitioner.availability.timeout.ms",
        "partitioner.class",
        "partitioner.ignore.keys",
        "socket.connection.setup.timeout.max.ms",
        "transaction.two.phase.commit.enable",
    },
}
SECURITY: Final = ConfigTable(SECURITY_PROTOCOL_KEY) + TLS_KEYS + SASL_KEYS
# What sasl.py, oauth.py, tls.py and stores.py read.
SECURITY_IN_EFFECT: Final = frozenset(
    {"security.protocol", "sasl.mechanism", "sasl.jaas.config"}
    | {f"sasl.login.{name}" for name in ("connect.timeout.ms", "read.timeout.ms", "refresh.window.factor")}
    | {f"sasl.login.{name}" for name in ("retry.backoff.ms", "retry.backoff.max.ms")}
    | {
        f"sasl.oauthbearer.{name}"
        for name in ("jwt.retriever.class", "scope", "token.endpoint.url", "header.urlencode")
    }
    | {f"sasl.oauthbearer.client.credentials.client.{name}" for name in ("id", "secret")}
    | {f"ssl.{name}" for name in ("cipher.suites", "enabled.protocols", "endpoint.identification.algorithm")}
    | {f"ssl.keystore.{name}" for name in ("type", "location", "password", "key", "certificate.chain")}
    | {f"ssl.truststore.{name}" for name in ("type", "location", "password", "certificates")}
    | {"ssl.key.password"}
)


def idle_line(settings: Settings, kind: Kind) -> str | None:
    """A line with the properties that a librdkafka client ignores; None if all have Kafka's default."""
    return _line(settings, kind, _OF_LIBRDKAFKA[kind])


def idle_security_line(settings: Settings, kind: Kind) -> str | None:
    """The same for `ssl.*` and `sasl.*`, for any client."""
    return _line(settings, kind, SECURITY.keys.keys() - SECURITY_IN_EFFECT)


def idle_names(settings: Settings, kind: Kind) -> list[str]:
    """The properties that a librdkafka client ignores, `ssl.*` and `sasl.*` included, unless they have Kafka's default."""
    return _given(settings, kind, _OF_LIBRDKAFKA[kind] | (SECURITY.keys.keys() - SECURITY_IN_EFFECT))


def _given(settings: Settings, kind: Kind, idle: frozenset[str] | set[str]) -> list[str]:
    keys = CLIENT_KEYS[kind].keys
    return sorted(name for name in settings.originals if name in idle and settings[name] != keys[name].default)


def _line(settings: Settings, kind: Kind, idle: frozenset[str] | set[str]) -> str | None:
    given = _given(settings, kind, idle)
    return f"These {kind} properties have no effect here: {', '.join(given)}" if given else None
