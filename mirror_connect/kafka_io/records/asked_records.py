"""Single records in the JSON of the internal HTTP: those that Spark's driver is asked about, and what it makes of them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mirror_connect.connectors.partitions import TopicPartition


@dataclass(frozen=True, slots=True)
class AskedRecord:
    """A record of the source, as the transformations in front of Spark leave it.

    `rest`: key, value and headers as they are in a batch (record_parts.py).
    """

    partition: TopicPartition
    offset: int
    timestamp: int
    rest: bytes = field(repr=False)

    def to_json(self) -> list[Any]:
        """See `from_json`."""
        return [self.partition.topic, self.partition.partition, self.offset, self.timestamp, _text(self.rest)]

    @staticmethod
    def from_json(found: list[Any]) -> AskedRecord:
        """What `to_json` has made."""
        topic, partition, offset, timestamp, rest = found
        return AskedRecord(TopicPartition(topic, partition), offset, timestamp, base64.b64decode(rest))


@dataclass(frozen=True, slots=True)
class TransformedRecord:
    """What became of a record. `rest`: None unless it is kept, and if it is too large for an answer.

    `error`: half a sentence with nothing of the record.
    """

    kept: bool
    timestamp: int
    rest: bytes | None = field(repr=False)
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """See `from_json`."""
        rest = None if self.rest is None else _text(self.rest)
        return {"kept": self.kept, "timestamp": self.timestamp, "rest": rest, "error": self.error}

    @staticmethod
    def from_json(found: Mapping[str, Any]) -> TransformedRecord:
        """What `to_json` has made."""
        rest = found["rest"]
        decoded = None if rest is None else base64.b64decode(rest)
        return TransformedRecord(found["kept"], found["timestamp"], decoded, found["error"])


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()
