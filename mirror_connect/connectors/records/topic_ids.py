"""Topic ids as Kafka's tools print them, and back. They distinguish a topic from a later one of the same name."""

from __future__ import annotations

import base64
import binascii
from typing import Final

ID_BYTES: Final = 16


def topic_id_text(topic_id: bytes) -> str:
    """22 characters, as kafka-topics.sh --describe prints them."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def parse_topic_id(text: str | bytes | None) -> bytes | None:
    """The inverse; None for anything else."""
    if not text or len(text) != len(topic_id_text(bytes(ID_BYTES))):
        return None
    padding = b"==" if isinstance(text, bytes) else "=="
    try:
        found: bytes = base64.urlsafe_b64decode(text + padding)  # type: ignore[operator]
    except (binascii.Error, ValueError):
        return None
    # Decoding ignores other characters, and no topic has the id of zeros.
    return found if len(found) == ID_BYTES and any(found) else None
