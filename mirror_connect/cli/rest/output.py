"""Prints a view: as tables, JSON or YAML. In a pipe there are no colours, and a row is a line however long it is."""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Final

from rich.console import Console

from mirror_connect.cli.rest.arguments import JSON, WIDE, YAML
from mirror_connect.cli.rest.listings import View

_PIPE_WIDTH: Final = 10_000
# What JSON may leave as it is, and some terminals obey.
_CONTROLS: Final = re.compile(r"[\x7f-\x9f]")


def print_view(view: View, output: str, console: Console) -> None:
    """`output`: one of FORMATS."""
    if output in (JSON, YAML):
        print(as_text(view.body, output), end="")
    elif console.is_terminal:
        console.print(view.renderable(console.width, wide=output == WIDE), highlight=False)
    else:
        console.width = _PIPE_WIDTH
        with console.capture() as captured:
            console.print(view.renderable(console.width, wide=output == WIDE), highlight=False)
        # Rich fills the last column with blanks.
        print("\n".join(line.rstrip() for line in captured.get().splitlines()))
    sys.stdout.flush()


def as_text(body: Any, output: str) -> str:
    """JSON or YAML, with a line feed at the end."""
    if output == JSON:
        text = json.dumps(body, indent=2, ensure_ascii=False)
        return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text) + "\n"
    # A third of a second of import.
    import yaml  # noqa: PLC0415

    return str(yaml.safe_dump(body, sort_keys=False, allow_unicode=True))


def close_quietly() -> None:
    """Who read the output has gone (`| head`): what Python would still write at its end goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
