"""JSON with the lines of its members, read as Python's own parser reads it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mirror_connect.check.json_lines import Node, read_json


def _plain(node: Node) -> Any:
    if isinstance(node.value, dict):
        return {name: _plain(member) for name, member in node.value.items()}
    return [_plain(item) for item in node.value] if isinstance(node.value, list) else node.value


def _texts(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _texts(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_texts(item) for item in value]
    return value if value is None or isinstance(value, str) else json.dumps(value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(VALUES, st.sampled_from([None, 1]))
def test_values_are_those_of_pythons_parser(value: Any, indent: int | None) -> None:
    assert _plain(read_json(json.dumps(value, indent=indent))) == _texts(value)


def test_members_have_the_lines_of_their_keys() -> None:
    node = read_json('{"a": 1,\n\n "b": {\n  "c":\n   "x\\ny"}, "a": 2}')
    assert isinstance(node.value, dict)
    assert [(name, member.line) for name, member in node.value.items()] == [("a", 5), ("b", 3)]
    inner = node.value["b"].value
    assert isinstance(inner, dict)
    assert (inner["c"].line, inner["c"].value, node.value["a"].value) == (4, "x\ny", "2")


@pytest.mark.parametrize(
    "text",
    ["", "{", '{"a"', '{"a": }', "{a: 1}", "[1,]", '{"a": 1,}', "[1 2]", "01", "1x", "{} {}", '"a\nb"', "[" * 200],
)
def test_malformed_texts_are_refused_with_their_line_and_nothing_of_them(text: str) -> None:
    with pytest.raises(ValueError, match=r"it is not valid JSON: .* line 1") as caught:
        read_json(text)
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)
    assert len(str(caught.value)) < 120


def test_a_file_of_many_lines_is_read_at_once() -> None:
    text = "[\n" + "1,\n" * 100_000 + "1]"
    begun = time.process_time()
    node = read_json(text)
    # Counting the lines anew for each value takes minutes.
    assert time.process_time() - begun < 10
    assert isinstance(node.value, list)
    assert [node.value[place].line for place in (0, 1, -1)] == [2, 3, 100_002]
