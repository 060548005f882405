from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from mirror_connect.app.process_figures import ProcessTree, kind_of

BUSY = """
import sys, time
end = time.process_time() + 0.2
while time.process_time() < end:
    pass
print("done", flush=True)
sys.stdin.read()
"""


# Not pytest's own process: other tests leave their workers below it until they all have ended.
ROOT = """
import subprocess, sys
# An argument, by which it is taken for the daemon.
command = [sys.executable, "-c", sys.argv[1], "mirror_connect.spark_jobs.daemon"]
with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
    print(child.stdout.readline().decode().strip(), flush=True)
    sys.stdin.readline()
print("ended", flush=True)
sys.stdin.read()
"""


def test_the_time_of_a_process_that_has_ended_stays() -> None:
    with subprocess.Popen([sys.executable, "-c", ROOT, BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as root:
        assert root.stdin is not None
        assert root.stdout is not None
        tree = ProcessTree(root.pid)
        assert root.stdout.readline() == b"done\n"
        during = tree.read()
        root.stdin.write(b"\n")
        root.stdin.flush()
        assert root.stdout.readline() == b"ended\n"
        after = tree.read()
    assert during["tasks"].cpu_s >= 0.2
    assert during["tasks"].memory > 1 << 20
    assert after["tasks"].cpu_s == during["tasks"].cpu_s
    assert after["tasks"].memory == 0
    assert after["worker"].memory > 1 << 20


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        (
            "/opt/java/bin/java -cp jars/* -Dspark.python.daemon.module=mirror_connect.spark_jobs.daemon org.apache.spark",
            "jvm",
        ),
        ("python -m mirror_connect.spark_jobs", "driver"),
        ("python -m mirror_connect.spark_jobs.daemon pyspark.worker", "tasks"),
        ("python -P -m mirror_connect.cli.sampling_process", "verification"),
        ("sh", "other"),
        ("", "other"),
    ],
)
def test_a_process_is_known_by_its_command(command: str, kind: str) -> None:
    assert kind_of(command.split()) == kind


async def test_the_figures_are_read_beside_the_loop() -> None:
    tree = ProcessTree(os.getpid())
    assert tree.figures() == {}
    async with asyncio.timeout(30):
        while not tree.figures():
            await asyncio.sleep(0.01)
    assert tree.figures()["worker"].cpu_s > 0
