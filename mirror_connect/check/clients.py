"""Which client properties behind a prefix have no effect, as the clients themselves tell it."""

from __future__ import annotations

from typing import Final

from mirror_connect.connectors.config.table import RefusedConfig, Settings
from mirror_connect.kafka_io.client import idle_properties
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS, Kind
from mirror_connect.kafka_io.client.copier_settings import WINDOW, idle_names

COPIED: Final = "Batches are copied as they are, so it has no effect."
IDLE: Final = "It has no effect on the clients here."
LIMITS_FAR: Final = f"A partition of a target far away gets {WINDOW} batches at once with it, instead of many more."
ALL_REPLICAS: Final = "Batches are always written with acks=all."


def far_text(kind: Kind, name: str) -> str | None:
    """What a property (without its prefix) of the client that writes the batches costs over a long distance; else None."""
    return LIMITS_FAR if kind == "producer" and name == "max.in.flight.requests.per.connection" else None


def idle_text(kind: Kind, name: str, value: str, *, copies: bool) -> str | None:
    """Why a client property (without its prefix) has no effect; None if it has one, or Kafka's default.

    `copies`: it is of the client that reads or writes the batches.
    """
    if copies and kind != "admin":
        if idle_names([name], kind):
            return COPIED
        if name == "acks" and value.strip() not in ("all", "-1"):
            return ALL_REPLICAS
    try:
        settings: Settings = CLIENT_KEYS[kind].parse_all({name: value})
    except RefusedConfig:
        return None
    idle = idle_properties.idle_names(settings, kind)
    # Of the copying client librdkafka's list does not count, but that of logins does.
    return IDLE if name in idle and (not copies or name.startswith(("ssl.", "sasl."))) else None
