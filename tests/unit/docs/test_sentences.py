"""No sentence of the pages is longer than 25 words.

A word is what stands between spaces. Code in backticks counts as one, a link as its text; code blocks and headings are
left out. A cell of a table, an item of a list and a paragraph end a sentence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.paths import ROOT

LONGEST = 25
# Left out: what is generated from the code.
NOT_HELD = {"docs/configuration.md", "docs/files.md"}
PAGES = sorted(
    {str(page.relative_to(ROOT)) for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]} - NOT_HELD,
)
_FENCE = re.compile(r"\s*```")
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s+")
_CODE = re.compile(r"`[^`]*`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
# Behind the mark there may be a closing quote, bracket or emphasis. Decimals and file names have no space behind the dot.
_END = re.compile(r"(?<=[.!?])[\"')*”]*\s+")
_WORD = re.compile(r"\w")


class Sentence(NamedTuple):
    """`line`: of the page, from 1, where its paragraph begins."""

    line: int
    text: str

    @property
    def words(self) -> int:
        """How many; dashes and arrows that stand alone are none."""
        return sum(1 for word in self.text.split() if _WORD.search(word))


def sentences(page: str) -> Iterator[Sentence]:
    """All sentences of a Markdown page."""
    for line, text in _blocks(page):
        plain = _LINK.sub(r"\1", _CODE.sub("code", text)).replace("**", "")
        for sentence in _END.split(plain):
            yield Sentence(line, sentence.strip())


def _blocks(page: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, items and cells, each with its first line."""
    gathered: list[str] = []
    first = 0
    in_code = False
    for number, line in enumerate([*page.splitlines(), ""], 1):
        fence = _FENCE.match(line) is not None
        item = _ITEM.match(line) is not None
        # An indented line is code behind an empty line, but belongs to a nested item behind its text.
        code = line.startswith("    ") and not gathered and not item
        alone = fence or in_code or code or line.startswith(("#", "|", "<")) or not line.strip()
        if gathered and (alone or item):
            yield first, " ".join(gathered)
            gathered = []
        if fence:
            in_code = not in_code
        elif not alone:
            first = first if gathered else number
            gathered.append(_ITEM.sub("", line, count=1).strip() if item else line.strip())
        elif line.startswith("|") and not in_code:
            # A bar inside of code is written with a backslash.
            yield from ((number, cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip("| ")))
    if gathered:
        yield first, " ".join(gathered)


def too_long(name: str, page: str) -> list[str]:
    """A line for each sentence that has too many words."""
    return [f"{name}:{s.line}: {s.words} words: {s.text}" for s in sentences(page) if s.words > LONGEST]


@pytest.mark.parametrize("name", PAGES)
def test_no_sentence_is_longer_than_25_words(name: str) -> None:
    found = too_long(name, Path(ROOT / name).read_text("utf-8"))
    assert not found, "split these sentences:\n" + "\n".join(found)


LONG = " ".join(["word"] * 26)
SHORT = " ".join(["word"] * 25)


@pytest.mark.parametrize(
    ("page", "lines"),
    [
        pytest.param(f"Before.\n\n{LONG}.\n", [3], id="a_paragraph"),
        pytest.param(f"One.\n{SHORT[:60]}\n{SHORT[60:]} and one more.", [1], id="over_several_lines"),
        pytest.param(f"- {SHORT}.\n- {LONG}\n", [2], id="an_item"),
        pytest.param(f"1. One.\n   - Two\n     {SHORT}.\n    - {LONG}.", [2, 4], id="nested_items"),
        pytest.param(f"Before.\n\n    {LONG}\n", [], id="an_indented_code_block"),
        pytest.param(f"| a | b |\n| --- | --- |\n| {SHORT} | {LONG} |", [3], id="a_cell"),
        pytest.param(f"{SHORT}.\n{SHORT}! {SHORT}? **{SHORT}.** {SHORT}", [], id="25_words"),
        pytest.param(f"```text\n{LONG}\n```\n", [], id="a_code_block"),
        pytest.param(f"`{LONG}` [{SHORT[5:]}](a.md)", [], id="code_and_a_link"),
        pytest.param(f"{SHORT} → {SHORT}"[:124] + " – →", [], id="an_arrow"),
    ],
)
def test_long_sentences_are_found_with_their_lines(page: str, lines: list[int]) -> None:
    assert [int(line.split(":")[1]) for line in too_long("page", page)] == lines
