"""Prints docs/files.md from the first lines of the packages and modules: `python -m docs.generate_file_map`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PACKAGE: Final = ROOT / "mirror_connect"
COMMAND: Final = "python -m docs.generate_file_map > docs/files.md"
INTRODUCTION: Final = f"""# Files

<!-- Generated from the first lines of the modules, do not edit: {COMMAND} -->

Which file holds what. Paths are those below `mirror_connect/`. [architecture.md](architecture.md) has how it all works.

![The rooms and what imports what](rooms.svg)

An arrow leads from the room that imports to the room that is imported. `make lint` checks the directions (`.importlinter`).
"""


def first_line(path: Path) -> str:
    """The first line of a module's docstring. ValueError: it has none."""
    said = ast.get_docstring(ast.parse(path.read_text("utf-8")))
    if not said:
        raise ValueError(f"{path} has no docstring")
    return said.splitlines()[0]


def packages() -> Iterator[Path]:
    """Every package below mirror_connect, each before those in it."""
    return (path.parent for path in sorted(PACKAGE.glob("*/**/__init__.py"), key=lambda path: path.parent.parts))


def document() -> str:
    """The page."""
    parts = [INTRODUCTION]
    for package in packages():
        name = package.relative_to(PACKAGE).as_posix()
        parts.append(f"\n## {name}/\n\n{first_line(package / '__init__.py')}\n")
        modules = sorted(path for path in package.glob("*.py") if path.name != "__init__.py")
        if modules:
            rows = [f"| `{name}/{path.name}` | {first_line(path)} |\n" for path in modules]
            parts.append("\n| file | what it holds |\n| --- | --- |\n" + "".join(rows))
    return "".join(parts)


if __name__ == "__main__":
    sys.stdout.write(document())
