"""Records of fetched batches as Arrow's columns, in the schema that Spark asks for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.records import varint
from mirror_connect.kafka_io.records.aborted import AbortedFilter
from mirror_connect.kafka_io.records.record_batch import LOG_APPEND_TIME as LOG_APPEND_TIME_BIT
from mirror_connect.kafka_io.records.record_batch import (
    NO_TIMESTAMP,
    BatchReader,
    BatchView,
    CorruptBatchError,
    verify,
)
from mirror_connect.kafka_io.records.unpacked_records import Record, unpack

if TYPE_CHECKING:
    import pyarrow as pa

CREATE_TIME: Final = "CreateTime"
LOG_APPEND_TIME: Final = "LogAppendTime"
NO_TIMESTAMP_TYPE: Final = "NoTimestampType"
# A batch for Spark. Both keep its process's memory small.
MOST_RECORDS: Final = 20_000
MOST_BYTES: Final = 8 << 20
# Spark's times are microseconds in 64 bits.
_LATEST_MS: Final = (2**63 - 1) // 1000
_EARLIEST_MS: Final = -_LATEST_MS
_V1_ATTRIBUTES_AT: Final = 17

Headers = list[tuple[bytes, bytes | None]]
_NO_HEADERS: Final[Headers] = []


class RecordColumns:
    """Collects records of one partition. `schema`: Arrow's of the table records."""

    def __init__(self, topic: str, partition: int, schema: pa.Schema) -> None:
        self._topic = topic
        self._partition = partition
        self._schema = schema
        self._clear()

    def _clear(self) -> None:
        self._offsets: list[int] = []
        self._timestamps: list[int] = []
        self._types: list[str] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[Headers] = []
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether they are enough for a batch."""
        return len(self._offsets) >= MOST_RECORDS or self._bytes >= MOST_BYTES

    def add(self, records: Sequence[Record], timestamp_type: str) -> None:
        """Records with one type of timestamp. CorruptBatchError."""
        offset = -1
        try:
            for offset, timestamp, rest in records:
                # Nearly all keys are shorter than 64 bytes, and their length is one byte.
                length = rest[0]
                if length < 0x80 and not length & 1:
                    at = 1 + (length >> 1)
                    key: bytes | None = rest[1:at]
                else:
                    key, at = _nullable(rest, 0)
                value, at = _nullable(rest, at)
                self._headers.append(_headers(rest, at) if at < len(rest) and rest[at] else _NO_HEADERS)
                self._keys.append(key)
                self._values.append(value)
                self._offsets.append(offset)
                self._timestamps.append(timestamp)
                self._bytes += len(rest)
        except (IndexError, ValueError):
            raise CorruptBatchError(offset, "a record in it is cut off") from None
        self._types += [timestamp_type] * len(records)

    def take(self) -> pa.RecordBatch | None:
        """What was collected, as a batch; None if there is nothing."""
        import pyarrow as pa  # noqa: PLC0415 — Spark's processes alone need it

        count = len(self._offsets)
        if not count:
            return None
        columns = {
            "topic": pa.repeat(pa.scalar(self._topic, pa.string()), count),
            "partition": pa.repeat(pa.scalar(self._partition, pa.int32()), count),
            "offset": pa.array(self._offsets, pa.int64()),
            "timestamp": pa.array([_microseconds(each) for each in self._timestamps], pa.timestamp("us", "UTC")),
            "timestamp_type": pa.array(self._types, pa.string()),
            "key": pa.array(self._keys, pa.binary()),
            "value": pa.array(self._values, pa.binary()),
            "headers": self._headers_array(pa, self._schema.field("headers").type),
        }
        self._clear()
        return pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)

    def _headers_array(self, pa: Any, kind: Any) -> Any:
        places, keys, values = [0], [], []
        for headers in self._headers:
            for key, value in headers:
                # Java reads a key that isn't UTF-8 in the same way.
                keys.append(key.decode("utf-8", "replace"))
                values.append(value)
            places.append(len(keys))
        structs = pa.StructArray.from_arrays(
            [pa.array(keys, pa.string()), pa.array(values, pa.binary())], fields=list(kind.value_type)
        )
        return pa.ListArray.from_arrays(pa.array(places, pa.int32()), structs, type=kind)


def records_of(
    fetched: CompletedFetch, first: int, end: int, from_ms: int | None, until_ms: int | None, *, committed: bool
) -> Iterator[tuple[str, Sequence[Record]]]:
    """The records of a fetch from `first` on, before `end`, and within the times, with their kind of timestamp.

    Control records are left out, and with `committed` those of aborted transactions. CorruptBatchError.
    """
    aborted = AbortedFilter(fetched.aborted) if committed else None
    reader = BatchReader(fetched.buffer, whole=True)
    while (view := reader.next()) is not None:
        verify(view)
        if aborted is not None and aborted.drops(view):
            continue
        if view.is_control or view.last_offset < first or (view.magic >= 2 and view.count == 0):
            continue
        if view.magic >= 2 and view.base_offset >= end:
            return
        if view.magic >= 2 and from_ms is not None and view.max_timestamp < from_ms:
            continue
        records: Sequence[Record] = unpack(view, first)[0]
        if records and records[-1][0] >= end:
            records = [each for each in records if each[0] < end]
        if from_ms is not None or until_ms is not None:
            low = from_ms if from_ms is not None else -(1 << 63)
            high = until_ms if until_ms is not None else 1 << 63
            records = [each for each in records if low <= each[1] < high]
        if records:
            yield _type_of(view), records


def _type_of(view: BatchView) -> str:
    if view.magic == 0:
        return NO_TIMESTAMP_TYPE
    if view.magic == 1:
        return LOG_APPEND_TIME if view.data[_V1_ATTRIBUTES_AT] & LOG_APPEND_TIME_BIT else CREATE_TIME
    return LOG_APPEND_TIME if view.log_append_time else CREATE_TIME


def _microseconds(timestamp: int) -> int | None:
    if timestamp == NO_TIMESTAMP:
        return None
    return max(_EARLIEST_MS, min(timestamp, _LATEST_MS)) * 1000


def _nullable(data: bytes, at: int) -> tuple[bytes | None, int]:
    length = data[at]
    if length < 0x80:
        length, at = (length >> 1) ^ -(length & 1), at + 1
    else:
        length, at = varint.decode(data, at)
    if length < 0:
        return None, at
    end = at + length
    if end > len(data):
        raise ValueError
    return data[at:end], end


def _headers(data: bytes, at: int) -> Headers:
    count, at = varint.decode(data, at)
    found = []
    for _ in range(count):
        key, at = _nullable(data, at)
        value, at = _nullable(data, at)
        if key is None:
            raise ValueError
        found.append((key, value))
    return found
