"""The units of systemd: systemd itself finds no fault in them, and little that a service of theirs could do wrong."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mirror_connect.cli.commands import COMMANDS
from tests.paths import ROOT
from tests.systemd_units import FOLDER, UNITS, command, copied, sample_environment, settings

# systemd's exposure level times ten: below 2 of 10 it is "OK", its best but one.
MOST_EXPOSED: Final = 20
INSTALLED: Final = "/opt/mirror-connect/bin/mirror-connect"


def _analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze on this machine")
    return subprocess.run(
        ["systemd-analyze", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.tool("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_no_fault_in_a_unit(unit: str, tmp_path: Path) -> None:
    done = _analyze("verify", "--man=no", copied(unit, tmp_path, Path(sys.prefix)))
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.tool("systemd-analyze")
@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_exposes_little(unit: str, tmp_path: Path) -> None:
    path = copied(unit, tmp_path, Path(sys.prefix))
    done = _analyze("security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager", path)
    assert done.returncode == 0, done.stdout


def test_every_unit_is_tested_here() -> None:
    assert {each.name for each in FOLDER.glob("*.service")} == set(UNITS)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("setting", ["ExecStart", "ExecStartPre"])
def test_a_unit_starts_a_command_of_the_package(unit: str, setting: str) -> None:
    program, name, *_ = command(unit, setting)
    assert (program, name in COMMANDS) == (INSTALLED, True)


def test_the_units_differ_in_what_they_start_alone() -> None:
    one, other = (settings(unit) for unit in UNITS)
    differing = {name for name in one.keys() | other.keys() if one.get(name) != other.get(name)}
    of_instances = {"ExecStart", "Description", "EnvironmentFile", "StateDirectory", "WorkingDirectory", "Environment"}
    assert differing == of_instances


def test_the_page_on_installing_has_each_file() -> None:
    page = (ROOT / "docs" / "install.md").read_text("utf-8")
    assert [each.name for each in FOLDER.iterdir() if each.name not in page] == []


def test_the_variables_of_the_sample_are_in_the_pages() -> None:
    named = re.findall(r"^#?([A-Z_]+)=", (FOLDER / "environment").read_text("utf-8"), re.MULTILINE)
    pages = "".join((ROOT / "docs" / page).read_text("utf-8") for page in ("install.md", "configuration.md"))
    assert named
    assert [name for name in named if f"`{name}`" not in pages] == []
    assert set(sample_environment()) <= set(named)
