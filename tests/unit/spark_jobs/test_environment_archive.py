"""What is packed for executors, and what is said where it can't be. That it runs: tests/spark/test_spark_cluster.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mirror_connect.spark_jobs import environment_archive
from mirror_connect.spark_jobs.environment_archive import ArchiveError, command, needed


def test_what_the_product_needs_is_packed_and_neither_spark_nor_tools() -> None:
    found = set(needed("mirror-connect"))
    assert {"mirror-connect", "pyarrow", "aiokafka", "cramjam", "uvloop", "cryptography", "cffi"} <= found
    assert not {"pyspark", "py4j", "pytest", "mypy", "ruff"} & found


def test_a_name_is_found_in_each_of_its_forms() -> None:
    assert set(needed("PyYAML")) == set(needed("pyyaml")) == {"pyyaml"}


def test_more_that_is_asked_for_has_to_be_there() -> None:
    with pytest.raises(ArchiveError, match="no-such-filters is not installed in "):
        needed("no-such-filters")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(["--output"], "--output needs a value", id="no_file"),
        pytest.param(["somewhere"], "somewhere?", id="a_word"),
        pytest.param(["--with", "no-such-filters"], "no-such-filters is not installed", id="not_installed"),
    ],
)
def test_what_is_wrong_is_one_line(
    arguments: list[str], told: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["mirror-connect spark-archive", *arguments])
    monkeypatch.setattr(environment_archive, "_copy_python", lambda tree: (tree / "bin").mkdir(parents=True))
    monkeypatch.setattr(environment_archive, "_ask", lambda tree, _: str(tree))
    with pytest.raises(SystemExit) as ended:
        command()
    error = capsys.readouterr().err
    assert ended.value.code == (1 if arguments[0] == "--with" else 2)
    assert told in error
    assert error.count("\n") == 1


def test_a_python_that_does_not_run_where_it_is_unpacked_is_not_given_to_executors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_python(tree: Path) -> None:
        (tree / "bin").mkdir(parents=True)
        (tree / "bin" / "python").write_text("#!/bin/sh\necho libpython3.so: no such file >&2\nexit 127\n")
        (tree / "bin" / "python").chmod(0o755)

    monkeypatch.setattr(environment_archive, "_copy_python", no_python)
    with pytest.raises(ArchiveError, match="does not run: libpython3"):
        environment_archive.pack(tmp_path / "a.tar.gz")
    assert list(tmp_path.iterdir()) == []


def test_the_launcher_of_a_shared_python_finds_its_library_wherever_it_is(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    launcher = tmp_path / "bin" / "python"
    launcher.write_text(environment_archive._LAUNCHER.format(program="real"))
    launcher.chmod(0o755)
    (tmp_path / "bin" / "real").write_text('#!/bin/sh\necho "$LD_LIBRARY_PATH" "$@"\n')
    (tmp_path / "bin" / "real").chmod(0o755)
    done = subprocess.run(
        ["./bin/python", "-m", "a b"], cwd=tmp_path, env={}, capture_output=True, text=True, check=True
    )
    assert done.stdout == f"{tmp_path}/bin/../lib -m a b\n"
