"""Which client properties behind a prefix do something else here, or nothing, as the clients themselves tell it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from mirror_connect.connectors.config.table import RefusedConfig, Settings
from mirror_connect.kafka_io.client import idle_properties
from mirror_connect.kafka_io.client.client_keys import CLIENT_KEYS, Kind
from mirror_connect.kafka_io.client.copier_settings import WINDOW, idle_names

COPIED: Final = "Batches are copied as they are, so it has no effect."
IDLE: Final = "It has no effect on the clients here."
LIMITS_FAR: Final = (
    f"With it, a partition of a target far away gets {WINDOW} batches at once at most, instead of many more."
)
ALL_REPLICAS: Final = "Batches are always written with acks=all."
KEEP: Final = "Leave it out, or keep it for the way back."
FAR_INSTEAD: Final = "Leave it out if the target is far away."


def client_differences(kind: Kind, name: str, value: str, *, copies: bool) -> Iterator[tuple[str, str]]:
    """What is different with a client property (without its prefix), and what to do instead; nothing if it means the same.

    `copies`: it is of the client that reads or writes the batches.
    """
    if (text := _idle_text(kind, name, value, copies=copies)) is not None:
        yield text, KEEP
    elif copies and kind == "producer" and name == "max.in.flight.requests.per.connection":
        yield LIMITS_FAR, FAR_INSTEAD


def _idle_text(kind: Kind, name: str, value: str, *, copies: bool) -> str | None:
    """Why it has no effect; None if it has one, or Kafka's default."""
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
