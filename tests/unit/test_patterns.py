"""What our own regular expressions must not hold, as not every Python 3.11 reads it rightly."""

from __future__ import annotations

import ast
import re

import pytest

from tests.paths import ROOT

SOURCES = sorted((ROOT / "mirror_connect").rglob("*.py"))
# `(…)*+`, but not Kafka Connect's `()*+,` of characters that may stand in an address.
POSSESSIVE_GROUP = re.compile(r"[^(\\]\)(?:[*+?]|\{[0-9,]+\})\+")


@pytest.mark.parametrize("pattern", [r"(?:a|b)*+", r"(a{2})++", r"(?:(x))?+y", r"(ab){1,2}+"])
def test_a_possessive_group_is_found(pattern: str) -> None:
    assert POSSESSIVE_GROUP.search(pattern)


def test_no_pattern_has_a_possessive_group_which_finds_too_little_before_python_3_11_5() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and POSSESSIVE_GROUP.search(node.value)
    ]
    assert (found, len(SOURCES) > 100) == ([], True)
