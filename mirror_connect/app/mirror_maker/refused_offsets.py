"""The line that says why a group's offsets are refused, and what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.rights import SOURCE_USER, on_topic
from mirror_connect.connectors.wording import counted
from mirror_connect.kafka_io.protocol.error_codes import ErrorCode, error_name

DENIED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED
# The most topics that the line names.
MOST_NAMED: Final = 5


def refused_offsets(group: str, refused: Mapping[TopicPartition, int]) -> str | None:
    """The line, or None if there is nothing to say: an offset of a topic that is gone is no loss."""
    codes = {code for code in refused.values() if code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    if not codes:
        return None
    names = ", ".join(sorted(map(error_name, codes)))
    line = f"Group {group}: offsets of {counted(len(refused), 'partition')} were refused with {names}"
    topics = sorted({partition.topic for partition, code in refused.items() if code == DENIED})
    grants = [on_topic("READ", topic).grant(SOURCE_USER) for topic in topics[:MOST_NAMED]]
    if len(topics) > MOST_NAMED:
        grants.append(f"and on {len(topics) - MOST_NAMED} more")
    return "; ".join((line, *grants))
