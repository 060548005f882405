"""The stored source offsets of partitions, with their origins: where tasks continue, and from where a plan counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirror_connect.app.storage.offsets import SourceOffsetStore
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.internal_json import is_integer
from mirror_connect.connectors.records.source_offsets import MAX_OFFSET
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.task_protocol import SourceOffset


async def stored_source_offsets(
    store: SourceOffsetStore | None, connector: str, alias: str, partitions: Sequence[TopicPartition]
) -> list[SourceOffset]:
    """The last replicated offset of each partition, in their order. Without a store there is none.

    ClusterUnreachable, NotAuthorized.
    """
    if store is None:
        return [SourceOffset(topic, partition, None) for topic, partition in partitions]
    # The order of the members is part of the key's identity (Java's HashMap order).
    keys = [{"cluster": alias, "partition": p, "topic": topic} for topic, p in partitions]
    found = await store.source_offsets(connector, keys)
    # No await in between: they belong to the records that were found.
    origins = store.origins(connector, keys)
    return [
        SourceOffset(topic, partition, _last_replicated(offset), topic_id_text(topic_id) if topic_id else None, epoch)
        for (topic, partition), offset, (topic_id, epoch) in zip(partitions, found, origins, strict=True)
    ]


def _last_replicated(offset: Mapping[str, object] | None) -> int | None:
    value = offset.get("offset") if offset else None
    return value if is_integer(value) and 0 <= value <= MAX_OFFSET else None
