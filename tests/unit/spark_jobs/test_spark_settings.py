"""Which of Spark's settings are ours, and which a user may change."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

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


@pytest.mark.parametrize("master", ["local[2]", "yarn"])
@pytest.mark.parametrize("statements", [True, False])
def test_xml_names_nothing_that_a_jvm_reads(master: str, statements: bool) -> None:
    found = settings({"spark.master": master}, statements=statements)
    every = [value.split() for name, value in found.items() if name.endswith("extraJavaOptions")]
    assert len(every) == (1 if master.startswith("local") else 2)
    for options in every:
        assert {"-Djavax.xml.accessExternalDTD=", "-Djavax.xml.accessExternalSchema="} <= set(options)


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


@pytest.mark.parametrize("master", ["spark://a:7077", "yarn", "k8s://https://a:6443", "local-cluster[1,1,512]"])
def test_on_a_cluster_nothing_of_this_machine_is_told_to_executors(master: str, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(tmp_path))
        found = settings({"spark.master": master, "spark.driver.host": "10.0.0.9"})
    assert (found["spark.driver.host"], found["spark.driver.bindAddress"]) == ("10.0.0.9", "0.0.0.0")
    # The driver's own options alone may have it.
    del found["spark.driver.extraJavaOptions"]
    assert not [name for name, value in found.items() if str(tmp_path) in value]
    # One secret for all, without which executors of others would get the tokens of tasks.
    assert (found["spark.authenticate"], found["spark.network.crypto.enabled"]) == ("true", "true")


@pytest.mark.parametrize("name", ["spark.driver.host", "spark.driver.bindAddress"])
def test_on_a_cluster_the_driver_is_bound_as_its_user_says(name: str) -> None:
    assert settings({"spark.master": "yarn", name: "10.0.0.9"})[name] == "10.0.0.9"


@pytest.mark.parametrize(("master", "given"), [("local[4]", True), ("spark://a:7077", True), ("yarn", False)])
def test_yarns_client_gets_files_from_hadoops_own_file_system(master: str, given: bool) -> None:
    """It asks for the scheme of a file system, and the quicker one raises an error."""
    assert ("spark.hadoop.fs.file.impl" in settings({"spark.master": master})) is given
