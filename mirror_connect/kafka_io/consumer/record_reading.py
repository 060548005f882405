"""Reads the single records of a fetch, with keys and values: for internal topics, which are not copied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.aborted import AbortedFilter
from mirror_connect.kafka_io.records.record_batch import CorruptBatchError, split_fetch
from mirror_connect.kafka_io.records.unpacked_records import unpack


class ReadRecord(NamedTuple):
    """One record; `timestamp` in ms since the epoch."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def read_records(fetched: CompletedFetch) -> Iterator[ReadRecord]:
    """The records of a fetch in order, without control records and those below its offset. CorruptBatchError.

    Nor are there aborted ones, if the fetch was one of committed records.
    """
    aborted = AbortedFilter(fetched.aborted) if fetched.aborted else None
    for view in split_fetch(fetched.buffer, whole=True):
        if aborted is not None and aborted.drops(view):
            continue
        if view.is_control or (view.magic >= 2 and view.count == 0):
            continue
        for offset, timestamp, rest in unpack(view, fetched.fetch_offset)[0]:
            try:
                key, at = _nullable(rest, 0)
                value, _ = _nullable(rest, at)
            except (IndexError, ValueError):
                raise CorruptBatchError(offset, "a record in it is cut off") from None
            yield ReadRecord(offset, timestamp, key, value)


def _nullable(data: bytes, at: int) -> tuple[bytes | None, int]:
    length, at = varint.decode(data, at)
    if length < 0:
        return None, at
    if at + length > len(data):
        raise ValueError
    return data[at : at + length], at + length
