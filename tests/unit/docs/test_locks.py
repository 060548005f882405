"""The lock files: whole, with hashes, of the published files alone, and one the part of the other."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.paths import ROOT

LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock", "requirements-tools.lock")
_PIN = re.compile(r"([a-z0-9-]+)==([^ ]+)(?: ; [^\\\n]+)? \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)")


def pins(name: str) -> dict[str, tuple[str, str]]:
    """Package → its version and hashes. Every line of the file has to be a part of that."""
    text = "".join(line for line in (ROOT / name).read_text().splitlines(True) if not line.startswith("#"))
    assert _PIN.sub("", text).strip() == ""
    return {found[1]: (found[2], found[3]) for found in _PIN.finditer(text)}


@pytest.mark.parametrize("name", LOCKS)
def test_each_line_is_a_version_with_its_hashes_and_names_no_registry(name: str) -> None:
    assert pins(name)
    assert "://" not in (ROOT / name).read_text()


def test_what_runs_is_what_is_tested() -> None:
    tested = pins("requirements-dev.lock")
    assert {name: tested.get(name) for name in pins("requirements.lock")} == pins("requirements.lock")


def test_what_tests_need_is_not_among_what_runs() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=]", each)[0].lower() for each in project["optional-dependencies"]["dev"]}
    assert names & pins("requirements.lock").keys() == set()
    assert names <= pins("requirements-dev.lock").keys()
