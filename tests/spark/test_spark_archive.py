"""Executors with the environment that `mirror-connect spark-archive` packs, and what is said of those that don't fit.

One application on a standalone cluster whose executors know nothing of this checkout. No Kafka: no record is copied.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from deploy.local.spark_cluster import SparkCluster
from mirror_connect.spark_jobs.environment_archive import pack
from mirror_connect.spark_jobs.executor_versions import PRODUCT, versions

pytestmark = [pytest.mark.spark, pytest.mark.long]

# A worker's driver in short. It opens the session as that does, and prints what it found as one object.
_DRIVER: Final = """
import json, os, sys, time
from mirror_connect.spark_jobs.application import state_of
from mirror_connect.spark_jobs.executor_versions import PRODUCT, VARIABLE, versions
from mirror_connect.spark_jobs.executors import Executors
from mirror_connect.spark_jobs.query import do_nothing, start_clock
from mirror_connect.spark_jobs.session import open_session

def where(_):
    import mirror_connect, os, pyspark, sys
    import mirror_connect.kafka_io.records._compiled as compiled
    from pathlib import Path
    sockets = {each.name: oct(each.stat().st_mode & 0o777) for each in Path().glob(".*.sock")}
    return sys.executable, mirror_connect.__file__, compiled.__file__, pyspark.__file__, os.getcwd(), sockets

def query(name):
    started = start_clock(session, do_nothing, name, f"{os.environ['TMPDIR']}/{name}", once=True)
    try:
        started.awaitTermination()
        return None
    except Exception:
        return state_of(started)["error"]

session = open_session(json.loads(sys.argv[1]))
executors, context, found = Executors(session), session.sparkContext, {}
found["before"] = executors.slots()
found["where"] = context.parallelize([0], 1).map(where).collect()[0]
found["slots"], found["executors"] = executors.slots(), executors.all()
found["fits"] = query("fits")
python = context.pythonExec
for name, other in (("another", "/usr/bin/python3"), ("nowhere", "/no/python")):
    context.pythonExec = other
    found[name] = query(name)
context.pythonExec = python
context.environment[VARIABLE] = json.dumps(versions() | {PRODUCT: "9.9"})
found["release"] = query("release")
print(json.dumps(found), flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """What the driver found."""
    scratch = tmp_path_factory.mktemp("driver")
    archive = scratch / "environment.tar.gz"
    pack(archive)
    with SparkCluster(workers=1, slots=2) as cluster:
        settings = {
            **cluster.properties,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.archives": f"{archive}#environment",
            # Each of the eight tries would take a second.
            "spark.task.maxFailures": "2",
        }
        done = subprocess.run(
            [sys.executable, "-c", _DRIVER, json.dumps(settings)],
            env={**os.environ, "TMPDIR": str(scratch), "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        yield {**answer, "directory": str(cluster.workers[0].directory)}


def test_all_of_it_is_of_the_archive_and_pyspark_of_the_executors_spark(found: dict[str, Any]) -> None:
    python, package, compiled, spark, directory, _ = found["where"]
    assert directory.startswith(found["directory"])
    # Spark unpacks into a directory of the executor's, and has `environment` as a link to it.
    for place in (python, package, compiled):
        assert Path(place).is_absolute()
        assert sys.prefix not in place
        assert "environment" in Path(place).parts or found["directory"] in place
    assert "pyspark.zip" in spark
    assert found["fits"] is None


def test_sockets_of_python_are_in_the_executors_directory_for_its_user_alone(found: dict[str, Any]) -> None:
    sockets = found["where"][-1]
    assert list(sockets.values()) == ["0o700"]


def test_slots_are_those_of_the_executors_that_are_there(found: dict[str, Any]) -> None:
    assert found["slots"] == 2
    (executor,) = found["executors"]
    # The session's first job, which nobody waits for, may be one of its tasks.
    assert executor.pop("tasks") <= 1
    assert executor.pop("silent_s") < 15
    assert executor == {"id": "0", "host": "127.0.0.1", "slots": 2, "draining": False}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        pytest.param("another", "Executor 0 on 127.0.0.1 has no mirror_connect in its Python. ", id="no_package"),
        pytest.param("nowhere", "Executor 0 on 127.0.0.1 can't start Python at /no/python (", id="no_python"),
        pytest.param(
            "release",
            f"Executor 0 on 127.0.0.1 has mirror-connect {versions()[PRODUCT]}, and the worker has 9.9. ",
            id="another_release",
        ),
    ],
)
def test_an_executor_that_does_not_fit_is_named_in_one_line(found: dict[str, Any], name: str, line: str) -> None:
    assert found[name].startswith(line)
    assert "\n" not in found[name]
