"""Source positions in connect-offsets: which record of a source partition was replicated last, as bytes and back.

The key's bytes are the identity: a Java worker looks positions up by exactly these, so the order of their members
(Java's HashMap order: cluster, partition, topic) must never change. Readers take any order.

A position is one of a topic, not of a name, and of one history of its log: it may be truncated and grow again. Which ones
these are stands in headers of the record, of which Kafka's workers take no notice; what they write has none
(docs/decisions/0014, 0019).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from mirror_connect.connectors.records.internal_json import decode, encode, is_integer
from mirror_connect.connectors.records.topic_ids import parse_topic_id, topic_id_text

# The offset after it has to be one, too.
MAX_OFFSET: Final = 2**63 - 2
TOPIC_ID_HEADER: Final = "mirror-connect.topic.id"
LEADER_EPOCH_HEADER: Final = "mirror-connect.leader.epoch"
NO_EPOCH: Final = -1
_HIGHEST_EPOCH: Final = (1 << 31) - 1


class PositionOrigin(NamedTuple):
    """What a position is of: the topic with this id (16 bytes), and a log whose record at the offset has this leader epoch.

    None and NO_EPOCH where that isn't told.
    """

    topic_id: bytes | None = None
    leader_epoch: int = NO_EPOCH


@dataclass(frozen=True, slots=True, order=True)
class PositionKey:
    """Whose position it is: `cluster` is the source cluster's alias."""

    connector: str
    cluster: str
    topic: str
    partition: int


def position_key(connector: str, cluster: str, topic: str, partition: int) -> bytes:
    """`["mm2-source",{"cluster":"A","partition":2,"topic":"orders"}]`."""
    return encode([connector, {"cluster": cluster, "partition": partition, "topic": topic}])


def position_value(offset: int) -> bytes:
    """`{"offset":3}`: the offset of the last replicated record; a restart reads from the one after it."""
    return encode({"offset": offset})


def position_headers(topic_id: bytes | None, leader_epoch: int = NO_EPOCH) -> tuple[tuple[str, bytes], ...]:
    """`mirror-connect.topic.id`, as Kafka's tools print ids, and `mirror-connect.leader.epoch` in digits.

    None of what isn't known. An epoch is one of a topic, so it stands never alone.
    """
    if topic_id is None:
        return ()
    named = (TOPIC_ID_HEADER, topic_id_text(topic_id).encode())
    return (named,) if leader_epoch < 0 else (named, (LEADER_EPOCH_HEADER, b"%d" % leader_epoch))


def parse_position_headers(headers: Iterable[tuple[str, bytes | None]]) -> PositionOrigin:
    """The inverse; what is no id or no epoch counts as not told."""
    told = dict(headers)
    topic_id = parse_topic_id(told.get(TOPIC_ID_HEADER))
    digits = told.get(LEADER_EPOCH_HEADER) or b""
    epoch = int(digits) if digits.isdigit() and len(digits) <= len(str(_HIGHEST_EPOCH)) else NO_EPOCH
    return PositionOrigin(topic_id, epoch if topic_id is not None and epoch <= _HIGHEST_EPOCH else NO_EPOCH)


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


def parse_position_key(key: bytes | None) -> PositionKey | None:
    """The key of a mirror source connector's position, its members in any order; None for any other key."""
    parsed = parse_offsets_key(key)
    if parsed is None:
        return None
    connector, source = parsed
    cluster, topic, partition = source.get("cluster"), source.get("topic"), source.get("partition")
    if isinstance(cluster, str) and isinstance(topic, str) and is_integer(partition) and partition >= 0:
        return PositionKey(connector, cluster, topic, partition)
    return None


def parse_position_value(value: bytes | None) -> int | None:
    """The last replicated offset; None for a tombstone, and for a value that holds none (as Java then starts anew).

    None also for a number that no offset can be: a fetch of it would end the task.
    """
    try:
        decoded = decode(value) if value is not None else None
    except ValueError:
        return None
    offset = decoded.get("offset") if isinstance(decoded, dict) else None
    return offset if is_integer(offset) and 0 <= offset <= MAX_OFFSET else None
