"""Two set-ups of one folder wait for each other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from tests.paths import ROOT

SCRIPT = ROOT / "deploy" / "one_at_a_time.py"
# Says that it runs, and does until its standard input ends.
COMMAND = "import sys; print('runs', flush=True); sys.stdin.read(); sys.exit(7)"


def start(lock: Path) -> subprocess.Popen[str]:
    command = [sys.executable, str(SCRIPT), str(lock), sys.executable, "-c", COMMAND]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def line_of(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def test_the_second_one_runs_when_the_first_has_ended(tmp_path: Path) -> None:
    lock = tmp_path / "new" / "lock"
    with start(lock) as first:
        assert line_of(first.stdout) == "runs\n"
        with start(lock) as second:
            assert "waits for another make" in line_of(second.stderr)
            ran_beside = first.poll() is not None
            first.communicate()
            ran, _ = second.communicate()
    assert (ran_beside, first.returncode, ran, second.returncode) == (False, 7, "runs\n", 7)


@pytest.mark.parametrize("ending", ["kill", "terminate"])
def test_one_that_was_killed_holds_nobody_up(tmp_path: Path, ending: str) -> None:
    with start(tmp_path / "lock") as first:
        assert line_of(first.stdout) == "runs\n"
        getattr(first, ending)()
    with start(tmp_path / "lock") as second:
        ran, told = second.communicate()
    assert (ran, told) == ("runs\n", "")
