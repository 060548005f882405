"""Headers behind a record's own: nothing else of the record changes, and none comes twice."""

from __future__ import annotations

import pytest

from mirror_connect.kafka_io.records.context_headers import MESSAGE, OFFSET, TOPIC, header, with_headers
from mirror_connect.kafka_io.records.record_parts import RecordParts, parts_of, rest_of

ADDED = [header(TOPIC, "orders"), header(OFFSET, "7"), header(MESSAGE, "größer \ud800")]
AS_PARTS = (
    (b"__connect.errors.topic", b"orders"),
    (b"__connect.errors.offset", b"7"),
    (b"__connect.errors.exception.message", "größer ?".encode()),
)


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param(RecordParts(b"k", b"v"), id="no_headers"),
        pytest.param(RecordParts(None, None, ((b"a", None), (b"a", b""), (b"", b"x" * 300))), id="odd_headers"),
        pytest.param(RecordParts(b"", b"__connect.errors.topic"), id="the_name_in_the_value"),
        pytest.param(RecordParts(b"k", b"v", tuple((b"%d" % n, b"") for n in range(70))), id="the_count_gets_longer"),
    ],
)
def test_headers_come_behind_those_that_are_there(parts: RecordParts) -> None:
    found = parts_of(with_headers(rest_of(parts), ADDED))
    assert found == parts._replace(headers=(*parts.headers, *AS_PARTS))


def test_a_header_that_is_there_stays_as_it_is() -> None:
    parts = RecordParts(b"k", b"v", ((b"__connect.errors.offset", b"1"), (b"other", b"2")))
    found = parts_of(with_headers(rest_of(parts), ADDED))
    assert found.headers == (*parts.headers, AS_PARTS[0], AS_PARTS[2])
