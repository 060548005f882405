"""The Java that runs the brokers: `JAVA_HOME` if set, else `java` on the path; 17 or newer."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final

from deploy.local.errors import LocalError

OLDEST: Final = 17


def java_command() -> list[str]:
    """The beginning of a command that runs Java; LocalError if there is none or it is too old."""
    return [_checked(os.environ.get("JAVA_HOME", ""))]


@cache
def _checked(home: str) -> str:
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not Path(program).is_file():
        where = f"in JAVA_HOME={home}" if home else "on the path"
        raise LocalError(f"there is no java {where}: install Java {OLDEST} or newer, or set JAVA_HOME")
    printed = subprocess.run([program, "-version"], capture_output=True, text=True, check=False, timeout=60).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', printed)
    if found is None or int(found[1]) < OLDEST:
        version = found[1] if found else "of an unknown version"
        raise LocalError(f"{program} is Java {version}: install Java {OLDEST} or newer, or set JAVA_HOME")
    return program
