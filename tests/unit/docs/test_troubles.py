"""docs/troubles.md quotes lines as the code writes them."""

from __future__ import annotations

import re

import pytest

from tests.paths import ROOT

PAGE = (ROOT / "docs" / "troubles.md").read_text("utf-8")
# Lines of the log or of a status: at least five words, and no request.
QUOTED = [text for text in re.findall(r"`([^`]+)`", PAGE) if len(text.split()) >= 5 and not text.startswith("GET ")]
# Names and figures of the examples stand for what the code fills in.
_FILLED = re.compile(r"\b(?:A\.orders|orders-0|orders|source|target|producing|READ|WRITE|\d+)\b|[:;,()…]")
_CONTINUED = re.compile(r"\"\s*\n\s*f?\"")
SOURCE = _CONTINUED.sub(
    "", "\n".join(path.read_text("utf-8") for path in sorted((ROOT / "mirror_connect").rglob("*.py")))
)


def fixed(text: str) -> list[str]:
    """The pieces of a line that the code writes as they are."""
    return [piece for piece in (each.strip() for each in _FILLED.split(text)) if len(piece.split()) > 2]


@pytest.mark.parametrize("text", QUOTED, ids=lambda text: "_".join(text.split()[:6]))
def test_quoted_lines_are_those_of_the_code(text: str) -> None:
    assert fixed(text), "nothing to compare"
    assert [piece for piece in fixed(text) if piece not in SOURCE] == []


def test_there_are_quoted_lines() -> None:
    assert len(QUOTED) >= 7
