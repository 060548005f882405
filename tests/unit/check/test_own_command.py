"""The words that a printed command begins with are found by the user's shell."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mirror_connect.check.own_command import own_command


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "bin" / "mirror-connect"
    path.parent.mkdir()
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_script_in_the_path_is_its_name(script: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(script.parent))
    assert own_command(["/usr/bin/python3", "-sE", str(script), "check", "x"]) == ("mirror-connect",)


def test_another_script_than_that_in_the_path_is_as_it_was_started(
    script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(script.parent.parent)
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    assert own_command(["python", "bin/mirror-connect", "check"]) == ("bin/mirror-connect",)
    other = tmp_path / "mirror-connect"
    other.write_bytes(script.read_bytes())
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert own_command(["python", "bin/mirror-connect", "check"]) == ("bin/mirror-connect",)


def test_a_module_is_started_with_its_interpreter() -> None:
    assert own_command([".venv/bin/python", "-m", "x", "check"]) == (".venv/bin/python", "-m", "mirror_connect.cli")
    assert own_command(["", "-c", "pass"]) == (sys.executable, "-m", "mirror_connect.cli")
