"""What the pages refer to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.paths import ROOT

# Pages name modules by their paths in the package.
PACKAGE = ROOT / "mirror_connect"
PAGES = sorted(
    path
    for path in [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("tests/**/*.md"),
        *ROOT.glob("deploy/**/*.md"),
    ]
    if "benchmarks" not in path.parts
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
_FILE = re.compile(r"`((?:app|cli|connectors|kafka_io|spark_jobs|verify|deploy|docs|tests|bin)/[\w./-]+\.\w+)`")
_TEST = re.compile(r"`(test_[a-z0-9_]+)`")


def _anchors(page: Path) -> set[str]:
    """The headings as the usual renderers name them: lower case, spaces to hyphens, punctuation gone."""
    headings = _HEADING.findall(page.read_text("utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_somewhere(page: Path) -> None:
    broken = []
    for link in _LINK.findall(page.read_text("utf-8")):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_are_named_exist(page: Path) -> None:
    assert [
        name
        for name in _FILE.findall(page.read_text("utf-8"))
        if not any((folder / name).exists() for folder in (ROOT, PACKAGE))
    ] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tests_that_are_named_exist(page: Path) -> None:
    named = set(_TEST.findall(page.read_text("utf-8")))
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    files = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    assert sorted(name for name in named if f"def {name}(" not in source and name not in files) == []
