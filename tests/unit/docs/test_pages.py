"""docs/README.md lists every page, decisions/README.md every decision, and the architecture stays one page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.paths import ROOT

DOCS = ROOT / "docs"
MOST_WORDS = 1500


@pytest.mark.parametrize("folder", [DOCS, DOCS / "decisions"], ids=lambda folder: folder.name)
def test_every_page_is_listed(folder: Path) -> None:
    listed = (folder / "README.md").read_text("utf-8")
    pages = sorted(page.name for page in folder.glob("*.md") if page.name != "README.md")
    assert [page for page in pages if f"({page})" not in listed] == []


def test_the_architecture_is_one_page() -> None:
    assert len((DOCS / "architecture.md").read_text("utf-8").split()) <= MOST_WORDS
