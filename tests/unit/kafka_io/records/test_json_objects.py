"""What follows a JSON object: compiled against Python, and both against json."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mirror_connect.kafka_io.records import compiled
from mirror_connect.kafka_io.records.json_objects import trailing_tokens
from mirror_connect.kafka_io.records.record_columns import BytesColumn

BY = ["C", "Python"]


def column(texts: Sequence[bytes]) -> BytesColumn:
    offsets = [0, *accumulate(map(len, texts))]
    return BytesColumn(None, struct.pack(f"<{len(offsets)}i", *offsets), b"".join(texts))


def found_by(by: str, texts: Sequence[bytes]) -> list[int]:
    with pytest.MonkeyPatch.context() as patch:
        if by == "Python":
            patch.setattr(compiled, "functions", None)
        return list(trailing_tokens(column(texts), len(texts)))


@pytest.mark.parametrize("by", BY)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"id":1}', False),
        (b' {"id":1}\n\t\r ', False),
        (b'{"id":1}{"id":2}', True),
        (b'{"id":1},{"id":2}', True),
        (b'{"id":1}]', True),
        (b'{"a":{"b":[{}]}} x', True),
        (b'{"a":"}{"}', False),
        (b'{"a":"\\"}{"}', False),
        (b'{"a":"\\\\"}{"}', True),
        (b"{} \x00", True),
        (b"", False),
        (b"  ", False),
        (b'[{"id":1}]{}', False),
        (b'{"open":"', False),
        (b'{"open":"\\', False),
        (b'{"open":"}\n', False),
    ],
)
def test_only_what_has_more_than_space_behind_its_object_is_found(by: str, text: bytes, expected: bool) -> None:
    assert found_by(by, [b"{}", text, b"{}"]) == ([1] if expected else [])


@given(
    some.lists(
        some.recursive(
            some.none() | some.integers() | some.text(some.sampled_from('a"\\{}[] é')),
            lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=3), inner, max_size=3),
        ),
        min_size=1,
        max_size=3,
    ),
    some.sampled_from(["", " ", "\n", ",", "x"]),
)
def test_both_say_what_json_says(values: list[object], behind: str) -> None:
    text = "".join(json.dumps(each, ensure_ascii=False) for each in values) + behind
    first, end = json.JSONDecoder().raw_decode(text)
    wanted = [0] if isinstance(first, dict) and text[end:].strip(" \t\r\n") else []
    assert [found_by(by, [text.encode()]) for by in BY] == [wanted, wanted]


@given(some.lists(some.text(some.sampled_from('{}[]"\\ a\n'), max_size=12).map(str.encode), max_size=20))
def test_any_bytes_are_the_same_to_both(texts: list[bytes]) -> None:
    assert found_by("C", texts) == found_by("Python", texts)


@pytest.mark.parametrize("by", BY)
def test_a_column_with_fewer_rows_is_refused(by: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if by == "Python":
            patch.setattr(compiled, "functions", None)
        with pytest.raises(ValueError, match="fewer rows"):
            trailing_tokens(column([b"{}"]), 2)
