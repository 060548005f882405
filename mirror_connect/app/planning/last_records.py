"""Reads the last records of a source, without a group and without committing anything. It blocks: use a thread."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.rights import SOURCE_USER
from mirror_connect.kafka_io.consumer.record_reader import FoundRecord, RecordReader, RecordReaders
from mirror_connect.kafka_io.records.record_parts import RecordParts

_EARLIEST: Final = -2
_LATEST: Final = -1
# Partitions whose ends are asked for. Of a source with more, the first ones have to do.
MOST_PARTITIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A record as a consumer of the source sees it. `timestamp`: ms; -1 if it has none."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    parts: RecordParts


def last_records(
    properties: Mapping[str, str], client_id: str, partitions: Sequence[TopicPartition], count: int, timeout: float
) -> tuple[list[SourceRecord], str]:
    """At most `count` records of these partitions, the oldest first; and why some may be missing.

    They are the last ones of each partition, in equal shares. `properties`: of the source's consumer. ClusterUnreachable,
    NotAuthorized.
    """
    committed = properties.get("isolation.level") == "read_committed"
    readers = RecordReaders(properties, SOURCE_USER, committed=committed, client_id=client_id, statistics=False)
    until = time.monotonic() + timeout
    try:
        asked = partitions[:MOST_PARTITIONS]
        first, _ = readers.asker.offsets(dict.fromkeys(asked, _EARLIEST), committed=committed, timeout=timeout)
        last, missing = readers.asker.offsets(dict.fromkeys(asked, _LATEST), committed=committed, timeout=timeout)
        if asked and not last:
            raise ClusterUnreachable(f"The source cluster did not tell its offsets within {timeout:g} s: {missing}")
        ranges = {
            partition: (first[partition].offset or 0, end)
            for partition in asked
            if partition in last and partition in first and (end := last[partition].offset or 0)
        }
        filled = {partition: each for partition, each in ranges.items() if each[0] < each[1]}
        share = math.ceil(count / len(filled)) if filled else 0
        found: list[SourceRecord] = []
        reader = readers.take() if filled else None
        for partition, (begin, end) in list(filled.items())[:count]:
            if time.monotonic() > until:
                missing = f"not all partitions were read within {timeout:g} s"
                break
            assert reader is not None
            records, problem = _read(reader, partition, max(begin, end - share), end, until)
            missing = problem or missing
            found += [_record(partition, each) for each in records]
        found.sort(key=lambda record: (record.timestamp, record.topic, record.partition, record.offset))
        return found[-count:], missing
    finally:
        readers.close()


def _read(
    reader: RecordReader, partition: TopicPartition, begin: int, end: int, until: float
) -> tuple[list[FoundRecord], str]:
    """The records from `begin` on, up to the partition's end as it was."""
    found: list[FoundRecord] = []
    reader.begin(partition.topic, partition.partition, begin)
    while True:
        some = reader.read()
        found += [record for record in some.records if record[0] < end]
        if some.refused or some.damaged:
            why = some.refused or f"offset {some.damaged[0][0]}: {some.damaged[0][1]}"
            return found, f"{partition.topic}-{partition.partition}: {why}"
        if some.end is not None or some.lost or (some.records and some.records[-1][0] >= end - 1):
            return found, ""
        if time.monotonic() > until:
            return found, f"{partition.topic}-{partition.partition}: {some.problem or 'it was not read in time'}"


def _record(partition: TopicPartition, found: FoundRecord) -> SourceRecord:
    offset, timestamp, (key, value, headers) = found
    parts = RecordParts(key, value, tuple((name.encode(), content) for name, content in headers))
    return SourceRecord(partition.topic, partition.partition, offset, timestamp, parts)
