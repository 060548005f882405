"""One offset file, one worker: the lock, who has it, and whether its last holder was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from mirror_connect.app.errors import StartupError
from mirror_connect.app.standalone.file_lock import OffsetFileLock
from mirror_connect.connectors.errors import ConfigError

HOLD: Final = """
import sys, time
from mirror_connect.app.standalone.file_lock import OffsetFileLock
OffsetFileLock(sys.argv[1]).take()
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_worker_is_refused_with_the_first_ones_process_id(tmp_path: Path) -> None:
    path = str(tmp_path / "offsets")
    first = OffsetFileLock(path)
    assert not first.take()
    with pytest.raises(
        StartupError, match=rf"\(process {os.getpid()}\) uses {path}: stop it, or give this one another"
    ):
        OffsetFileLock(path).take()
    first.release()
    second = OffsetFileLock(path)
    assert not second.take()
    second.release()


def test_another_name_of_the_same_file_is_the_same_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "offsets")
    first = OffsetFileLock(str(tmp_path / "offsets"))
    first.take()
    with pytest.raises(StartupError):
        OffsetFileLock(str(tmp_path / "link")).take()
    first.release()


def test_a_killed_worker_leaves_the_file_free_and_the_next_one_knows(tmp_path: Path) -> None:
    path = str(tmp_path / "offsets")
    with subprocess.Popen([sys.executable, "-c", HOLD, path], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StartupError, match=rf"\(process {holder.pid}\)"):
            OffsetFileLock(path).take()
        holder.send_signal(signal.SIGKILL)
    following = OffsetFileLock(path)
    assert following.take()
    following.release()


def killed_worker(path: Path) -> str:
    """An offset file whose last worker was killed."""
    (path / "offsets.lock").write_text("7\n")
    return str(path / "offsets")


def test_who_ends_before_its_tasks_may_write_leaves_word_of_the_killed_worker(tmp_path: Path) -> None:
    path = killed_worker(tmp_path)
    for _ in range(2):
        second = OffsetFileLock(path)
        assert second.take()
        second.release(killed=True)
    last = OffsetFileLock(path)
    assert last.take()
    last.release()
    assert not OffsetFileLock(path).take()


@pytest.mark.parametrize("step", ["pwrite", "ftruncate"])
def test_a_failed_start_leaves_word_of_the_killed_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    path = killed_worker(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, step, full)
        with pytest.raises(ConfigError, match="No space left on device"):
            OffsetFileLock(path).take()
    assert OffsetFileLock(path).take()


@pytest.mark.parametrize("name", ["off\0sets", "\ud800"])
def test_a_name_that_no_file_has_is_refused_with_the_setting(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError) as raised:
        OffsetFileLock(str(tmp_path / name)).take()
    assert raised.value.name == "offset.storage.file.filename"


def test_a_directory_is_refused_and_no_lock_is_left_beside_it(tmp_path: Path) -> None:
    directory = tmp_path / "offsets"
    directory.mkdir()
    with pytest.raises(ConfigError, match="it is a directory; name a file") as raised:
        OffsetFileLock(str(directory)).take()
    assert raised.value.name == "offset.storage.file.filename"
    assert list(tmp_path.iterdir()) == [directory]


def test_a_place_where_no_file_can_be_made_is_refused_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"offset\.storage\.file\.filename: .*No such file or directory") as raised:
        OffsetFileLock(str(tmp_path / "absent" / "offsets")).take()
    assert raised.value.name == "offset.storage.file.filename"


def test_a_link_in_the_place_of_the_lock_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "offsets.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(ConfigError):
        OffsetFileLock(str(tmp_path / "offsets")).take()
    assert not (tmp_path / "victim").exists()


def test_nothing_is_locked_where_nothing_is_kept() -> None:
    OffsetFileLock(os.devnull).take()
    OffsetFileLock(os.devnull).take()
