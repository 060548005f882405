"""Renews the example in docs/check.md by running the command: `python -m docs.generate_check_example`."""

from __future__ import annotations

import re
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console

from mirror_connect.check.judge import check_file
from mirror_connect.check.table import WIDTH, print_report

PAGE: Final = Path(__file__).with_name("check.md")
FILE: Final = Path(__file__).parents[1] / "tests" / "fixtures" / "check" / "msk-policy-source.json"
_BLOCK: Final = re.compile(r"(?<=renews it -->\n\n)```text\n.*?```\n", re.DOTALL)


def renewed(page: str) -> str:
    """The page with what the command prints now. ValueError if it has no place for it."""
    output = StringIO()
    print_report(check_file(str(FILE)), Console(width=WIDTH, file=output))
    lines = [line.rstrip() for line in output.getvalue().replace(str(FILE), FILE.name).splitlines()]
    shown = "\n".join(("```text", f"$ mirror-connect check {FILE.name}", *lines, "```", ""))
    page, count = _BLOCK.subn(lambda _: shown, page, count=1)
    if count != 1:
        raise ValueError("docs/check.md has no block for the example")
    return page


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
