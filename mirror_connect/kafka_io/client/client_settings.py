"""Translates Java client properties for librdkafka and for our own connections.

`librdkafka_config` is for confluent-kafka (administration, internal topics), `connection_settings` for our own connections
(cluster.py). Both raise ConfigError with the name of a wrong property, log each unknown one once per process, and show no
secret.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mirror_connect.connectors.config.table import ConfigTable, Settings
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.addresses import bootstrap_servers
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS, CLIENT_NAMES, Kind
from mirror_connect.kafka_io.client.idle_properties import idle_line, idle_security_line
from mirror_connect.kafka_io.client.oauth import ClientCredentialsTokens
from mirror_connect.kafka_io.client.sasl import SaslSettings, login_module
from mirror_connect.kafka_io.client.tls import TlsSettings

log = logging.getLogger(__name__)

_INT_MAX: Final = 2**31 - 1
_warned: Final[set[str]] = set()
_warned_lock: Final = threading.Lock()


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """The settings of our own connections to a cluster. Times are in milliseconds, as in the properties.

    `send_buffer_bytes`, `receive_buffer_bytes`: of sockets, if set. With None the system chooses, and grows them on links
    with a high latency. Java's defaults, 128 and 64 KiB, would limit the throughput of such links.
    """

    bootstrap_servers: tuple[tuple[str, int], ...]
    client_id: str
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False)
    sasl_mechanism: str | None = None
    username: str = ""
    password: str = field(default="", repr=False)
    token_provider: ClientCredentialsTokens | None = None
    client_dns_lookup: str = "use_all_dns_ips"
    request_timeout_ms: int = 30_000
    default_api_timeout_ms: int = 60_000
    connections_max_idle_ms: int = 540_000
    retry_backoff_ms: int = 100
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    socket_connection_setup_timeout_ms: int = 10_000
    socket_connection_setup_timeout_max_ms: int = 30_000
    send_buffer_bytes: int | None = None
    receive_buffer_bytes: int | None = None
    rebootstrap: bool = True


@dataclass(frozen=True, slots=True)
class _Security:
    protocol: str
    tls: TlsSettings | None
    sasl: SaslSettings | None


def connection_settings(properties: Mapping[str, str], client_id: str, kind: Kind = "consumer") -> ConnectionSettings:
    """The settings of our own connections; reads key stores. Raises ConfigError.

    `client_id` is used if the properties have none, or an empty one.
    """
    settings = _parsed(properties, kind)
    security = _security(settings)
    sasl = security.sasl
    return ConnectionSettings(
        bootstrap_servers=bootstrap_servers(settings["bootstrap.servers"]),
        client_id=settings.text("client.id") or client_id,
        ssl_context=security.tls.context() if security.tls else None,
        sasl_mechanism=sasl.mechanism if sasl else None,
        username=sasl.username if sasl else "",
        password=sasl.password if sasl else "",
        token_provider=ClientCredentialsTokens(sasl.oauth) if sasl and sasl.oauth else None,
        client_dns_lookup=settings.text("client.dns.lookup"),
        request_timeout_ms=settings.integer("request.timeout.ms"),
        default_api_timeout_ms=settings.integer("max.block.ms" if kind == "producer" else "default.api.timeout.ms"),
        connections_max_idle_ms=settings.integer("connections.max.idle.ms"),
        retry_backoff_ms=settings.integer("retry.backoff.ms"),
        reconnect_backoff_ms=settings.integer("reconnect.backoff.ms"),
        reconnect_backoff_max_ms=settings.integer("reconnect.backoff.max.ms"),
        socket_connection_setup_timeout_ms=settings.integer("socket.connection.setup.timeout.ms"),
        socket_connection_setup_timeout_max_ms=settings.integer("socket.connection.setup.timeout.max.ms"),
        send_buffer_bytes=_buffer(settings, "send.buffer.bytes"),
        receive_buffer_bytes=_buffer(settings, "receive.buffer.bytes"),
        rebootstrap=settings.text("metadata.recovery.strategy").lower() == "rebootstrap",
    )


def librdkafka_config(properties: Mapping[str, str], kind: Kind, client_id: str | None = None) -> dict[str, Any]:
    """The dict that a confluent-kafka client takes; reads key stores. Raises ConfigError.

    Where the defaults of the two clients differ, Java's are used (isolation level, idempotence, partitioner, backoffs).
    """
    settings = _parsed(properties, kind)
    if (line := idle_line(settings, kind)) is not None:
        _warn_once(line)
    security = _security(settings)
    servers = bootstrap_servers(settings["bootstrap.servers"])
    config: dict[str, Any] = {
        "bootstrap.servers": ",".join(
            f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in servers
        ),
        "client.id": settings.text("client.id") or client_id or "mirror-connect",
        "security.protocol": security.protocol.lower(),
        "client.dns.lookup": settings["client.dns.lookup"],
        "metadata.recovery.strategy": settings.text("metadata.recovery.strategy").lower(),
        "metadata.recovery.rebootstrap.trigger.ms": _within(
            settings, "metadata.recovery.rebootstrap.trigger.ms", 0, _INT_MAX
        ),
        "metadata.max.age.ms": _within(settings, "metadata.max.age.ms", 1, 86_400_000),
        "connections.max.idle.ms": max(0, min(settings.integer("connections.max.idle.ms"), _INT_MAX)),  # 0: never
        "retry.backoff.ms": _within(settings, "retry.backoff.ms", 1, 300_000),
        "retry.backoff.max.ms": _within(settings, "retry.backoff.max.ms", 1, 300_000),
        "reconnect.backoff.ms": _within(settings, "reconnect.backoff.ms", 0, 3_600_000),
        "reconnect.backoff.max.ms": _within(settings, "reconnect.backoff.max.ms", 0, 3_600_000),
        "socket.connection.setup.timeout.ms": _within(settings, "socket.connection.setup.timeout.ms", 1_000, _INT_MAX),
        "socket.timeout.ms": _within(settings, "request.timeout.ms", 10, 300_000),
        "socket.receive.buffer.bytes": _within(settings, "receive.buffer.bytes", 0, 100_000_000),
        "socket.send.buffer.bytes": _within(settings, "send.buffer.bytes", 0, 100_000_000),
        # As in Java. Otherwise a response may come up to 40 ms later.
        "socket.nagle.disable": True,
    }
    if kind == "consumer":
        config |= _consumer(settings)
    elif kind == "producer":
        config |= _producer(settings)
    if security.tls is not None:
        config |= security.tls.librdkafka()
        if security.tls.own_versions:
            _warn_once(
                "ssl.enabled.protocols and TLS 1.3 suites affect only the copying connections; librdkafka uses TLS 1.2, 1.3"
            )
    if security.sasl is not None:
        config |= security.sasl.librdkafka()
    return config


def check_login(properties: Mapping[str, str], kind: Kind) -> None:
    """Checks the login settings without opening files. Raises ConfigError."""
    settings = CLIENT_KEYS[kind].parse_all(properties)
    if settings.text("security.protocol").upper().startswith("SASL"):
        SaslSettings.of(settings, None)


def _parsed(properties: Mapping[str, str], kind: Kind) -> Settings:
    table: ConfigTable = CLIENT_KEYS[kind]
    settings = table.parse_all(properties)
    for name in sorted(properties):
        # Properties of other kinds of clients are no mistake: top-level properties go to all kinds.
        if name not in CLIENT_NAMES:
            _warn_once(f"The client property {name} is unknown and has no effect")
    if (line := idle_security_line(settings, kind)) is not None:
        _warn_once(line)
    return settings


def _buffer(settings: Settings, name: str) -> int | None:
    """Bytes; None if not set or -1, which in Java means the system's default."""
    bytes_ = settings.integer(name)
    return bytes_ if name in settings.originals and bytes_ >= 0 else None


