"""Reads a lookup where it is: a file of this worker's host, or a topic of one of the clusters. It blocks: use a thread.

What is read is whole and of one moment, or it is an error.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Final

from mirror_connect.app.config.allowed_paths import NO_FILES, LookupPaths
from mirror_connect.app.lookups.loaded_lookup import BadLookupError, LoadedLookup
from mirror_connect.app.lookups.lookup_file import opened_lookup
from mirror_connect.app.lookups.lookup_table import MOST_BYTES, MOST_ROWS, TopicRow, table_of_file, table_of_records
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.mirror.lookups import SOURCE, Format, Lookup, columns_of, format_of, topic_of
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.rights import SOURCE_USER, TARGET_USER
from mirror_connect.kafka_io.consumer.record_reader import RecordReader, RecordReaders, TemporaryReadError

_EARLIEST: Final = -2
_LATEST: Final = -1
CALL_S: Final = 15.0
READ_S: Final = 120.0
# A file may be compressed, so that its size says little.
_MOST_FILE: Final = MOST_BYTES


def read_lookup(
    lookup: Lookup,
    properties: Mapping[str, str],
    client_id: str,
    known: object = None,
    *,
    paths: LookupPaths = NO_FILES,
) -> LoadedLookup | None:
    """The lookup; None if its stamp is the known one. `properties`: of the cluster's consumer, if it is a topic.

    `paths`: where its file may be. BadLookupError, ClusterUnreachable, NotAuthorized.
    """
    if format_of(lookup.location) is Format.TOPIC:
        return _topic(lookup, properties, client_id, known)
    return _file(lookup, known, paths)


def _file(lookup: Lookup, known: object, paths: LookupPaths) -> LoadedLookup | None:
    with (
        opened_lookup(lookup.location, paths) as descriptor,
        open(descriptor, "rb", buffering=0, closefd=False) as file,
    ):
        before = _stamp(os.fstat(descriptor))
        if before == known:
            return None
        content = file.read(_MOST_FILE + 1)
        after = _stamp(os.fstat(descriptor))
    if len(content) > _MOST_FILE:
        raise BadLookupError(f"it has more than {_MOST_FILE >> 20} MiB")
    if before != after:
        raise BadLookupError("it was written to while it was read: write another file, and rename it")
    return LoadedLookup(table_of_file(content, format_of(lookup.location), lookup.columns), after)


def _stamp(found: os.stat_result) -> object:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _topic(lookup: Lookup, properties: Mapping[str, str], client_id: str, known: object) -> LoadedLookup | None:
    side, topic = topic_of(lookup.location)
    user = SOURCE_USER if side == SOURCE else TARGET_USER
    # What a transaction has aborted was never there.
    readers = RecordReaders(properties, user, committed=True, client_id=client_id, statistics=False)
    try:
        reader = readers.take()
        try:
            partitions = [TopicPartition(topic, number) for number in reader.partitions(topic, CALL_S)]
        except TemporaryReadError as error:
            raise ClusterUnreachable(str(error)) from None
        if not partitions:
            raise BadLookupError(f"there is no topic {topic} at the {side}, or {user} may not DESCRIBE it")
        ends = []
        for place in (_EARLIEST, _LATEST):
            found, missing = readers.asker.offsets(dict.fromkeys(partitions, place), committed=True, timeout=CALL_S)
            if len(found) < len(partitions):
                raise ClusterUnreachable(missing)
            ends.append({each: found[each].offset or 0 for each in partitions})
        ids = readers.asker.topic_ids([topic], CALL_S)
        stamp = (ids.get(topic), *(tuple(sorted(each.items())) for each in ends))
        if stamp == known:
            return None
        rows = _TopicRows()
        until = time.monotonic() + READ_S
        for partition, begin in ends[0].items():
            if begin < ends[1][partition]:
                reader.begin(partition.topic, partition.partition, begin)
                _read(reader, partition, ends[1][partition], rows, until)
        return LoadedLookup(table_of_records(rows.rows.values(), columns_of(lookup.schema)), stamp)
    finally:
        readers.close()


def _read(reader: RecordReader, partition: TopicPartition, end: int, rows: _TopicRows, until: float) -> None:
    """The partition's records up to its end as it was."""
    while True:
        some = reader.read()
        if some.refused or some.damaged:
            why = some.refused or f"offset {some.damaged[0][0]} is damaged: {some.damaged[0][1]}"
            raise BadLookupError(f"{partition.topic}-{partition.partition}: {why}")
        for offset, timestamp, (key, value, _) in some.records:
            if offset < end:
                rows.add(partition.partition, offset, timestamp, key, value)
        if some.end is not None or (some.records and some.records[-1][0] >= end - 1):
            return
        if some.lost:
            raise ClusterUnreachable(f"{partition.topic}-{partition.partition} was cut off while it was read")
        if time.monotonic() > until:
            why = some.problem or "it was not read in time"
            raise ClusterUnreachable(f"{partition.topic}-{partition.partition}: {why}")


class _TopicRows:
    """What compaction would leave: the newest record of each key, if it is no tombstone."""

    def __init__(self) -> None:
        self.rows: dict[bytes, TopicRow] = {}
        # Also of keys that are deleted, as another partition may have an older record of one.
        self._newest: dict[bytes, tuple[int, int, int]] = {}
        self._bytes = 0

    def add(self, partition: int, offset: int, timestamp: int, key: bytes | None, value: bytes | None) -> None:
        """BadLookupError if there are too many. A record without a key is no row."""
        if key is None:
            return
        place = (timestamp, partition, offset)
        before = self.rows.get(key)
        newest = self._newest.get(key)
        # In one partition the log's order is that of the records, whatever their times are.
        if newest is not None and newest[1] != partition and newest > place:
            return
        self._newest[key] = place
        if before is not None:
            self._bytes -= len(before.key) + len(before.value)
            del self.rows[key]
        if value is None:
            return
        self.rows[key] = TopicRow(*place, key, value)
        self._bytes += len(key) + len(value)
        if self._bytes > MOST_BYTES or len(self._newest) > 2 * MOST_ROWS:
            raise BadLookupError(
                f"it has more than {MOST_BYTES >> 20} MiB or {MOST_ROWS} keys, which is the most that can be joined"
            )
