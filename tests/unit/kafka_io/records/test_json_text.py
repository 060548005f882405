"""What counts as JSON, and that numbers, order and characters stay what they are."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.json_steps.timestamps import Instant
from mirror_connect.connectors.record_errors import StepError
from mirror_connect.kafka_io.records.json_text import read, written


@pytest.mark.parametrize(
    "text",
    [
        b'{"z":1,"a":[true,false,null],"z2":{}}',
        b"18446744073709551617",
        b"-123456789012345678901234567890",
        b"0.1",
        b"1e+300",
        '"ü😀\u2028"'.encode(),
        b'"\\ud800"',
        b'"\\"\\\\\\u0000\\n"',
    ],
)
def test_what_is_read_is_written_as_it_was(text: bytes) -> None:
    assert written(read(text)) == text


@pytest.mark.parametrize("text", [None, b"", b" \r\n\t", b"null", b" null "])
def test_no_text_and_a_blank_one_are_null(text: bytes | None) -> None:
    assert read(text) is None
    assert written(None) is None


@pytest.mark.parametrize(
    "text",
    [
        *(
            b"NaN",
            b"[Infinity]",
            b"-Infinity",
            b"{",
            b"[1,]",
            b"{'a':1}",
            b'{"a":1} x',
            b"007",
            b"1.",
            b".5",
            b"+1",
            b"tru",
        ),
        *(
            b'"\t"',
            b"/*c*/1",
            b"\xff",
            b'"\xed\xa0\x80"',
            b"\xef\xbb\xbf{}",
            '{"a":1}'.encode("utf-16"),
            b"[" * 100_000,
        ),
        b"1" * 5_000,
    ],
)
def test_what_is_no_json_is_refused_without_a_part_of_it(text: bytes) -> None:
    with pytest.raises(StepError, match=r"^is (no|JSON that is nested)"):
        read(text)


def test_what_json_can_not_hold_is_refused() -> None:
    with pytest.raises(StepError, match="too large"):
        written(read(b"1e400"))
    with pytest.raises(StepError, match="Timestamp"):
        written({"t": Instant(0)})
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(StepError, match="nested"):
        written(deep)
