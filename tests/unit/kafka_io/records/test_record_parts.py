"""Key, value and headers out of a record's bytes, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.record_batch import BatchView, NewRecord, stamp
from mirror_connect.kafka_io.records.record_parts import RecordParts, parts_of, rest_of
from mirror_connect.kafka_io.records.unpacked_records import unpack

CONTENT = st.binary(max_size=20)


@given(
    st.builds(
        RecordParts,
        st.none() | CONTENT,
        st.none() | CONTENT,
        st.lists(st.tuples(CONTENT, st.none() | CONTENT)).map(tuple),
    )
)
def test_parts_are_read_as_they_were_written(parts: RecordParts) -> None:
    assert parts_of(rest_of(parts)) == parts


def test_the_bytes_are_those_of_a_batch() -> None:
    batch = build([NewRecord(b"k", None, 5, (("h", b"v"), ("ü", b"")))])
    ((_, _, rest),) = unpack(BatchView(memoryview(stamp(batch, -1, -1, -1))), 0)[0]
    parts = RecordParts(b"k", None, ((b"h", b"v"), ("ü".encode(), b"")))
    assert (parts_of(rest), rest_of(parts)) == (parts, rest)


@pytest.mark.parametrize("cut", range(1, 8))
def test_bytes_that_are_cut_off_are_no_record(cut: int) -> None:
    rest = rest_of(RecordParts(b"key", b"value", ((b"h", b"v"),)))
    with pytest.raises((ValueError, IndexError)):
        parts_of(rest[:-cut])
