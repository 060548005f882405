"""The client settings of kafka-clients 4.3.1 that this product knows: one table for each kind of client.

Settings that only Java can use are declared too: users bring properties files of Java clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from mirror_connect.connectors.config.security_settings import SASL_KEYS, SECURITY_PROTOCOL_KEY, TLS_KEYS
from mirror_connect.connectors.config.table import (
    BOOLEAN,
    HIGH,
    INT,
    LONG,
    LOW,
    MEDIUM,
    STRING,
    ConfigTable,
    Key,
    Quote,
)
from mirror_connect.connectors.config.validators import between, not_empty, one_of, one_of_in_any_case
from mirror_connect.kafka_io.client.addresses import addresses
from mirror_connect.kafka_io.client.offset_reset import offset_reset
from mirror_connect.kafka_io.client.sasl import MECHANISMS

Kind = Literal["admin", "consumer", "producer"]
_JAVA: Final = "Of a Java client; has no effect here."
_INT_MAX: Final = 2**31 - 1


def _gzip_level(name: str, value: Any, quote: Quote) -> str | None:
    if value == -1 or (isinstance(value, int) and 1 <= value <= 9):
        return None
    return f"Invalid value {quote(value)} for configuration {name}: Value must be between 1 and 9 or equal to -1"


def _mechanism(name: str, value: Any, quote: Quote) -> str | None:
    # GSSAPI is Kafka's default, so clients without a login have it, too; sasl.py refuses a login with it.
    if value in MECHANISMS or value == "GSSAPI":
        return None
    return f"Invalid value {quote(value)} for configuration {name}: it has to be one of {', '.join(MECHANISMS)}"


# fmt: off
_NETWORK_KEYS: Final = ConfigTable(
    Key("bootstrap.servers", STRING, None, HIGH, "Addresses host:port of brokers to connect to first, comma-separated.",
        validator=addresses),
    Key("client.id", STRING, "", MEDIUM, "Name of the client in the brokers' logs, metrics and quotas."),
    Key("client.dns.lookup", STRING, "use_all_dns_ips", MEDIUM, "How names with several addresses are tried.",
        validator=one_of("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")),
    Key("request.timeout.ms", INT, 30000, MEDIUM, "Longest wait for a response, in milliseconds.", validator=between(0)),
    Key("retry.backoff.ms", LONG, 100, LOW, "First pause before a request is sent again.", validator=between(0)),
    Key("retry.backoff.max.ms", LONG, 1000, LOW, "Longest such pause.", validator=between(0)),
    Key("reconnect.backoff.ms", LONG, 50, LOW, "First pause before connecting to a broker again.", validator=between(0)),
    Key("reconnect.backoff.max.ms", LONG, 1000, LOW, "Longest such pause.", validator=between(0)),
    Key("connections.max.idle.ms", LONG, 540000, MEDIUM, "Connections idle for so long are closed; negative: never."),
    Key("metadata.max.age.ms", LONG, 300000, LOW, "Milliseconds after which metadata are requested again.",
        validator=between(0)),
    Key("metadata.recovery.strategy", STRING, "rebootstrap", LOW, "What to do if no known broker answers.",
        validator=one_of_in_any_case("REBOOTSTRAP", "NONE")),
    Key("metadata.recovery.rebootstrap.trigger.ms", LONG, 300000, LOW,
        "Milliseconds without metadata until bootstrap.servers is used again.", validator=between(0)),
    Key("receive.buffer.bytes", INT, 65536, MEDIUM, "Receive buffer of sockets; -1: the system's.", validator=between(-1)),
    Key("send.buffer.bytes", INT, 131072, MEDIUM, "Send buffer of sockets; -1: the system's.", validator=between(-1)),
    Key("socket.connection.setup.timeout.ms", LONG, 10000, MEDIUM, "Longest wait for a connection.", validator=between(0)),
    Key("socket.connection.setup.timeout.max.ms", LONG, 30000, MEDIUM, "Longest such wait after failures.",
        validator=between(0)),
    Key("metrics.num.samples", INT, 2, LOW, _JAVA, validator=between(1)),
    Key("metrics.recording.level", STRING, "INFO", LOW, _JAVA, validator=one_of("INFO", "DEBUG", "TRACE")),
    Key("metrics.sample.window.ms", LONG, 30000, LOW, _JAVA, validator=between(0)),
    Key("enable.metrics.push", BOOLEAN, None, LOW, _JAVA),
    *(Key(name, STRING, None, LOW, _JAVA) for name in (
        "metric.reporters", "security.providers", "config.providers", "auto.include.jmx.reporter",
        "interceptor.classes", "metric.names.formats",
    )),
) + ConfigTable(SECURITY_PROTOCOL_KEY) + TLS_KEYS + ConfigTable(
    *(replace(key, validator=_mechanism) if key.name == "sasl.mechanism" else key for key in SASL_KEYS)
)

_API_TIMEOUT: Final = Key(
    "default.api.timeout.ms", INT, 60000, MEDIUM, "Longest wait for a whole operation.", validator=between(0))
_RETRIES: Final = Key("retries", INT, _INT_MAX, LOW, "How often a request is sent again.", validator=between(0))

_ADMIN_KEYS: Final = ConfigTable(
    _API_TIMEOUT, _RETRIES,
    Key("bootstrap.controllers", STRING, None, LOW, "Addresses of controllers. Not supported here."),
)
_CONSUMER_KEYS: Final = ConfigTable(
    _API_TIMEOUT,
    Key("client.rack", STRING, "", LOW, "Rack of the client: it reads from a replica there if it may."),
    Key("group.id", STRING, None, HIGH, "Consumer group."),
    Key("group.instance.id", STRING, None, MEDIUM, "Identity of a static member of the group.",
        validator=not_empty),
    Key("auto.offset.reset", STRING, "latest", MEDIUM, "Where to begin without a committed offset.",
        validator=offset_reset),
    Key("enable.auto.commit", BOOLEAN, True, MEDIUM, "Whether offsets are committed automatically."),
    Key("auto.commit.interval.ms", INT, 5000, LOW, "How often offsets are committed automatically.", validator=between(0)),
    Key("session.timeout.ms", INT, 45000, HIGH, "A member silent for so long leaves the group.", validator=between(1)),
    Key("heartbeat.interval.ms", INT, 3000, HIGH, "How often a member sends a heartbeat.", validator=between(1)),
    Key("max.poll.interval.ms", INT, 300000, MEDIUM, "Longest time between two polls.", validator=between(1)),
    Key("fetch.min.bytes", INT, 1, HIGH, "Bytes that a fetch waits for, at most fetch.max.wait.ms.", validator=between(0)),
    Key("fetch.max.wait.ms", INT, 500, LOW, "Longest wait of a fetch for fetch.min.bytes.", validator=between(0)),
    Key("fetch.max.bytes", INT, 52428800, MEDIUM, "Most bytes in a fetch.", validator=between(0)),
    Key("max.partition.fetch.bytes", INT, 1048576, HIGH, "Most bytes of a partition in a fetch.", validator=between(0)),
    Key("check.crcs", BOOLEAN, True, LOW, "Whether checksums are verified."),
    Key("isolation.level", STRING, "read_uncommitted", MEDIUM, "Whether records of open and aborted transactions are seen.",
        validator=one_of("read_committed", "read_uncommitted")),
    Key("allow.auto.create.topics", BOOLEAN, True, MEDIUM, "Whether requesting a topic may create it."),
    Key("max.poll.records", INT, 500, MEDIUM, _JAVA, validator=between(1)),
    Key("group.protocol", STRING, "classic", HIGH, _JAVA, validator=one_of_in_any_case("CONSUMER", "CLASSIC")),
    Key("exclude.internal.topics", BOOLEAN, True, MEDIUM, _JAVA),
    *(Key(name, STRING, None, LOW, _JAVA) for name in (
        "key.deserializer", "value.deserializer", "partition.assignment.strategy", "group.remote.assignor",
        "internal.throw.on.fetch.stable.offset.unsupported", "internal.leave.group.on.close",
        "share.acknowledgement.mode", "share.acquire.mode",
    )),
)
_PRODUCER_KEYS: Final = ConfigTable(
    _RETRIES,
    Key("acks", STRING, "all", LOW, "How many replicas must have a record.", validator=one_of("all", "-1", "0", "1")),
    Key("batch.size", INT, 16384, MEDIUM, "Most bytes of a batch.", validator=between(0)),
    Key("buffer.memory", LONG, 33554432, HIGH, "Bytes of records that may wait to be sent.", validator=between(0)),
    Key("compression.type", STRING, "none", HIGH, "Codec of batches.",
        validator=one_of("none", "gzip", "snappy", "lz4", "zstd")),
    Key("compression.gzip.level", INT, -1, MEDIUM, "Level of gzip.", validator=_gzip_level),
    Key("compression.lz4.level", INT, 9, MEDIUM, "Level of lz4.", validator=between(1, 17)),
    Key("compression.zstd.level", INT, 3, MEDIUM, "Level of zstd.", validator=between(-131072, 22)),
    Key("delivery.timeout.ms", INT, 120000, MEDIUM, "Longest time until a record is acknowledged.", validator=between(0)),
    Key("enable.idempotence", BOOLEAN, True, LOW, "Whether the broker drops repeated batches."),
    Key("linger.ms", LONG, 5, MEDIUM, "How long a batch waits for more records.", validator=between(0)),
    Key("max.block.ms", LONG, 60000, MEDIUM, "Longest wait for metadata or room.", validator=between(0)),
    Key("max.in.flight.requests.per.connection", INT, 5, LOW, "Most requests in flight.", validator=between(1)),
    Key("max.request.size", INT, 1048576, MEDIUM, "Most bytes of a request.", validator=between(0)),
    Key("transaction.timeout.ms", INT, 60000, LOW, "Longest transaction."),
    Key("transactional.id", STRING, None, LOW, "Identity of a transactional producer.", validator=not_empty),
    Key("partitioner.ignore.keys", BOOLEAN, False, MEDIUM, _JAVA),
    Key("partitioner.adaptive.partitioning.enable", BOOLEAN, True, LOW, _JAVA),
    Key("partitioner.availability.timeout.ms", LONG, 0, LOW, _JAVA, validator=between(0)),
    Key("metadata.max.idle.ms", LONG, 300000, LOW, _JAVA, validator=between(5000)),
    Key("transaction.two.phase.commit.enable", BOOLEAN, False, LOW, _JAVA),
    *(Key(name, STRING, None, LOW, _JAVA) for name in ("key.serializer", "value.serializer", "partitioner.class")),
)
# fmt: on

CLIENT_KEYS: Final[Mapping[Kind, ConfigTable]] = {
    "admin": _NETWORK_KEYS + _ADMIN_KEYS,
    "consumer": _NETWORK_KEYS + _CONSUMER_KEYS,
    "producer": _NETWORK_KEYS + _PRODUCER_KEYS,
}
CLIENT_NAMES: Final = frozenset(name for table in CLIENT_KEYS.values() for name in table.keys)


def prefixed(prefix: str, table: ConfigTable, names: Iterable[str]) -> ConfigTable:
    """The keys of the known names as `<prefix><name>`, so that errors name the setting that the user wrote."""
    return ConfigTable(
        *(
            replace(table.keys[name], name=f"{prefix}{name}", display=name)
            for name in dict.fromkeys(names)
            if name in table.keys
        )
    )
