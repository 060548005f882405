"""The JSON of internal topics. Like Kafka's readers, ours skip what they can't read."""

from __future__ import annotations

from typing import Any, Final

from mirror_connect.connectors.records import internal_json
from mirror_connect.connectors.records.internal_json import encode

__all__ = ["decode", "decode_object", "encode", "shown"]
_SHOWN: Final = 200


def decode(data: bytes | None) -> Any:
    """The JSON value of `data`; None if it is None, not UTF-8 or not JSON."""
    if data is None:
        return None
    try:
        return internal_json.decode(data)
    except ValueError:
        return None


def decode_object(data: bytes | None) -> dict[str, Any] | None:
    """The JSON object in `data`, None for anything else."""
    value = decode(data)
    return value if isinstance(value, dict) else None


def shown(text: str) -> str:
    """A key or name, cut for the log: that of a record may have a million characters."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
