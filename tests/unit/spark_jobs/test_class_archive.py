"""The archive of Java's classes: used where there is one, missed by nobody where there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from mirror_connect.spark_jobs import class_archive
from mirror_connect.spark_jobs.class_archive import archive_option, make_archive


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
