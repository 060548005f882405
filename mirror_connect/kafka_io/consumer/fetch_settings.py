"""The consumer properties that control fetching. Names and meanings are Kafka's, some defaults are not.

fetch.max.bytes and max.partition.fetch.bytes have other defaults, and the former has a larger one for brokers far away. They
fill a link with a round trip of 100 ms. Batches are passed on whole, so this costs little. A value that is set is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from mirror_connect.connectors.errors import ConfigError
from mirror_connect.kafka_io.client.copier_settings import reads_committed
from mirror_connect.kafka_io.client.offset_reset import duration_ms
from mirror_connect.kafka_io.protocol.log_offsets import EARLIEST, LATEST

DEFAULT_MAX_BYTES: Final = 16 << 20
DEFAULT_FAR_MAX_BYTES: Final = 32 << 20
_MAX_BYTES: Final = "fetch.max.bytes"


@dataclass(frozen=True, slots=True)
class Reset:
    """auto.offset.reset. `timestamp`: EARLIEST or LATEST, None for `none`; `ago_ms`: that long before now instead."""

    timestamp: int | None
    ago_ms: int | None = None

    @classmethod
    def parse(cls, value: str) -> Self:
        """earliest, latest, none or by_duration:<ISO-8601 duration> (KIP-1106). Raises ConfigError."""
        named = {"earliest": EARLIEST, "latest": LATEST, "none": None}
        if value.lower() in named:
            return cls(named[value.lower()])
        ago_ms = duration_ms(value)
        if ago_ms is None:
            raise ConfigError("auto.offset.reset", value, "must be earliest, latest, none or by_duration:<duration>")
        return cls(LATEST, ago_ms)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Values in bytes and milliseconds, as in Kafka; names that end in _s have seconds.

    `far_max_bytes`: as `max_bytes`, for brokers that are far away.
    """

    min_bytes: int
    max_wait_ms: int
    max_bytes: int
    far_max_bytes: int
    partition_max_bytes: int
    read_committed: bool
    rack: str
    reset: Reset
    metadata_max_age_s: float
    retry_backoff_s: float
    retry_backoff_max_s: float

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """From Java consumer properties. Raises ConfigError naming the property."""
        max_bytes = _number(settings, _MAX_BYTES, DEFAULT_MAX_BYTES)
        return cls(
            min_bytes=_number(settings, "fetch.min.bytes", 1),
            max_wait_ms=_number(settings, "fetch.max.wait.ms", 500),
            max_bytes=max_bytes,
            far_max_bytes=_number(settings, _MAX_BYTES, DEFAULT_FAR_MAX_BYTES),
            partition_max_bytes=_number(settings, "max.partition.fetch.bytes", max_bytes),
            read_committed=reads_committed(settings),
            rack=settings.get("client.rack", ""),
            reset=Reset.parse(settings.get("auto.offset.reset", "earliest")),
            metadata_max_age_s=_number(settings, "metadata.max.age.ms", 300_000) / 1000,
            retry_backoff_s=_number(settings, "retry.backoff.ms", 100) / 1000,
            retry_backoff_max_s=_number(settings, "retry.backoff.max.ms", 1000) / 1000,
        )


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    value = settings.get(name)
    if value is None:
        return default
    try:
        number = int(value)
    except ValueError:
        raise ConfigError(name, value, "Not a number of type INT") from None
    if number < 0:
        raise ConfigError(name, value, "Value must be at least 0")
    return number
