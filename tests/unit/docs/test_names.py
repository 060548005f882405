"""Classes, functions and constants that the pages for contributors name are defined."""

from __future__ import annotations

import re

import pytest

from tests.paths import ROOT

PAGES = ["docs/contributing.md", "docs/testing.md", "docs/worker-and-tasks.md"]
# A class with or without a method, a function, a constant: `Cluster.send`, `boot_clock`, `OWN_KEYS`.
_NAMED = (
    re.compile(r"`([A-Z][a-z]+[A-Za-z]*)(?:\.[a-z_]+)?`"),
    re.compile(r"`[A-Z][A-Za-z]+\.([a-z_]+)`"),
    re.compile(r"`([a-z]+_[a-z_]+)`"),
    re.compile(r"`([A-Z]+_[A-Z_]+)`"),
)
# Spark's, the environment's, and a folder.
FOREIGN = {"StreamingQuery", "MODEL_EXAMPLES", "MODEL_SCHEDULES", "MODEL_SEED", "spark_jobs"}
SOURCE = "\n".join(
    path.read_text("utf-8")
    for folder in ("mirror_connect", "tests", "deploy")
    for path in sorted((ROOT / folder).rglob("*.py"))
)


def defined(name: str) -> bool:
    return re.search(rf"^\s*(?:(?:async )?def|class) {name}\b|^\s*{name}\b(?::| =)", SOURCE, re.MULTILINE) is not None


@pytest.mark.parametrize("page", PAGES)
def test_names_in_the_code_are_defined(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    named = {name for pattern in _NAMED for name in pattern.findall(text)} - FOREIGN
    assert named, "nothing to compare"
    assert sorted(name for name in named if not defined(name)) == []


def test_a_name_that_nothing_defines_is_found() -> None:
    assert defined("ClusterAdmin")
    assert not defined("Nobody" + "DefinesThis")
