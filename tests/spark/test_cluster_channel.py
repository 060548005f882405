"""What is secret on a cluster is in no place that others read: files, pages, arguments, environments of real executors."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import psutil
import pytest
import pytest_asyncio

from deploy.local.free_ports import free_port
from deploy.local.spark_cluster import SparkCluster
from mirror_connect.connectors.task_protocol import TaskId
from tests.fakes.spark_rig import FAKE_TASKS, SECRET, SparkRig, spark_rig, wanted

pytestmark = [pytest.mark.spark, pytest.mark.asyncio(loop_scope="module")]

CLUSTERS_SECRET: Final = "of-this-cluster-alone-7c1d"
A, B = TaskId("c", 0), TaskId("c", 1)
NOBODY: Final = 65_534
# Run as another user of the executor's host: what of its processes and files can be read, and what can be connected to.
OTHER_USER: Final = """
import contextlib, json, os, socket, sys
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
pids, root, needles = json.load(sys.stdin)
found, connected = [], []
def look(path):
    with contextlib.suppress(OSError):
        with open(path, "rb") as file:
            content = file.read(1 << 22)
        found.extend(path for needle in needles if needle.encode() in content)
for pid in pids:
    for name in ("environ", "cmdline", "maps", "mem"):
        look(f"/proc/{pid}/{name}")
    with contextlib.suppress(OSError):
        for each in os.listdir(f"/proc/{pid}/fd"):
            look(f"/proc/{pid}/fd/{each}")
for directory, _, names in os.walk(root):
    for name in names:
        path = os.path.join(directory, name)
        look(path)
        if name.endswith(".sock"):
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
                client.connect(path)
                connected.append(path)
print(json.dumps([os.getuid(), found, connected]))
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[SparkCluster]:
    with SparkCluster(workers=1, slots=3, secret=CLUSTERS_SECRET) as started:
        yield started


@pytest.fixture(scope="module")
def scratch() -> Iterator[Path]:
    # Short, so that the driver's sockets fit into it.
    with tempfile.TemporaryDirectory(prefix="ch-") as directory:
        yield Path(directory)


@pytest.fixture(scope="module")
def page() -> int:
    return free_port()


def spark_of(cluster: SparkCluster) -> dict[str, str]:
    return {
        **cluster.properties,
        "spark.executor.memory": "512m",
        "spark.executorEnv.PYTHONPATH": str(FAKE_TASKS),
    }


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def rig(cluster: SparkCluster, scratch: Path, page: int) -> AsyncIterator[SparkRig]:
    events = scratch / "events"
    events.mkdir()
    shown = {
        "spark.ui.enabled": "true",
        "spark.ui.port": str(page),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": events.as_uri(),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FAKE_TASKS))
        patch.setattr(tempfile, "tempdir", str(scratch))
        async with spark_rig({**spark_of(cluster), **shown}) as made:
            made.supervisor.want({A: wanted("obedient", "t-0"), B: wanted("obedient", "t-1")})
            await made.runs(A, B)
            yield made


def needles(rig: SparkRig) -> list[str]:
    """What must be nowhere: run tokens, the driver's token, what a task's spec has."""
    return [*(run.token for run in rig.supervisor.runs), rig.spark.copying.token, SECRET]


def on_host(cluster: SparkCluster) -> list[psutil.Process]:
    return [process for executor in cluster.executors for process in executor.tree()]


async def test_tasks_at_an_executor_run_and_report(rig: SparkRig, cluster: SparkCluster) -> None:
    assert {rig.run(task).pid for task in (A, B)} <= {process.pid for process in on_host(cluster)}
    assert {rig.run(task).process.executor for task in (A, B)} == {cluster.executors[0].id}  # type: ignore[union-attr]


async def test_event_log_and_pages_have_no_secret(rig: SparkRig, scratch: Path, page: int) -> None:
    hidden = [*needles(rig), CLUSTERS_SECRET]
    written = b"".join(file.read_bytes() for file in (scratch / "events").rglob("*") if file.is_file())
    assert b"SparkListenerEnvironmentUpdate" in written
    assert b"spark.authenticate.secret" in written
    root = f"http://127.0.0.1:{page}"
    application = json.loads(_page(f"{root}/api/v1/applications"))[0]["id"]
    pages = ["environment/", "jobs/", "stages/", "executors/", "SQL/", "StreamingQuery/"]
    pages += [
        f"api/v1/applications/{application}/{each}" for each in ("environment", "jobs", "stages", "sql?details=true")
    ]
    shown = b"".join(_page(f"{root}/{each}") for each in pages)
    assert b"spark.authenticate.secret" in shown
    for each in hidden:
        assert each.encode() not in written
        assert each.encode() not in shown


def _page(url: str) -> bytes:
    with urlopen(url, timeout=180) as answer:
        return bytes(answer.read())


async def test_arguments_and_environments_have_no_token_and_only_one_variable_the_clusters_secret(
    rig: SparkRig, cluster: SparkCluster
) -> None:
    processes = [*on_host(cluster), *rig.tree()]
    assert len(processes) > 5
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            arguments, environment = process.cmdline(), process.environ()
            for each in needles(rig):
                assert not any(each in argument for argument in arguments)
                assert not any(each in value for value in environment.values())
            assert not any(CLUSTERS_SECRET in argument for argument in arguments)
            # Spark's own way to executors. Their user alone can read it.
            assert {name for name, value in environment.items() if CLUSTERS_SECRET in value} <= {"_SPARK_AUTH_SECRET"}


async def test_files_of_executors_and_driver_have_no_secret(
    rig: SparkRig, cluster: SparkCluster, scratch: Path
) -> None:
    work = cluster.directory / cluster.workers[0].name
    found = {file: content for root in (work, scratch) for file, content in contents(root).items()}
    assert any(file.name == "stderr" for file in found)
    for file, content in found.items():
        if file.name != "spark.properties":  # the cluster's own
            for each in [*needles(rig), CLUSTERS_SECRET]:
                assert each.encode() not in content, file


def contents(folder: Path) -> dict[Path, bytes]:
    """What the files below it hold."""
    found = {}
    for directory, _, names in os.walk(folder):
        for name in names:
            file = Path(directory, name)
            with contextlib.suppress(OSError):  # Spark removes and renames files all the time; sockets can't be read
                found[file] = file.read_bytes()
    return found


async def test_another_user_of_the_executors_host_gets_nothing(rig: SparkRig, cluster: SparkCluster) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can try as another user")
    # As Spark's own work directories are.
    cluster.directory.chmod(0o755)
    sockets = [file for file in cluster.directory.rglob("*.sock") if stat.S_ISSOCK(file.stat().st_mode)]
    assert sockets, "JVM and Python of an executor connect by sockets in its directory"
    pids = [process.pid for process in on_host(cluster)]
    told = json.dumps([pids, str(cluster.directory), [*needles(rig), CLUSTERS_SECRET]])
    command = [sys.executable, "-c", OTHER_USER]
    done = await asyncio.to_thread(subprocess.run, command, input=told, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [NOBODY, [], []]
