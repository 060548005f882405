"""The consumer and producer properties that matter to a copier of whole batches, and what happens with the others.

CONSUMER_HONOURED and PRODUCER_HONOURED are the properties with an effect; `notices` names the others. client_settings.py
logs properties that no client knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.client_keys import CLIENT_NAMES
from mirror_connect.kafka_io.client.idle_properties import SILENT

# Connections and login, on both sides: kafka_io reads them.
_CONNECTION: Final = frozenset(
    {
        "bootstrap.servers",
        "client.dns.lookup",
        "client.id",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "request.timeout.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "security.protocol",
        "send.buffer.bytes",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
        "metadata.recovery.strategy",
    }
)
_CONNECTION_PREFIXES: Final = ("sasl.", "ssl.")

CONSUMER_HONOURED: Final = _CONNECTION | {
    "auto.offset.reset",
    "check.crcs",
    "client.rack",
    "fetch.max.bytes",
    "fetch.max.wait.ms",
    "fetch.min.bytes",
    "isolation.level",
    "max.partition.fetch.bytes",
}
PRODUCER_HONOURED: Final = _CONNECTION | {
    "acks",
    "buffer.memory",
    "enable.idempotence",
    "max.block.ms",
    "max.in.flight.requests.per.connection",
    "max.request.size",
    "transaction.timeout.ms",
}
TRANSACTION_TIMEOUT: Final = "transaction.timeout.ms"
# No notice for these either: batches are sent as soon as possible, and retried until they are acknowledged.
_SILENT: Final = SILENT | {"delivery.timeout.ms", "linger.ms"}

MIN_REQUEST: Final = 1 << 10
DEFAULT_REQUEST: Final = 8 << 20
DEFAULT_BUFFER: Final = 64 << 20
# A broker remembers the last five batches of a producer in a partition. It could not recognise a repetition of older ones.
WINDOW: Final = 5


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Settings of the target's producer. Times are in seconds, except the one that is sent to brokers.

    `max_in_flight`: requests to one broker, and at the same time batches of one partition; None: not set.
    `buffer_bytes`: the most bytes under way to brokers that are far away.
    """

    idempotent: bool = True
    max_in_flight: int | None = None
    max_request_bytes: int = DEFAULT_REQUEST
    buffer_bytes: int = DEFAULT_BUFFER
    request_timeout_ms: int = 30_000
    transaction_timeout_ms: int = 60_000
    retry_backoff_s: float = 0.1
    retry_backoff_max_s: float = 1.0
    metadata_max_age_s: float = 300.0

    @property
    def window(self) -> int:
        """How many batches of one partition may be in flight."""
        return min(WINDOW, self.max_in_flight or WINDOW)


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """Settings of the source's consumer that the fetcher does not read itself."""

    check_crcs: bool = True
    read_committed: bool = False


def producer_settings(properties: Mapping[str, str]) -> ProducerSettings:
    """From Java producer properties; raises ConfigError naming a wrong one."""
    in_flight = "max.in.flight.requests.per.connection"
    return ProducerSettings(
        idempotent=_boolean(properties, "enable.idempotence", default=True),
        max_in_flight=_integer(properties, in_flight, WINDOW, least=1) if in_flight in properties else None,
        buffer_bytes=_integer(properties, "buffer.memory", DEFAULT_BUFFER, least=0),
        # Small requests would delay batches, so the default is larger than Java's 1 MiB. A batch larger than the limit is
        # sent in a request of its own.
        max_request_bytes=_integer(properties, "max.request.size", DEFAULT_REQUEST, least=0) or MIN_REQUEST,
        request_timeout_ms=_integer(properties, "request.timeout.ms", 30_000, least=1),
        transaction_timeout_ms=_integer(properties, TRANSACTION_TIMEOUT, 60_000, least=1),
        retry_backoff_s=max(1, _integer(properties, "retry.backoff.ms", 100, least=0)) / 1000,
        retry_backoff_max_s=max(1, _integer(properties, "retry.backoff.max.ms", 1000, least=0)) / 1000,
        metadata_max_age_s=max(100, _integer(properties, "metadata.max.age.ms", 300_000, least=0)) / 1000,
    )


def consumer_settings(properties: Mapping[str, str]) -> ConsumerSettings:
    """From Java consumer properties; raises ConfigError naming a wrong one."""
    return ConsumerSettings(
        check_crcs=_boolean(properties, "check.crcs", default=True), read_committed=reads_committed(properties)
    )


def reads_committed(properties: Mapping[str, str]) -> bool:
    """Whether isolation.level asks for committed records only. ConfigError for a value that Kafka does not know."""
    level = properties.get("isolation.level", "read_uncommitted").strip().lower()
    if level not in ("read_committed", "read_uncommitted"):
        raise ConfigError(
            "isolation.level", properties["isolation.level"], "must be read_committed or read_uncommitted"
        )
    return level == "read_committed"


def idle_names(given: Iterable[str], kind: Literal["consumer", "producer"]) -> list[str]:
    """The properties that have no effect on the client that copies, and that need a line."""
    return _idle(given, CONSUMER_HONOURED if kind == "consumer" else PRODUCER_HONOURED)


def _idle(given: Iterable[str], honoured: frozenset[str]) -> list[str]:
    return sorted(
        name
        for name in given
        if name not in honoured and name not in _SILENT and not name.startswith(_CONNECTION_PREFIXES)
    )


def notices(source: Mapping[str, str], target: Mapping[str, str]) -> list[str]:
    """Lines for the log about properties that are set and have no effect."""
    lines = []
    for kind, given, honoured in (("consumer", source, CONSUMER_HONOURED), ("producer", target, PRODUCER_HONOURED)):
        # A name that no client knows is told when the config comes, with what may be meant.
        idle = _idle(CLIENT_NAMES.intersection(given), honoured)
        if idle:
            lines.append(
                f"Batches are copied as they are, so these {kind} properties have no effect: {', '.join(idle)}"
            )
    acks = target.get("acks", "all").strip()
    if acks not in ("all", "-1"):
        lines.append(f"The producer property acks={acks} has no effect: batches are always written with acks=all")
    return lines


def _integer(properties: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    try:
        value = int(text.strip())
    except ValueError:
        raise ConfigError(name, text, "Not a number of type INT") from None
    if value < least:
        raise ConfigError(name, text, f"Value must be at least {least}")
    return value


def _boolean(properties: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = properties.get(name)
    if text is None:
        return default
    if text.strip().lower() not in ("true", "false"):
        raise ConfigError(name, text, "Expected value to be either true or false")
    return text.strip().lower() == "true"
