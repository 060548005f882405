"""Fills the demo's templates with the directory and ports of this run."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

TEMPLATES = Path(__file__).parent / "templates"


def fill_in(directory: Path, values: Mapping[str, str], templates: Path = TEMPLATES) -> None:
    """Copies `templates` to `directory` and replaces each `@NAME@`; `@DIR@` is the directory itself."""
    for template in sorted(templates.rglob("*")):
        if template.is_dir():
            continue
        text = template.read_text()
        for name, value in {**values, "DIR": str(directory)}.items():
            text = text.replace(f"@{name}@", value)
        path = directory / template.relative_to(templates)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        shutil.copymode(template, path)
