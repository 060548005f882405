"""`make soak`: whole runs of tests/soak.py on planted tests."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest

from tests.paths import ROOT
from tests.waiting import wait_for_state

INI = """
[pytest]
addopts = -p no:cacheprovider -p no:schemathesis -p no:hypothesispytest -p no:anyio -p no:asyncio
markers = soak: repeated
"""
PLANTED = """
import os, pytest
from tests.seeds import seed
from tests.waiting import wait_for_state
pytestmark = pytest.mark.soak
def test_passes(): pass
def test_loses_a_record(): assert seed() != 8
def test_is_late(): wait_for_state(lambda: seed() != 9, 'the worker answers', 0.1)
"""


# For what doesn't hang on it: no processes beside pytest's own. Another number may stand behind those of tests/soak.py.
ALONE = "--numprocesses=0"


def soak(
    folder: Path, *arguments: str, code: str = PLANTED, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    with started(folder, *arguments, code=code, env=env) as process:
        said = process.communicate(timeout=250)[0]
    return subprocess.CompletedProcess(process.args, process.returncode, said)


def started(
    folder: Path, *arguments: str, code: str = PLANTED, env: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    (folder / "pytest.ini").write_text(INI)
    (folder / "test_planted.py").write_text(code)
    kept = {
        name: value
        for name, value in os.environ.items()
        if name != "CI" and not name.startswith(("PYTEST", "TESTS", "MODEL"))
    }
    command = [sys.executable, "-m", "tests.soak", f"--folder={folder / 'out'}", *arguments, str(folder)]
    return subprocess.Popen(command, cwd=ROOT, env=kept | dict(env or {}), stdout=subprocess.PIPE, text=True)


def test_rounds_go_on_after_failures_and_rates_and_seeds_are_told(tmp_path: Path) -> None:
    done = soak(tmp_path, "--rounds=3", "--seed=7")
    lines = [re.sub(r" in [0-9.]+ s", "", line) for line in done.stdout.splitlines()]
    assert done.returncode == 1, done.stdout
    assert lines[0].startswith("3 rounds from seed 7 on")
    beginnings = (
        "round 2 of 3, seed 8: failed: test_planted.py::test_loses_a_record: ",
        "round 3 of 3, seed 9: waited: test_planted.py::test_is_late: tests.waiting.WaitTimedOut: not within 0.1 s: ",
    )
    assert [sum(line.startswith(each) for line in lines) for each in beginnings] == [1, 1]
    assert "round 1 of 3: 3 tests; of 3 runs of 3 tests 3 passed, 0 failed, 0 ran out of time" in lines
    begin = lines.index("passed failed  late    of  test")
    assert lines[begin:] == [
        "passed failed  late    of  test",
        "     2      1     0     3  test_planted.py::test_loses_a_record",
        "                           failed with TESTS_SEED=8",
        "     2      0     1     3  test_planted.py::test_is_late",
        "                           late with TESTS_SEED=9",
        "     3      0     0     3  test_planted.py::test_passes",
        "of 9 runs of 3 tests 7 passed, 1 failed, 1 ran out of time",
    ]
    assert "AssertionError" in (tmp_path / "out" / "round-2.log").read_text()


@pytest.mark.long
def test_models_go_through_more_schedules_and_other_ones_in_each_round(tmp_path: Path) -> None:
    code = "import os, pytest\npytestmark = pytest.mark.soak\ndef test_tells(): pytest.skip(repr(sorted(M.items())))\n"
    code += "M = {name: value for name, value in os.environ.items() if name.startswith('MODEL')}\n"
    done = soak(tmp_path, ALONE, "--rounds=2", "--seed=7", code=code, env={"MODEL_SCHEDULES": "9"})
    for number, seed in ((1, 7), (2, 8)):
        told = f"[('MODEL_EXAMPLES', '2000'), ('MODEL_SCHEDULES', '9'), ('MODEL_SEED', '{seed}')]"
        assert told in (tmp_path / "out" / f"round-{number}.log").read_text(), done.stdout
    marked = [
        sys.executable,
        "-m",
        "pytest",
        "-m",
        "soak or long",
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/models",
    ]
    found = subprocess.run(marked, cwd=ROOT, capture_output=True, text=True, timeout=200, check=True).stdout
    assert {"test_partition_life.py", "test_leader_model.py"} <= set(re.findall(r"test_\w+\.py", found))


def test_a_round_that_does_not_run_is_red(tmp_path: Path) -> None:
    done = soak(tmp_path, "--rounds=1", code="raise RuntimeError\n")
    assert done.returncode == 1
    assert "round 1 was no whole round (pytest's exit code is 1): see " in done.stdout


@pytest.mark.long
def test_a_test_whose_process_dies_has_failed(tmp_path: Path) -> None:
    done = soak(tmp_path, "--rounds=1", code=f"{PLANTED}\ndef test_dies(): os._exit(3)\n")
    assert "failed: test_planted.py::test_dies" in re.sub(r" in [0-9.]+ s", "", done.stdout)
    assert done.returncode == 1


@pytest.mark.long
def test_a_skip_is_told_and_is_a_failure_where_ci_is_set(tmp_path: Path) -> None:
    code = f"{PLANTED}\ndef test_skips(): pytest.skip('no jars')\n"
    done = soak(tmp_path, ALONE, "--rounds=1", "--seed=7", code=code)
    assert (done.returncode, done.stdout.splitlines()[-1].rpartition(", ")[2]) == (0, "1 skipped")
    assert soak(tmp_path, ALONE, "--rounds=1", "--seed=7", code=code, env={"CI": "1"}).returncode == 1


@pytest.mark.long
def test_told_to_end_it_ends_its_tests_and_tells_what_it_has(tmp_path: Path) -> None:
    slow = "def test_slow():\n    open(os.environ['PIDS'], 'w').write(str(os.getpid()))\n    import time; time.sleep(200)\n"
    pids = tmp_path / "pids"
    with started(tmp_path, "--rounds=9", "--seed=7", code=PLANTED + slow, env={"PIDS": str(pids)}) as process:
        wait_for_state(lambda: pids.exists() and pids.read_text(), "the slow test runs", 120)
        process.terminate()
        said = process.communicate(timeout=150)[0]
    assert (process.returncode, said.splitlines()[-2]) == (1, "interrupted")
    wait_for_state(lambda: not psutil.pid_exists(int(pids.read_text())), "the slow test has ended", 30)
