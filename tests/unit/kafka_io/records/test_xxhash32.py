"""xxHash-32 of short inputs, against values of the reference implementation."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.records.xxhash32 import xxhash32


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"", 0x02CC5D05), (b"a", 0x550D7456), (b"abc", 0x32D153FF)],
)
def test_known_values(data: bytes, expected: int) -> None:
    assert xxhash32(data) == expected


def test_sixteen_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="fewer than 16 bytes"):
        xxhash32(b"x" * 16)
