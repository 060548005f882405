"""Which functions of users a worker takes, and what is said of those that can't be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from mirror_connect.connectors.user_code.user_class import PLUGIN_PATH
from mirror_connect.connectors.user_code.user_function import (
    ALLOWED,
    entry_problem,
    function_problem,
    is_allowed,
    name_problem,
    refusal,
)


@pytest.mark.parametrize("name", ["masking:mask", "a.b_c.d2:_x", "größe:ä"])
def test_names_that_may_be(name: str) -> None:
    assert name_problem(name) is None


@pytest.mark.parametrize(
    "name", ["", "masking", "masking:", ":mask", "a..b:c", "a:b:c", "a:b.c", "a b:c", "os;x:y", "1:a"]
)
def test_names_that_may_not_be(name: str) -> None:
    assert name_problem(name) == "it must be written package.module:function"


@pytest.mark.parametrize("entry", ["masking", "a.b", "a.b:c"])
def test_entries_of_the_workers_list(entry: str) -> None:
    assert entry_problem(entry) is None
    assert entry_problem(f"{entry}.*") is not None


@pytest.mark.parametrize(
    ("entry", "allowed"),
    [
        ("company", True),
        ("company.masking", True),
        ("company.masking:mask", True),
        ("company.mask", False),
        ("company.masking.mask", False),
        ("company.masking:mas", False),
        ("comp", False),
        ("other", False),
    ],
)
def test_an_entry_allows_whole_packages_modules_or_functions(entry: str, allowed: bool) -> None:
    assert is_allowed("company.masking:mask", [entry]) is allowed
    assert (refusal("company.masking:mask", ["x", entry]) is None) is allowed


def test_nothing_is_allowed_by_default() -> None:
    assert refusal("masking:mask", ()) == (
        "the worker's file must allow it: spark.transform.python.allowed is not set. "
        "Name the function there, its module or its package"
    )


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(PLUGIN_PATH, str(tmp_path))
    monkeypatch.setenv(ALLOWED, "masking_here,nothing_here")
    return tmp_path / "masking_here.py"


@pytest.mark.parametrize(
    ("text", "name", "problem"),
    [
        ("def mask(records): print('{}')", "masking_here:mask", None),
        ("class C:\n def __call__(self, records): ...\nmask = C()", "masking_here:mask", None),
        ("", "masking_here:mask", "module masking_here has no function mask"),
        (
            "import no_such_module",
            "masking_here:mask",
            "importing masking_here raised ModuleNotFoundError: No module named 'no_such_module' "
            "(line 1 of masking_here.py)",
        ),
        (
            "def mask(:",
            "masking_here:mask",
            "importing masking_here raised SyntaxError: invalid syntax (masking_here.py, line 1)",
        ),
        (
            "from os import system",
            "masking_here:system",
            "masking_here has system from posix, which spark.transform.python.allowed does not name",
        ),
        ("import os\nos._exit(3)", "masking_here:mask", "importing it ended its process (exit code 3)"),
        ("raise SystemExit(4)", "masking_here:mask", "importing it ended its process (exit code 4)"),
    ],
)
def test_what_is_wrong_with_a_function_is_found_by_importing_it(
    module: Path, text: str, name: str, problem: str | None
) -> None:
    module.write_text(text)
    assert function_problem(name) == problem


def test_a_module_that_is_not_there_is_named(module: Path) -> None:
    found = function_problem("nothing_here:mask")
    assert found is not None
    assert found.startswith("there is no module nothing_here for ")


def test_an_import_that_does_not_end_is_given_up(module: Path) -> None:
    module.write_text("import time\ntime.sleep(60)")
    assert function_problem("masking_here:mask", 1.5) == "importing it takes more than 1.5 s"
