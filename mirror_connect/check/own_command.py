"""How a user starts `mirror-connect` where this process runs: for commands that are printed to be copied."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

NAME: Final = "mirror-connect"
_MODULE: Final = ("-m", "mirror_connect.cli")


def own_command(started: Sequence[str]) -> tuple[str, ...]:
    """The words in front of `check` or `verify`. `started`: as `sys.orig_argv`, the interpreter first.

    The bare name only if the shell finds this same program by it: the one of a checkout is in `.venv/bin`.
    """
    script = next((each for each in started[1:] if Path(each).name == NAME), None)
    if script is None or not Path(script).exists():
        return (started[0] or sys.executable, *_MODULE)
    found = shutil.which(NAME)
    return (NAME,) if found is not None and Path(found).samefile(script) else (script,)
