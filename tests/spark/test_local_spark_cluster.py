"""The standalone Spark cluster of tests and the demo: PySpark's own jobs run on it, its executors come and go, it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psutil
import pytest

from deploy.local.spark_cluster import SparkCluster
from deploy.local.spark_executor import session_of
from tests.waiting import wait_for_state

# Tests of tasks on a cluster start one, kill its executors, and end it.
pytestmark = [pytest.mark.spark, pytest.mark.long]

SECRET: Final = "of-this-test-alone"
# An application that runs a job for each line of its input: where Python ran, and how many slots there are.
_APPLICATION: Final = """
import json, os, sys
from pyspark import SparkConf, SparkContext
def where(_):
    import time
    from pyspark import SparkFiles, TaskContext
    time.sleep(0.2)
    return os.getpid(), os.getppid()
context = SparkContext(conf=SparkConf().setAll(json.loads(sys.argv[1]).items()))
for _ in sys.stdin:
    found = context.parallelize(range(16), 16).map(where).collect()
    print(json.dumps([context.defaultParallelism, found]), flush=True)
"""


class Application:
    """A PySpark application of its own process on a cluster."""

    def __init__(self, cluster: SparkCluster, directory: Path) -> None:
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.cores": "2",
            "spark.authenticate": "true",
            **cluster.properties,
            "spark.network.crypto.enabled": "true",
            "spark.local.dir": str(directory),
            "spark.task.maxFailures": "8",
        }
        file = directory / "application.py"
        file.write_text(_APPLICATION)
        self._log = (directory / "application.log").open("ab")
        self.process = subprocess.Popen(
            [sys.executable, file, json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"},
        )

    def job(self) -> Any:
        """The answer of one job."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        assert answer, Path(self._log.name).read_text()[-2000:]
        return json.loads(answer)

    def close(self) -> None:
        """Ends it."""
        self.process.communicate(timeout=180)
        self._log.close()


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    """Two workers with two slots each."""
    with SparkCluster(workers=2, slots=2, secret=SECRET) as started:
        yield started


def test_executors_are_found_killed_and_replaced(cluster: SparkCluster, tmp_path: Path) -> None:
    application = Application(cluster, tmp_path)
    try:
        application.job()
        first, second = cluster.wait_executors(2)
        assert {first.worker, second.worker} == {worker.name for worker in cluster.workers}
        slots, found = application.job()
        assert slots == 4
        assert {pid for pid, _ in found} == {process.pid for each in (first, second) for process in each.tasks()}
        assert {daemon for _, daemon in found} == {each.pid for one in (first, second) for each in one.daemons()}
        tree = first.tree()
        first.kill()
        assert not any(process.is_running() for process in tree)
        assert len(application.job()[1]) == 16
        wait_for_state(lambda: len(cluster.executors) == 2, "another executor is there")
        assert first.id not in {each.id for each in cluster.executors}
        cluster.add_worker(3)
        cluster.wait_workers(3)
        wait_for_state(lambda: application.job()[0] == 6, "an executor of two slots is there in addition")
        cluster.remove_worker(cluster.workers[-1])
        wait_for_state(lambda: application.job()[0] == 4, "its slots are gone")
    finally:
        application.close()
    wait_for_state(lambda: not cluster.executors, "the executors have ended with their application")


def test_the_secret_is_in_no_argument(cluster: SparkCluster) -> None:
    commands = [each.cmdline() for daemon in (cluster.master, *cluster.workers) for each in session_of(daemon.pid)]
    assert commands
    assert not any(SECRET in argument for command in commands for argument in command)


def test_a_master_opens_no_port_without_a_login(cluster: SparkCluster) -> None:
    """Its REST server for submissions would be the third. Whoever reaches that runs programs as Spark's user."""
    listening = [
        each for each in psutil.Process(cluster.master.pid).net_connections("tcp") if each.status == psutil.CONN_LISTEN
    ]
    ports = {urlsplit(url).port for url in (cluster.master_url, cluster.page_url)}
    assert {each.laddr.port for each in listening} == ports


def test_nothing_is_left_at_the_end() -> None:
    with SparkCluster(workers=1, slots=1) as cluster:
        daemons = [cluster.master, *cluster.workers]
        cluster.workers[0].suspend()
    assert not any(daemon.alive for daemon in daemons)
    assert not cluster.directory.exists()
