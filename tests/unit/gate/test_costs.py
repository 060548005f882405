"""What a file of tests costs: its own processor time, and that of processes that it has started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

INI = "[pytest]\naddopts = -p no:cacheprovider -p no:anyio -p no:asyncio\n"
BURNT_S = 0.3
# It burns processor time, and then waits for its end: while a test runs, or beyond it.
BURN = f"import sys, time\nwhile time.process_time() < {BURNT_S}: pass\nprint(flush=True)\nsys.stdin.read()"
HEAD = f"""
import subprocess, sys, time
import pytest
def child():
    process = subprocess.Popen([sys.executable, "-c", {BURN!r}], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.stdout.readline()
    return process
"""
ENDED = "def test_it():\n    process = child()\n    process.communicate()\n"
LIVES = "def test_it():\n    global kept\n    kept = child()\ndef test_its_end():\n    kept.communicate()\n"
SLEEPS = "def test_it():\n    time.sleep(0.2)\n"


@pytest.mark.long
def test_a_file_costs_what_it_and_its_children_use_and_no_sleep(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text(INI)
    for name, code in (("ended", ENDED), ("lives", LIVES), ("sleeps", SLEEPS)):
        (tmp_path / f"test_{name}.py").write_text(HEAD + code)
    file = tmp_path / "costs.json"
    command = [sys.executable, "-m", "tests.run", "-n1", "--dist=loadfile", str(tmp_path)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    environment = kept | {"TESTS_COSTS": str(file)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=250, check=False)
    assert done.returncode == 0, done.stdout
    found = json.loads(file.read_text())
    assert [*found][-1] == "test_sleeps.py"
    for name in ("test_ended.py", "test_lives.py"):
        assert found[name]["processor"] >= BURNT_S
    slept = found["test_sleeps.py"]
    assert slept["wall"] >= 0.2 > slept["processor"]
    assert slept["tests"]["test_it call"][0] >= 0.2
