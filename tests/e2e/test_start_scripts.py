"""A worker in the background with the variables of Kafka's scripts: it copies, its JVM has the heap, its log the notices."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import pytest

from deploy.local import LocalCluster, free_port
from deploy.local.watchdog import watchdog
from tests.e2e.product import PATIENCE_S, wait_gone, worker_properties
from tests.paths import ROOT
from tests.waiting import wait_for_state

pytestmark = [pytest.mark.brokers, pytest.mark.spark]


@pytest.fixture
def directory() -> Iterator[Path]:
    """A directory of this test's, where nothing runs any more when it is over."""
    with tempfile.TemporaryDirectory(prefix="start-script-") as name:
        yield Path(name)
        for process in _tree(name):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def test_a_worker_in_the_background_has_what_kafkas_variables_give(
    directory: Path, target_cluster: LocalCluster
) -> None:
    port = free_port()
    file = directory / "connect.properties"
    given = worker_properties(target_cluster, "in-the-background", port)
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    environment = {
        "EXTRA_ARGS": "-name mirror",
        "LOG_DIR": str(directory / "logs"),
        "KAFKA_HEAP_OPTS": "-Xms300M -Xmx700M",
        "KAFKA_OPTS": "-Djavax.net.ssl.keyStorePassword=hunter22",
        "KAFKA_LOG4J_OPTS": "-Dlog4j2.configurationFile=/etc/kafka/connect-log4j2.yaml",
        "JMX_PORT": "9999",
    }
    done = subprocess.run(
        [ROOT / "bin" / "connect-distributed.sh", "-daemon", file],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    log_file = directory / "logs" / "mirror.out"
    assert (done.returncode, done.stderr) == (0, "")
    # The script is back before its child has become Python.
    wait_for_state(lambda: len(_tree(str(file))) == 1, "the worker is there")
    (worker,) = _tree(str(file))
    watchdog().guard_process(worker.pid)
    assert done.stdout == f"mirror starts in the background as process {worker.pid}; its log is {log_file}\n"

    def commands() -> list[list[str]]:
        return [each.cmdline() for each in worker.children(recursive=True) if _is_java(each)]

    wait_for_state(lambda: any("-Xmx700m" in each for each in commands()), "Spark's JVM has this heap", PATIENCE_S)
    assert "-Xms300m" in next(each for each in commands() if "-Xmx700m" in each)
    wait_for_state(lambda: _answers(port), "the worker answers", PATIENCE_S)
    tree = [worker, *worker.children(recursive=True)]
    worker.terminate()
    wait_gone(tree, 180)
    log = log_file.read_text()
    for name in ("KAFKA_OPTS: -Djavax.net.ssl.keyStorePassword has", "KAFKA_LOG4J_OPTS has no", "JMX_PORT has no"):
        assert f" WARNING {name}" in log
    assert "hunter22" not in log
    assert "The worker has stopped" in log


def _tree(argument: str) -> list[psutil.Process]:
    """The workers with such an argument."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if "mirror_connect.app" in command and any(each.startswith(argument) for each in command):
                found.append(process)
    return found


def _is_java(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.Error):
        return Path(process.cmdline()[0]).name == "java"
    return False


def _answers(port: int) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{port}/connectors").status_code == httpx.codes.OK
    return False
