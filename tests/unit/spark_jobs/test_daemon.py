"""The daemon of the task processes tells how one ended, which PySpark's own does not. It needs no JVM."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyspark
import pytest

from mirror_connect.connectors.ended_process import read_ended_line
from mirror_connect.spark_jobs.daemon import import_installed_pyspark
from tests.waiting import wait_for_state

PATIENCE_S = 60.0


@pytest.fixture
def daemon() -> Iterator[subprocess.Popen[bytes]]:
    """PySpark's daemon as Spark starts it: it forks a process for each connection, and ends with its standard input."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mirror_connect.spark_jobs.daemon", "pyspark.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHON_WORKER_FACTORY_SECRET": "secret"},
    )
    yield process
    process.kill()
    process.communicate(timeout=PATIENCE_S)


def test_each_process_that_a_signal_ends_is_a_line(daemon: subprocess.Popen[bytes]) -> None:
    assert daemon.stdout is not None
    assert daemon.stderr is not None
    (port,) = struct.unpack(">i", daemon.stdout.read(4))
    for number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGKILL):
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S):
            wait_for_state(lambda: len(psutil.Process(daemon.pid).children()) == 1, "a process was forked", PATIENCE_S)
            (forked,) = psutil.Process(daemon.pid).children()
            forked.send_signal(number)
            # It starts a line of its own, whatever has been written before.
            assert daemon.stderr.readline() == b"\n"
            assert read_ended_line(daemon.stderr.readline().decode().strip()) == (forked.pid, number)
            wait_for_state(lambda: not psutil.Process(daemon.pid).children(), "nothing of it is left", PATIENCE_S)


def test_a_process_that_exits_is_no_line(daemon: subprocess.Popen[bytes]) -> None:
    assert daemon.stdout is not None
    (port,) = struct.unpack(">i", daemon.stdout.read(4))
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        wait_for_state(lambda: len(psutil.Process(daemon.pid).children()) == 1, "a process was forked", PATIENCE_S)
        wrong = b"not the secret"
        connection.sendall(struct.pack(">i", len(wrong)) + wrong)
        wait_for_state(lambda: not psutil.Process(daemon.pid).children(), "it has ended", PATIENCE_S)
    _, said = daemon.communicate(timeout=PATIENCE_S)
    assert [line for line in said.decode().splitlines() if read_ended_line(line) is not None] == []


ARCHIVES = [str(path) for path in sorted(Path(pyspark.__file__).parent.glob("python/lib/*.zip"))]


def test_the_installed_pyspark_is_imported_and_not_its_archives(monkeypatch: pytest.MonkeyPatch) -> None:
    places = list(sys.path)
    assert len(ARCHIVES) == 2
    monkeypatch.setattr(sys, "path", [*ARCHIVES, *places])
    import_installed_pyspark()
    assert sys.path == places


def test_pysparks_archives_stay_where_no_package_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    # As on an executor that has nothing but Python.
    monkeypatch.setattr(sys, "path", [*ARCHIVES, str(Path(os.__file__).parent)])
    import_installed_pyspark()
    assert sys.path[:2] == ARCHIVES
