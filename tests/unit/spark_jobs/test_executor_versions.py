"""Whether an executor's Python, package and Spark fit the worker's, and what is said of one that does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from mirror_connect.spark_jobs.executor_versions import (
    OUR_LINE,
    PRODUCT,
    PYTHON,
    SPARK,
    VARIABLE,
    difference,
    versions,
    wanted_variable,
)

WORKER = {PYTHON: "3.11.7", PRODUCT: "0.1.0", SPARK: "4.2.1"}


def _difference(**here: str) -> str | None:
    names = {"python": PYTHON, "product": PRODUCT, "spark": SPARK}
    return difference({VARIABLE: json.dumps(WORKER)}, WORKER | {names[each]: here[each] for each in here})


def test_the_workers_own_versions_fit() -> None:
    assert difference({VARIABLE: wanted_variable()}) is None
    assert set(versions()) == {PYTHON, PRODUCT, SPARK}
    assert "unknown" not in versions().values()


@pytest.mark.parametrize(
    ("name", "version", "told"),
    [
        pytest.param(
            "python", "3.12.1", "has Python 3.12.1, and the worker has 3.11.7. ", id="another_minor_of_python"
        ),
        pytest.param("python", "3.11.2", None, id="a_patch_of_python"),
        pytest.param("product", "0.2.0", "has mirror-connect 0.2.0, and the worker has 0.1.0. ", id="another_release"),
        pytest.param("product", "unknown", "has mirror-connect unknown, ", id="a_copy_without_its_version"),
        pytest.param("spark", "4.1.0", "has PySpark 4.1.0, and the worker has 4.2.1. ", id="another_spark"),
        pytest.param("spark", "4.2.9", None, id="a_patch_of_spark"),
    ],
)
def test_only_what_does_not_fit_is_told(name: str, version: str, told: str | None) -> None:
    found = _difference(**{name: version})
    assert (found is None) == (told is None)
    assert (found or "").startswith(told or "")


def test_the_pyspark_that_counts_is_that_of_the_executors_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(tmp_path / "pyspark.zip", "w") as archive:
        archive.writestr("pyspark/version.py", "__version__: str = '4.1.1'\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "pyspark.zip")])
    assert versions()[SPARK] == "4.1.1"


def _daemon(variable: str, path: Path) -> subprocess.CompletedProcess[str]:
    """A daemon whose standard input has ended, so that it would end by itself."""
    environment = {**os.environ, VARIABLE: variable, "PYTHONPATH": os.pathsep.join((str(path), os.getcwd()))}
    return subprocess.run(
        [sys.executable, "-m", "mirror_connect.spark_jobs.daemon"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_daemon_that_does_not_fit_ends_with_one_line_before_it_serves(tmp_path: Path) -> None:
    done = _daemon(json.dumps(WORKER | {PYTHON: "3.9.2", PRODUCT: versions()[PRODUCT]}), tmp_path)
    python = versions()[PYTHON]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{OUR_LINE}has Python {python}, and the worker has 3.9.2. ")
    assert done.stderr.count("\n") == 1


def test_a_daemon_without_a_library_ends_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "cramjam").mkdir()
    (tmp_path / "cramjam" / "__init__.py").write_text(
        "raise ImportError('libc.so.6: version `GLIBC_2.38\\' not found')"
    )
    done = _daemon(wanted_variable(), tmp_path)
    assert done.stderr.startswith(
        f"{OUR_LINE}can't import what tasks need: libc.so.6: version `GLIBC_2.38' not found. "
    )
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
