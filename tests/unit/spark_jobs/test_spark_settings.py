"""Which of Spark's settings are ours, and which a user may change."""

from __future__ import annotations

import sys
import tempfile

import pytest

from mirror_connect.spark_jobs.spark_settings import JVM_OPTIONS, settings


def test_spark_is_bound_to_loopback_unless_told_otherwise() -> None:
    found = settings({})
    assert (found["spark.driver.bindAddress"], found["spark.driver.host"]) == ("127.0.0.1", "127.0.0.1")


def test_nobody_can_open_sparks_ports_to_those_without_the_secret() -> None:
    asked = {
        "spark.authenticate": "false",
        "spark.network.crypto.enabled": "false",
        "spark.driver.bindAddress": "0.0.0.0",
    }
    found = settings(asked)
    assert (found["spark.authenticate"], found["spark.network.crypto.enabled"]) == ("true", "true")


@pytest.mark.parametrize(("directory", "sockets"), [("/tmp/short", "true"), (f"/tmp/{'long' * 20}", "false")])
def test_the_jvm_and_python_meet_where_only_this_user_may_enter(
    directory: str, sockets: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", directory)
    found = settings({"spark.python.unix.domain.socket.enabled": "false"})
    assert found["spark.python.unix.domain.socket.enabled"] == sockets
    assert found["spark.python.unix.domain.socket.dir"] == directory
    assert (caplog.messages != []) == (sockets == "false")


def test_what_a_crashing_jvm_leaves_is_in_the_scratch_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/scratch")
    options = settings({})["spark.driver.extraJavaOptions"].split()
    assert {"-XX:ErrorFile=/tmp/scratch/hs_err_pid%p.log", "-XX:-CreateCoredumpOnCrash"} <= set(options)


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