def _security(settings: Settings) -> _Security:
    protocol = settings.text("security.protocol").upper()
    tls = TlsSettings.of(settings) if protocol.endswith("SSL") else None
    sasl = SaslSettings.of(settings, _endpoint_tls(settings)) if protocol.startswith("SASL") else None
    return _Security(protocol, tls, sasl)


def _endpoint_tls(settings: Settings) -> TlsSettings | None:
    """TLS to a token endpoint, from the login module's `ssl.*` options, as in Kafka's JaasOptionsUtils."""
    module = login_module(settings)
    options = (
        {} if module is None else {name: value for name, value in module.options.items() if name.startswith("ssl.")}
    )
    return TlsSettings.of(CLIENT_KEYS["consumer"].parse_all(options)) if options else None


def _consumer(settings: Settings) -> dict[str, Any]:
    most = _within(settings, "fetch.max.bytes", 0, _INT_MAX - 512)
    reset = settings.text("auto.offset.reset")
    return {
        "client.rack": settings["client.rack"],
        **({"group.id": settings["group.id"]} if settings["group.id"] else {}),
        **({"group.instance.id": settings["group.instance.id"]} if settings["group.instance.id"] else {}),
        # librdkafka has no durations; its consumers here are given their start offsets. Our own connections have them.
        "auto.offset.reset": {"none": "error", "latest": "latest"}.get(reset, "earliest"),
        "enable.auto.commit": settings["enable.auto.commit"],
        "auto.commit.interval.ms": _within(settings, "auto.commit.interval.ms", 0, 86_400_000),
        "session.timeout.ms": _within(settings, "session.timeout.ms", 1, 3_600_000),
        "heartbeat.interval.ms": _within(settings, "heartbeat.interval.ms", 1, 3_600_000),
        # librdkafka requires a poll interval at least as long as the session; Java does not.
        "max.poll.interval.ms": max(
            _within(settings, "max.poll.interval.ms", 1, 86_400_000),
            _within(settings, "session.timeout.ms", 1, 3_600_000),
        ),
        "fetch.min.bytes": _within(settings, "fetch.min.bytes", 1, 100_000_000),
        "fetch.wait.max.ms": _within(settings, "fetch.max.wait.ms", 0, 300_000),
        "fetch.max.bytes": max(most, 1_000_000),  # no less than message.max.bytes, or librdkafka refuses to start
        "receive.message.max.bytes": max(most + 512, 100_000_000),
        "max.partition.fetch.bytes": _within(settings, "max.partition.fetch.bytes", 1, 1_000_000_000),
        "check.crcs": settings["check.crcs"],
        "isolation.level": settings["isolation.level"],
        "allow.auto.create.topics": settings["allow.auto.create.topics"],
    }


