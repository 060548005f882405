"""Five million records in a query: all are counted and printed, and no process of it grows with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from deploy.local import LocalCluster

pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

RECORDS = 5_000_000
SIZE = 100
# For a slow machine.
RUN_S = 1000.0
MIB = 1 << 20


@pytest.fixture(scope="module")
def large(source_cluster: LocalCluster) -> Iterator[str]:
    topic = f"query-five-million-{time.time_ns()}"
    source_cluster.create_topic(topic, 4)
    arguments = [
        *("--topic", topic, "--num-records", str(RECORDS), "--record-size", str(SIZE), "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={source_cluster.bootstrap_servers}", "batch.size=65536"),
        *("linger.ms=20", "compression.type=lz4"),
    ]
    source_cluster.run_tool("org.apache.kafka.tools.ProducerPerformance", arguments, 600)
    yield topic
    source_cluster.delete_topic(topic)


def most_memory(command: list[str], output: Path, directory: Path) -> dict[str, int]:
    """The most that each kind of process has had, in MiB, its own pages and those that it shares."""
    most: dict[str, int] = defaultdict(int)
    with output.open("wb") as out, (directory / "told").open("wb") as told:
        process = subprocess.Popen(command, stdout=out, stderr=told, env={**os.environ, "TMPDIR": str(directory)})
        try:
            until = time.monotonic() + RUN_S
            while process.poll() is None and time.monotonic() < until:
                for each in [psutil.Process(process.pid), *_below(process.pid)]:
                    try:
                        kind = "command" if each.pid == process.pid else each.name().rstrip("0123456789.")
                        most[kind] = max(most[kind], each.memory_info().rss // MIB)
                    except psutil.Error:
                        continue
                time.sleep(0.2)
        finally:
            process.kill()
            process.wait()
    assert process.returncode == 0, (directory / "told").read_text()
    return dict(most)


def _below(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


@pytest.mark.parametrize(
    ("statement", "lines"),
    [
        pytest.param("SELECT count(*) AS n, sum(length(value)) AS s FROM source.`{}`", 1, id="counted"),
        pytest.param("SELECT partition, offset, value FROM source.`{}`", RECORDS, id="printed"),
    ],
)
def test_memory_does_not_grow_with_the_records(
    source_cluster: LocalCluster, large: str, tmp_path: Path, statement: str, lines: int
) -> None:
    properties = tmp_path / "source.properties"
    properties.write_text("".join(f"{name}={value}\n" for name, value in source_cluster.client_properties().items()))
    command = [sys.executable, "-m", "mirror_connect.cli", "sql", statement.format(large), "--source", str(properties)]
    output = tmp_path / "rows"
    begun = time.monotonic()
    most = most_memory([*command, "-o", "json", "--rows", "0", "--max-bytes", "0", "--timeout", "0"], output, tmp_path)
    print(f"{time.monotonic() - begun:.0f} s, MiB: {most}")
    with output.open("rb") as file:
        assert sum(1 for _ in file) == lines
    if lines == 1:
        assert json.loads(output.read_bytes()) == {"n": RECORDS, "s": RECORDS * SIZE}
    # A JVM's heap of 1 GiB, and what it has beside it. A process of Python's has two fetches and one batch of rows.
    assert most["java"] < 1500
    assert most["command"] < 400
    assert most["python"] < 400
