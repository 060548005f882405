"""Batches and records larger than their remote topic takes: what its limit is, and what to say of them."""

from __future__ import annotations

import asyncio
from typing import Final

from mirror_connect.connectors.mirror.mirror_source import OVERSIZE_RECORDS, SKIP
from mirror_connect.kafka_io.client.cluster import Cluster
from mirror_connect.kafka_io.producer.produce_outcome import OversizeRecordError
from mirror_connect.kafka_io.protocol.wire_topic_configs import DescribeTopicConfigs

LIMIT: Final = "max.message.bytes"
LOOK_S: Final = 5.0


async def largest_message(target: Cluster, topic: str) -> int | None:
    """What a batch may measure there at present; None where that isn't told, in time or at all (DESCRIBE_CONFIGS)."""
    try:
        async with asyncio.timeout(LOOK_S):
            (described,) = await target.any_node(DescribeTopicConfigs((topic,), (LIMIT,)))
            value = described.configs[0].value
    except Exception:  # noqa: BLE001 — the limit is for people: without it the record is named all the same
        return None
    return int(value) if value is not None and value.isdigit() else None


def given_up(source: str, error: OversizeRecordError, limit: int | None) -> str:
    """The line for the log."""
    takes = "takes" if limit is None else f"takes ({LIMIT}={limit})"
    return (
        f"{source}: the record at offset {error.record} is skipped: it has {error.size} bytes, more than topic "
        f"{error.topic} on the target {takes}, and {OVERSIZE_RECORDS} is {SKIP}; reading on at {error.behind}"
    )


def too_large(topic: str, size: int, limit: int | None) -> str:
    """The line for the log about a topic whose batches have to be split; `limit` where it is known."""
    takes = (
        f"takes batches of {limit} bytes at most ({LIMIT})" if limit is not None else f"refuses a batch of {size} bytes"
    )
    return (
        f"Topic {topic} on the target {takes}: larger ones are split, which costs CPU time. To have them copied as they "
        f"are, set its {LIMIT} to that of the source's topic"
    )
