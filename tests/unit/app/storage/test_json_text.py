from __future__ import annotations

from typing import Any

import pytest

from mirror_connect.app.storage import json_text


@pytest.mark.parametrize(
    ("value", "written"),
    [
        pytest.param({"a": None, "b": [1, True, "x"]}, '{"a":null,"b":[1,true,"x"]}', id="compact_in_own_order"),
        pytest.param("é😀/\u2028\x7f", '"é😀/\u2028\x7f"', id="only_what_must_be_is_escaped"),
        pytest.param('\\"\n\t\r\b\f', '"\\\\\\"\\n\\t\\r\\b\\f"', id="short_escapes"),
        pytest.param("\x00\x1f\\u001f", '"\\u0000\\u001F\\\\u001f"', id="control_characters_in_upper_case_hex"),
        pytest.param(2**53 + 1, "9007199254740993", id="long_integers_exactly"),
    ],
)
def test_json_is_written_as_kafka_writes_it(value: Any, written: str) -> None:
    assert json_text.encode(value) == written.encode()


@pytest.mark.parametrize("data", [None, b"", b"{", b"\xff", b"[1]"])
def test_what_is_no_json_object_is_read_as_none(data: bytes | None) -> None:
    assert json_text.decode_object(data) is None
