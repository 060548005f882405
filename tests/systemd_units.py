"""The units in deploy/systemd, read as systemd reads them, for tests that run what they start."""

from __future__ import annotations

import shlex
from collections import defaultdict
from pathlib import Path
from typing import Final

from tests.paths import ROOT

FOLDER: Final = ROOT / "deploy" / "systemd"
UNITS: Final = ("mirror-connect.service", "mirror-connect-mm2@.service")


def settings(unit: str) -> dict[str, list[str]]:
    """Setting → its values in the order of the file; names are unique over all sections of ours."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (FOLDER / unit).read_text("utf-8").splitlines():
        if line and not line.startswith(("#", ";", "[")):
            name, _, value = line.partition("=")
            found[name].append(value)
    return dict(found)


def command(unit: str, setting: str = "ExecStart") -> list[str]:
    """The program and its arguments, without the mark of a command that may fail."""
    (line,) = settings(unit)[setting]
    return shlex.split(line.removeprefix("-"))


def sample_environment() -> dict[str, str]:
    """The variables of the sample file that are no comments."""
    lines = (FOLDER / "environment").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def copied(unit: str, into: Path, package: Path) -> Path:
    """A copy whose commands are those of an installation in `package`."""
    text = (FOLDER / unit).read_text("utf-8").replace("/opt/mirror-connect/bin", str(package / "bin"))
    path = into / unit
    path.write_text(text)
    return path
