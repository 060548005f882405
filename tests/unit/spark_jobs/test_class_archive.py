"""The archive of Java's classes: used where there is one, missed by nobody where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from mirror_connect.spark_jobs import class_archive
from mirror_connect.spark_jobs.class_archive import make_archive
from mirror_connect.spark_jobs.session import archive_option


def test_without_an_archive_there_is_no_option(tmp_path: Path) -> None:
    assert archive_option(tmp_path / "spark.jsa") == ""


def test_a_path_with_spaces_stays_one_argument(tmp_path: Path) -> None:
    archive = tmp_path / "with spaces" / "spark.jsa"
    archive.parent.mkdir()
    archive.touch()
    assert archive_option(archive).startswith(f'-XX:SharedArchiveFile="{archive}" ')


def test_an_archive_that_can_not_be_made_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(class_archive, "LOAD_ALL", "raise SystemExit('no Java here')")
    with pytest.raises(RuntimeError, match=r"^no Java here$"):
        make_archive(tmp_path / "share" / "spark.jsa")
    assert os.listdir(tmp_path / "share") == []


class Query:
    """A query that ends, or goes on, without having had an epoch."""

    def __init__(self, *, active: bool) -> None:
        self.lastProgress, self.isActive = None, active

    def stop(self) -> None: ...


@pytest.mark.parametrize("active", [False, True], ids=["the_query_ended", "the_epoch_does_not_end"])
def test_an_archive_of_a_spark_that_did_no_work_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, active: bool
) -> None:
    jvm = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    gateway = SimpleNamespace(proc=jvm, shutdown=lambda: None)
    opened = SimpleNamespace(sparkContext=SimpleNamespace(_gateway=gateway), stop=lambda: None)
    monkeypatch.setattr(class_archive, "open_session", lambda _settings: opened)
    monkeypatch.setattr(class_archive, "start_clock", lambda *_: Query(active=active))
    monkeypatch.setattr(class_archive, "EPOCH_S", 0.2)
    with pytest.raises(RuntimeError, match=r"^Spark's first epoch did not end"):
        class_archive.load_all(str(tmp_path / "made.jsa"))
    assert jvm.wait(10) == 0


def test_the_command_says_what_follows_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(class_archive, "LOAD_ALL", "pass")
    monkeypatch.setattr(make_archive, "__defaults__", (tmp_path / "spark.jsa",))
    class_archive.main()
    assert capsys.readouterr().err == (
        "No archive of Java's classes (Java wrote none): Spark starts without one, in twice the time.\n"
    )
    assert sys.prefix in str(class_archive.ARCHIVE)
