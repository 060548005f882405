"""Scratch directories: gone with their start, and those of the dead are found; those of the living are left alone."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mirror_connect.app.supervisor.scratch import PREFIX, Scratch, remove_stale


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_directory_in_use_is_not_stale() -> None:
    scratch = Scratch()
    remove_stale()
    assert scratch.path.is_dir()
    scratch.remove()


def test_a_removed_directory_is_gone_with_its_content() -> None:
    scratch = Scratch()
    (scratch.path / "run").mkdir()
    scratch.remove()
    scratch.remove()
    assert not scratch.path.exists()


def test_the_directory_of_a_killed_worker_is_stale(tmp_path: Path) -> None:
    code = "import os; from mirror_connect.app.supervisor.scratch import Scratch; Scratch(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code], env={"TMPDIR": str(tmp_path)}, check=False, timeout=120)
    left = list(tmp_path.glob(f"{PREFIX}*"))
    remove_stale()
    assert (len(left), list(tmp_path.iterdir())) == (1, [])


def test_what_only_looks_like_one_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "elsewhere")
    remove_stale()
    assert (tmp_path / "elsewhere").is_dir()


def test_two_threads_that_remove_it_close_its_descriptor_once(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    close = os.close

    def slow_close(descriptor: int) -> None:
        time.sleep(0.05)
        closed.append(descriptor)
        close(descriptor)

    scratch = Scratch()
    lock = scratch._lock
    scratch.path.rmdir()  # rmtree closes descriptors of its own
    monkeypatch.setattr("mirror_connect.app.supervisor.scratch.os.close", slow_close)
    with ThreadPoolExecutor(2) as threads:
        for each in [threads.submit(scratch.remove) for _ in range(2)]:
            each.result()
    assert closed.count(lock) == 1
