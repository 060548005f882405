"""mirror_connect/ROOM/x.py has its unit test at tests/unit/ROOM/test_x.py, or a row names the test that tests it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.paths import ROOT
from tests.unit.tested_elsewhere import TESTED_ELSEWHERE

_ROW: Final = re.compile(r"(?P<test>tests/\S+/test_\w+\.py): \S.*?(?:, through (?P<through>\S+\.py))?")
_MODULE: Final = re.compile(r"\b(?:mirror_connect|tests)(?:\.\w+)+")
_FROM: Final = re.compile(r"from ((?:mirror_connect|tests)[\w.]*) import (\([^)]*|[^\n(]+)")
# Broker and Spark tests start the whole product: what they import says little about what they test.
_WHOLE_PRODUCT: Final = ("tests/integration/", "tests/e2e/", "tests/spark/", "tests/contract/")


def _modules() -> list[str]:
    package = ROOT / "mirror_connect"
    paths = (path.relative_to(package).as_posix() for path in package.rglob("*.py"))
    return sorted(path for path in paths if not path.endswith("__init__.py"))


def _own_test(module: str) -> Path:
    path = Path(module)
    return ROOT / "tests" / "unit" / path.parent / f"test_{path.name}"


@cache
def _imported(file: str) -> frozenset[str]:
    """The files of this repository that a file names as modules: in imports, or to start them as processes."""
    text = (ROOT / file).read_text("utf-8")
    names = set(_MODULE.findall(text))
    for package, imported in _FROM.findall(text):
        names |= {f"{package}.{name}" for name in re.findall(r"\w+", imported)}
    return frozenset(path for path in (name.replace(".", "/") + ".py" for name in names) if (ROOT / path).exists())


def _reaches(test: str, wanted: str) -> bool:
    """Whether a test file imports a file, itself or by the fakes and modules that it imports."""
    seen, waiting = {test}, [test]
    while waiting:
        found = _imported(waiting.pop()) - seen
        seen |= found
        waiting += found
    return wanted in seen


def _faults(modules: Iterable[str], rows: Mapping[str, str]) -> list[str]:
    """What is wrong, a line for each module; `rows` as in TESTED_ELSEWHERE."""
    present = set(modules)
    without = [module for module in sorted(present) if module not in rows and not _own_test(module).exists()]
    faults = [
        f"{module}: neither {_own_test(module).relative_to(ROOT)} nor a row in tested_elsewhere.py"
        for module in without
    ]
    for module, row in rows.items():
        fault = _fault(module, row, present)
        if fault:
            faults.append(f"{module}: {fault}")
    return faults


def _fault(module: str, row: str, present: set[str]) -> str | None:
    if module not in present:
        return "a row for a module that does not exist"
    if _own_test(module).exists():
        return "a row for a module with a test file of its own"
    match = _ROW.fullmatch(row)
    if match is None:
        return "the row is not 'tests/…/test_x.py: reason'"
    test, through = match["test"], match["through"] or ""
    middle = through if through.startswith("tests/") or not through else f"mirror_connect/{through}"
    links = [file for file in (test, middle, f"mirror_connect/{module}") if file]
    missing = [f"{file} does not exist" for file in links if not (ROOT / file).exists()]
    if missing or test.startswith(_WHOLE_PRODUCT):
        return missing[0] if missing else None
    if links[-1] not in _imported(links[-2]):
        return f"{links[-2]} does not import it"
    return None if _reaches(test, links[-2]) else f"{test} does not import {middle}"


def test_each_module_has_its_test_file_or_a_row() -> None:
    assert _faults(_modules(), TESTED_ELSEWHERE) == []


def test_the_rows_are_sorted() -> None:
    assert list(TESTED_ELSEWHERE) == sorted(TESTED_ELSEWHERE)


@pytest.mark.parametrize(
    ("module", "row", "fault"),
    [
        pytest.param("gone.py", "tests/unit/test_mirror_paths.py: x", "does not exist", id="no_such_module"),
        pytest.param("connectors/clock.py", "tests/unit/connectors/test_clock.py: x", "of its own", id="own_test"),
        pytest.param("app/errors.py", "tests/unit/test_mirror_paths.py", "the row is not", id="no_reason"),
        pytest.param("app/errors.py", "tests/unit/test_gone.py: x", "test_gone.py does not exist", id="no_such_test"),
        pytest.param("app/errors.py", "tests/unit/test_mirror_paths.py: x", "not import it", id="not_imported"),
        pytest.param(
            "app/errors.py",
            "tests/unit/app/rest/test_connectors.py: x, through app/gone.py",
            "app/gone.py does not exist",
            id="through_no_file",
        ),
        pytest.param(
            "app/errors.py",
            "tests/unit/app/rest/test_connectors.py: x, through connectors/clock.py",
            "connectors/clock.py does not import it",
            id="through_a_stranger",
        ),
        pytest.param(
            "app/errors.py",
            "tests/unit/connectors/test_clock.py: x, through app/herder/config_writes.py",
            "does not import mirror_connect/app/herder/config_writes.py",
            id="through_something_far",
        ),
    ],
)
def test_a_wrong_row_is_found(module: str, row: str, fault: str) -> None:
    (found,) = _faults([each for each in ("app/errors.py", "connectors/clock.py") if each == module], {module: row})
    assert fault in found


def test_a_module_without_test_and_row_is_found() -> None:
    rows = {module: row for module, row in TESTED_ELSEWHERE.items() if module != "app/errors.py"}
    (found,) = _faults(_modules(), rows)
    assert found.startswith("app/errors.py: neither tests/unit/app/test_errors.py")
