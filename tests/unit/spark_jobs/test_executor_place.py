"""The executor of a task's process, by the arguments of its JVM; started for real where Python has a parent."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mirror_connect.spark_jobs.executor_place import ExecutorPlace, place_of

BACKEND = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
# As Spark 4.2 starts executors.
STANDALONE = [
    "java",
    "-Xmx1024M",
    BACKEND,
    "--executor-id",
    "3",
    "--hostname",
    "10.0.0.7",
    "--cores",
    "4",
    "--app-id",
    "app",
]
KUBERNETES = ["java", "-Xmx1024M", BACKEND, "--executor-id", "EXECID", "--cores", "4", "--hostname", "10.1.2.3"]
LOCAL = ["java", "org.apache.spark.deploy.SparkSubmit", "--conf", "spark.master=local[4,4]", "pyspark-shell"]


@pytest.mark.parametrize(
    ("arguments", "place"),
    [
        pytest.param(STANDALONE, ExecutorPlace("3", "10.0.0.7"), id="standalone"),
        pytest.param(KUBERNETES, ExecutorPlace("10.1.2.3:77", "10.1.2.3"), id="an_id_that_the_driver_gives_later"),
        pytest.param(LOCAL, ExecutorPlace("driver", ""), id="a_local_master"),
        pytest.param([], ExecutorPlace("driver", ""), id="a_parent_that_has_ended"),
    ],
)
def test_a_jvms_arguments_say_where_a_task_runs(arguments: list[str], place: ExecutorPlace) -> None:
    assert place_of(arguments, 77) == place


def test_a_process_reads_the_arguments_of_its_parent() -> None:
    looks = "from mirror_connect.spark_jobs.executor_place import executor_place; print(*executor_place())"
    starts = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {looks!r}], check=True)"
    command = [sys.executable, "-c", starts, "--executor-id", "12", "--hostname", "host.example"]
    assert subprocess.check_output(command, text=True, timeout=60) == "12 host.example\n"