def _producer(settings: Settings) -> dict[str, Any]:
    acks = settings.text("acks")
    # As in Java: idempotence is on unless other settings exclude it; if it is set explicitly too, that is an error.
    against = acks not in ("all", "-1") or settings.integer("max.in.flight.requests.per.connection") > 5
    against = against or settings.integer("retries") == 0
    idempotent = settings.boolean("enable.idempotence")
    if idempotent and against:
        if "enable.idempotence" in settings.originals:
            problem = "it needs acks=all, retries above 0 and max.in.flight.requests.per.connection of 5 at most"
            raise ConfigError("enable.idempotence", "true", problem)
        idempotent = False
    return {
        "acks": acks,
        "batch.size": _within(settings, "batch.size", 1, _INT_MAX),
        "queue.buffering.max.kbytes": max(1, min(settings.integer("buffer.memory") // 1024, _INT_MAX)),
        "compression.type": settings["compression.type"],
        "delivery.timeout.ms": _within(settings, "delivery.timeout.ms", 0, _INT_MAX),
        "request.timeout.ms": _within(settings, "request.timeout.ms", 1, 900_000),
        "enable.idempotence": idempotent,
        "linger.ms": _within(settings, "linger.ms", 0, 900_000),
        "max.in.flight.requests.per.connection": _within(
            settings, "max.in.flight.requests.per.connection", 1, 1_000_000
        ),
        "message.max.bytes": _within(settings, "max.request.size", 1_000, 1_000_000_000),
        "retries": settings["retries"],
        "transaction.timeout.ms": _within(settings, "transaction.timeout.ms", 1_000, _INT_MAX),
        **({"transactional.id": settings["transactional.id"]} if settings["transactional.id"] else {}),
        # Java's partition for a key: other clients, and Connect's Java workers, rely on it.
        "partitioner": "murmur2_random",
    }


def _within(settings: Settings, name: str, least: int, most: int) -> int:
    """A number within librdkafka's limits. Where Java accepts more, the nearest value means the same to a user."""
    return max(least, min(settings.integer(name), most))


def _warn_once(line: str) -> None:
    with _warned_lock:
        if line in _warned:
            return
        _warned.add(line)
    log.warning(line)
