"""Lists Kafka's own tests of MirrorMaker 2 that no test of ours stands for, and why: `python -m docs.mm2_checklist`.

The names are in tests/mm2_checklist.txt, one `Class.method` a line. A test of ours that shows the same is marked
`kafka_test("Class.method")`; why there is none stands in a table of docs/compatibility.md.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
MARKER: Final = "kafka_test"
HEADING: Final = "## Kafka's own tests"
_ROW: Final = re.compile(r"^\| (?P<names>`.*`) \| (?P<why>.+) \|$", re.MULTILINE)


@cache
def names() -> list[str]:
    """Every test of Kafka's, in the order of the file."""
    lines = (ROOT / "tests" / "mm2_checklist.txt").read_text("utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@cache
def marked() -> dict[str, list[str]]:
    """Kafka's test → ours that are marked with it, as `file::function`."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for name in _marks(function):
                    found.setdefault(name, []).append(f"{path.relative_to(ROOT)}::{function.name}")
    return found


def reasons() -> dict[str, str]:
    """Kafka's test → why there is none of ours, as docs/compatibility.md tells it."""
    page = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    section = page.partition(HEADING)[2].partition("\n## ")[0]
    return {
        name: row["why"]
        for row in _ROW.finditer(section)
        for cell in row["names"].split(", ")
        for name in _expanded(cell.strip("`"))
    }


def _marks(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    # Marks of single cases stand inside parametrize.
    for node in (inner for decorator in function.decorator_list for inner in ast.walk(decorator)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == MARKER:
            for argument in node.args:
                if isinstance(argument, ast.Constant):
                    yield str(argument.value)


def _expanded(name: str) -> list[str]:
    """`Class.*` is every test of a class but those that ours stand for."""
    if not name.endswith(".*"):
        return [name]
    return [each for each in names() if each.startswith(name[:-1]) and each not in marked()]


def main() -> None:
    """Prints them, the open ones first."""
    done, why = marked(), reasons()
    missing = [name for name in names() if name not in done]
    for name in sorted(missing, key=lambda name: name in why):
        print(f"{name}: {why.get(name, 'OPEN, and docs/compatibility.md does not say why')}")
    print(f"{len(names()) - len(missing)} of {len(names())} have a test of ours", file=sys.stderr)


if __name__ == "__main__":
    main()
