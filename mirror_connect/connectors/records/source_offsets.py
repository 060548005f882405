"""Source offsets in connect-offsets: the last replicated offset of a source partition, as bytes and back.

The key's bytes are the identity: a Java worker finds source offsets by exactly these bytes. So the order of their members
(Java's HashMap order: cluster, partition, topic) must never change. Readers accept any order.

A source offset belongs to a topic, not to a name, and to one history of its log, which may be truncated and grow again.
Headers of the record hold topic and history. Kafka's workers ignore these headers and write none (docs/decisions/0014,
0019).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mirror_connect.connectors.records.internal_json import decode, encode, is_integer
from mirror_connect.connectors.records.topic_ids import parse_topic_id, topic_id_text

# The offset after it must be valid, too.
MAX_OFFSET: Final = 2**63 - 2
TOPIC_ID_HEADER: Final = "mirror-connect.topic.id"
LEADER_EPOCH_HEADER: Final = "mirror-connect.leader.epoch"
NO_EPOCH: Final = -1
_HIGHEST_EPOCH: Final = (1 << 31) - 1


class OffsetOrigin(NamedTuple):
    """The topic id (16 bytes), and the leader epoch of the record at the offset.

    None and NO_EPOCH if unknown.
    """

    topic_id: bytes | None = None
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, order=True)
class SourceOffsetKey:
    """The key of a source offset. `cluster`: the source cluster's alias."""

    connector: str
    cluster: str
    topic: str
    partition: int


def source_offset_key(connector: str, cluster: str, topic: str, partition: int) -> bytes:
    """`["mm2-source",{"cluster":"A","partition":2,"topic":"orders"}]`."""
    return encode([connector, {"cluster": cluster, "partition": partition, "topic": topic}])


def source_offset_value(offset: int) -> bytes:
    """`{"offset":3}`: the offset of the last replicated record; a restart reads from the one after it."""
    return b'{"offset":%d}' % offset


def source_offset_headers(topic_id: bytes | None, leader_epoch: int = NO_EPOCH) -> tuple[tuple[str, bytes], ...]:
    """`mirror-connect.topic.id`, as Kafka's tools print ids, and `mirror-connect.leader.epoch` in digits.

    Unknown ones are left out. An epoch belongs to a topic, so it is never alone.
    """
    if topic_id is None:
        return ()
    named = (TOPIC_ID_HEADER, topic_id_text(topic_id).encode())
    return (named,) if leader_epoch < 0 else (named, (LEADER_EPOCH_HEADER, b"%d" % leader_epoch))


def parse_source_offset_headers(headers: Iterable[tuple[str, bytes | None]]) -> OffsetOrigin:
    """The inverse; anything that is no id or no epoch counts as unknown."""
    found = dict(headers)
    topic_id = parse_topic_id(found.get(TOPIC_ID_HEADER))
    digits = found.get(LEADER_EPOCH_HEADER) or b""
    epoch = int(digits) if digits.isdigit() and len(digits) <= len(str(_HIGHEST_EPOCH)) else NO_EPOCH
    return OffsetOrigin(topic_id, epoch if topic_id is not None and epoch <= _HIGHEST_EPOCH else NO_EPOCH)


def parse_offsets_key(key: bytes | None) -> tuple[str, dict[str, Any]] | None:
    """(connector name, source partition) of any connector's key; None for bytes that are no such key."""
    try:
        decoded = decode(key or b"")
    except ValueError:
        return None
    if not isinstance(decoded, list) or len(decoded) != 2:
        return None
    connector, partition = decoded
    return (connector, partition) if isinstance(connector, str) and isinstance(partition, dict) else None


def parse_source_offset_key(key: bytes | None) -> SourceOffsetKey | None:
    """The key of a mirror source connector's source offset, its members in any order; None for any other key."""
    parsed = parse_offsets_key(key)
    if parsed is None:
        return None
    connector, source = parsed
    cluster, topic, partition = source.get("cluster"), source.get("topic"), source.get("partition")
    if isinstance(cluster, str) and isinstance(topic, str) and is_integer(partition) and partition >= 0:
        return SourceOffsetKey(connector, cluster, topic, partition)
    return None


def parse_source_offset_value(value: bytes | None) -> int | None:
    """The last replicated offset; None for a tombstone, and for a value that holds none (as Java then starts again).

    None also for a number that no offset can be: a fetch of it would end the task.
    """
    try:
        decoded = decode(value) if value is not None else None
    except ValueError:
        return None
    offset = decoded.get("offset") if isinstance(decoded, dict) else None
    return offset if is_integer(offset) and 0 <= offset <= MAX_OFFSET else None
