"""Heartbeats: a record on the target at each interval, which shows that the link is alive and its two clusters.

Record format of the topic `heartbeats` (one partition), and the connector's key in connect-offsets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.records.binary import INT16, INT64, Reader, text_bytes
from mirror_connect.connectors.records.internal_json import encode
from mirror_connect.connectors.replication_policy import HEARTBEATS_TOPIC

__all__ = ["ALWAYS_ZERO", "HEARTBEATS_TOPIC", "Heartbeat", "heartbeat_offset_key"]

_VERSION: Final = 0
# The source offset of checkpoint and heartbeat connectors: written, never read.
ALWAYS_ZERO: Final = encode({"offset": 0})


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One heartbeat. `timestamp`: milliseconds, also that of the record."""

    source_alias: str
    target_alias: str
    timestamp: int

    def key(self) -> bytes:
        """Key of the record."""
        return text_bytes(self.source_alias) + text_bytes(self.target_alias)

    def value(self) -> bytes:
        """Value of the record."""
        return INT16.pack(_VERSION) + INT64.pack(self.timestamp)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Heartbeat:
        """The inverse; UnreadableRecord for anything else: the caller skips it."""
        names, data = Reader(key, "key of a heartbeat"), Reader(value, "value of a heartbeat")
        data.version(_VERSION)
        return cls(names.text(), names.text(), data.int64())


def heartbeat_offset_key(connector: str, source_alias: str, target_alias: str) -> bytes:
    """Key in connect-offsets: `["mm2-heartbeat",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]`."""
    return encode([connector, {"sourceClusterAlias": source_alias, "targetClusterAlias": target_alias}])
