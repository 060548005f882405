"""Record batches written and read by aiokafka's codec, which the product's own functions are held against."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from typing import NamedTuple

import google_crc32c
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
HEADER = struct.Struct(">qiibIhiqqqhii")
NOW = 1_790_000_000_000


class Plain(NamedTuple):
    """A record as a consumer sees it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    @property
    def content(self) -> tuple[object, ...]:
        """Everything but the offset."""
        return self[1:]


def contents(records: Sequence[Plain]) -> list[tuple[object, ...]]:
    """What must be equal on the target."""
    return [record.content for record in records]


def some_records(seed: int, count: int, *, first: int = 0, gaps: bool = False, size: int = 200) -> list[Plain]:
    """Records of all kinds: null and empty keys and values, headers without value, times that go back."""
    rng = random.Random(seed)
    offsets = sorted(rng.sample(range(count * 3), count)) if gaps else range(count)
    return [
        Plain(
            first + offset,
            NOW + rng.randint(-100_000, 100_000),
            rng.choice([None, b"", rng.randbytes(rng.randint(1, 40))]),
            rng.choice([None, b"", rng.randbytes(rng.randint(1, size)), b"text " * rng.randint(1, size)]),
            rng.choice([(), (("a", b"1"), ("none", None), ("a", b"")), (("größe", rng.randbytes(300)),)]),
        )
        for offset in offsets
    ]


def encode(
    records: Sequence[Plain], codec: int = 0, *, base: int | None = None, last: int | None = None, **header: int
) -> bytes:
    """A batch from offset `base` to `last` (by default those of the records); `header`: fields of `patched`."""
    base = records[0].offset if base is None else base
    builder = DefaultRecordBatchBuilder(2, codec, 0, -1, -1, -1, 1 << 30)
    for record in records:
        added = builder.append(record.offset - base, record.timestamp, record.key, record.value, list(record.headers))
        assert added is not None
    if last is not None:
        header["last_delta"] = last - base
    return patched(bytes(builder.build()), base=base, **header)


_FIELDS = (
    "base",
    "length",
    "leader_epoch",
    "magic",
    "crc",
    "attributes",
    "last_delta",
    "base_timestamp",
    "max_timestamp",
)
FIELDS = (*_FIELDS, "producer_id", "producer_epoch", "base_sequence", "count")


def patched(batch: bytes, **fields: int) -> bytes:
    """The batch with other header fields and a CRC that fits; attributes are added to those it has."""
    values = dict(zip(FIELDS, HEADER.unpack_from(batch), strict=True))
    fields["attributes"] = values["attributes"] | fields.get("attributes", 0)
    values.update(fields)
    content = bytearray(HEADER.pack(*values.values()) + batch[HEADER.size :])
    struct.pack_into(">I", content, 17, google_crc32c.value(bytes(content[21:])))
    return bytes(content)


def with_records(batch: bytes, records: bytes, **fields: int) -> bytes:
    """The batch with other bytes behind its header, length and CRC fitting."""
    return patched(batch[: HEADER.size] + records, length=HEADER.size - 12 + len(records), **fields)


def decode(batch: bytes) -> list[Plain]:
    """The records, after aiokafka has checked the CRC."""
    reader = DefaultRecordBatch(batch)
    assert reader.validate_crc()
    return [Plain(r.offset, r.timestamp, r.key, r.value, tuple(r.headers)) for r in reader]
