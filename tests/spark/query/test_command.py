"""The command `mirror-connect sql`: its formats, its limits, and signals in the middle."""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pyarrow.parquet as pq
import pytest

from deploy.local import LocalCluster
from mirror_connect.query.session import NICE
from tests.spark.query.topics import SECRET, Topics
from tests.waiting import wait_for_state

if TYPE_CHECKING:
    pass

# Spark and brokers once more: `make soak` runs them.
pytestmark = [pytest.mark.brokers, pytest.mark.spark, pytest.mark.long]

# Of a slow machine, on which three files run.
RUN_S = 500.0


def command(source: LocalCluster, tmp_path: Path, statement: str, *more: str) -> subprocess.CompletedProcess[str]:
    """What the command prints, without its progress: on a slow machine it tells some."""
    arguments = _command(source, tmp_path, statement, *more)
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=RUN_S, check=False)
    done.stderr = "".join(each for each in done.stderr.splitlines(keepends=True) if not each.endswith(" read\n"))
    return done


def _command(source: LocalCluster, tmp_path: Path, statement: str, *more: str) -> list[str]:
    path = tmp_path / "source.properties"
    properties: Mapping[str, str] = {**source.client_properties(), "ssl.truststore.password": SECRET}
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return [sys.executable, "-m", "mirror_connect.cli", "sql", statement, "--source", str(path), *more]


def test_the_command_prints_rows_of_the_last_hour(source_cluster: LocalCluster, topics: Topics, tmp_path: Path) -> None:
    statement = f"SELECT offset, CAST(value AS STRING) AS v FROM source.`{topics.orders}` ORDER BY timestamp DESC"
    done = command(source_cluster, tmp_path, statement, "--last", "90min", "-o", "json", "--rows", "5")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 5), done.stderr
    assert json.loads(json.loads(done.stdout.splitlines()[0])["v"])["id"] == 299
    assert done.stderr == "mirror-connect: there are more rows than 5: --rows NUMBER shows more of them, 0 all\n"


def test_the_command_prints_csv_and_tables(source_cluster: LocalCluster, topics: Topics, tmp_path: Path) -> None:
    statement = f"SELECT key, partition, key FROM source.`{topics.orders}` WHERE offset = 0 ORDER BY partition"
    done = command(source_cluster, tmp_path, statement, "-o", "csv")
    assert list(csv.reader(io.StringIO(done.stdout))) == [
        ["key", "partition", "key"],
        *([base64.b64encode(b"k%d" % n).decode(), str(n), base64.b64encode(b"k%d" % n).decode()] for n in range(3)),
    ]
    done = command(source_cluster, tmp_path, statement)
    assert done.stdout.splitlines() == [
        "key  partition  key",
        "k0           0  k0",
        "k1           1  k1",
        "k2           2  k2",
    ]
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_writes_parquet(source_cluster: LocalCluster, topics: Topics, tmp_path: Path) -> None:
    to = tmp_path / "parquet"
    statement = f"SELECT topic, offset, value, timestamp FROM source.`{topics.orders}`"
    done = command(source_cluster, tmp_path, statement, "-o", "parquet", "--to", str(to))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    table = pq.read_table(to)
    assert table.num_rows == 300
    assert json.loads(table.column("value")[0].as_py())["country"] in ("DE", "FR")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("SELECT 1", "--max-bytes", "10"), None),
        (("SELECT max(value) FROM source.`{}`", "--max-bytes", "1"), "more than --max-bytes 1 B: read less"),
        (
            ("SELECT count(*) FROM range(100000000000000)", "--timeout", "20s"),
            "stopped after 20 s, the limit of --timeout",
        ),
        (("DROP TABLE source.t",), "only one SELECT is taken"),
        (
            ("SELECT collect_list(repeat(CAST(id AS STRING), 1000)) FROM range(10000000)", "--memory", "512m"),
            "Spark's JVM does not answer any more",
        ),
    ],
)
def test_the_command_ends_at_a_limit_with_one_line(
    source_cluster: LocalCluster, topics: Topics, tmp_path: Path, arguments: tuple[str, ...], line: str | None
) -> None:
    statement, *more = arguments
    done = command(source_cluster, tmp_path, statement.format(topics.orders), *more)
    assert done.returncode == (0 if line is None else 2), done.stderr
    assert done.stderr.count("\n") == (line is not None), done.stderr
    assert line is None or line in done.stderr
    assert SECRET not in done.stderr


@pytest.mark.parametrize(
    ("number", "code", "last"),
    [(signal.SIGINT, 130, ["mirror-connect: interrupted"]), (signal.SIGTERM, 143, []), (signal.SIGHUP, 129, [])],
)
def test_a_signal_in_the_middle_ends_all_of_its_processes(
    source_cluster: LocalCluster, topics: Topics, tmp_path: Path, *, number: int, code: int, last: list[str]
) -> None:
    endless = f"SELECT count(*) AS n FROM source.`{topics.orders}`, range(100000000000000)"
    to = tmp_path / "never"
    with _started(source_cluster, tmp_path, endless, "-o", "parquet", "--to", str(to)) as process:
        assert process.stderr is not None
        # Progress is told after ten seconds; by the third time the query runs.
        for _ in range(3):
            assert " read" in process.stderr.readline()
        rest, children = _ended(process, number)
        assert (process.returncode, rest) == (code, last)
        wait_for_state(lambda: not any(map(_is_there, children)), "the command's processes have ended", 60)
    assert [each.name for each in tmp_path.iterdir()] == ["source.properties"]


def test_a_signal_at_the_start_ends_all_of_its_processes(
    source_cluster: LocalCluster, topics: Topics, tmp_path: Path
) -> None:
    with _started(source_cluster, tmp_path, f"SELECT * FROM source.`{topics.orders}`") as process:
        of_it = psutil.Process(process.pid)
        wait_for_state(lambda: any("java" in each.name() for each in of_it.children()), "its JVM starts", 60)
        rest, children = _ended(process, signal.SIGINT)
        assert (process.returncode, rest) == (130, ["mirror-connect: interrupted"])
        wait_for_state(lambda: not any(map(_is_there, children)), "the command's processes have ended", 60)
    assert [each.name for each in tmp_path.iterdir()] == ["source.properties"]


@contextlib.contextmanager
def _started(source: LocalCluster, tmp_path: Path, statement: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    # The log of its processes goes to a file, so that only the command itself holds the pipe.
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    arguments = _command(source, tmp_path, statement, *more)
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


def _ended(process: subprocess.Popen[str], number: int) -> tuple[list[str], list[psutil.Process]]:
    """Signals the command twice, as impatient people do; what it still tells, and the processes that it had."""
    children = psutil.Process(process.pid).children(recursive=True)
    assert children
    # Whatever else is on the machine goes first.
    assert {each.nice() - os.getpriority(os.PRIO_PROCESS, process.pid) for each in children} == {NICE}
    process.send_signal(number)
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)
    _, rest = process.communicate(timeout=RUN_S)
    return [each for each in rest.splitlines() if not each.endswith(" read")], children


def _is_there(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
