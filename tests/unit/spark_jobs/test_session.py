"""Which of Spark's settings are ours, and which a user may change."""

from __future__ import annotations

import sys

from mirror_connect.spark_jobs.session import JVM_OPTIONS, settings


def test_spark_is_bound_to_loopback_unless_told_otherwise() -> None:
    found = settings({})
    assert (found["spark.driver.bindAddress"], found["spark.driver.host"]) == ("127.0.0.1", "127.0.0.1")


def test_a_killed_task_is_tried_again_at_once() -> None:
    # local[N] alone would give up after the first failure.
    assert settings({})["spark.master"] == "local[64,4]"


def test_a_users_setting_wins_over_a_default() -> None:
    assert settings({"spark.driver.memory": "2g"})["spark.driver.memory"] == "2g"


def test_what_tasks_rely_on_cannot_be_changed() -> None:
    found = settings({"spark.pyspark.python": "/usr/bin/python2", "spark.python.daemon.module": "other"})
    assert (found["spark.pyspark.python"], found["spark.python.daemon.module"]) == (
        sys.executable,
        "mirror_connect.spark_jobs.daemon",
    )


def test_a_users_options_for_the_jvm_come_after_ours() -> None:
    options = settings({"spark.driver.extraJavaOptions": "-Dmine=1"})["spark.driver.extraJavaOptions"]
    assert options.startswith(JVM_OPTIONS)
    assert options.endswith(" -Dmine=1")
