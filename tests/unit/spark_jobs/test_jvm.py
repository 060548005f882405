"""Which JVMs start without spark-submit. That the command is Spark's own: tests/spark/test_jvm_command.py."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from mirror_connect.spark_jobs import jvm
from mirror_connect.spark_jobs.jvm import (
    JvmEndedError,
    StartedJvm,
    class_path,
    gateway_of,
    hadoop_settings,
    jvm_command,
    spark_home,
    start_jvm,
)

CHOSEN = {
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": '-Xss1m -Da="b c"',
    "spark.master": "local[1]",
}
PLAIN = {"PATH": "/bin", "SPARK_LOCAL_IP": "127.0.0.1"}


def test_the_command_has_memory_options_and_settings() -> None:
    command = jvm_command(CHOSEN, PLAIN, spark_home())
    assert command is not None
    assert command[0] == "java"
    assert command[1:4] == ["-Xmx512m", "-Xss1m", "-Da=b c"]
    assert command[-3:] == ["--conf", "spark.master=local[1]", "pyspark-shell"]


def test_java_is_that_of_java_home() -> None:
    command = jvm_command(CHOSEN, {**PLAIN, "JAVA_HOME": "/j"}, spark_home())
    assert (command or [])[0] == "/j/bin/java"


@pytest.mark.parametrize(
    ("setting", "variable"),
    [
        pytest.param("spark.driver.extraClassPath=/a.jar", "", id="classes_of_a_user"),
        pytest.param("spark.driver.extraLibraryPath=/a", "", id="libraries_of_a_user"),
        pytest.param("spark.driver.defaultJavaOptions=-Da=b", "", id="options_of_an_administrator"),
        pytest.param("spark.driver.extraJavaOptions=-Xmx1g", "", id="a_heap_that_spark_refuses"),
        pytest.param("spark.driver.extraJavaOptions=-Da='b", "", id="a_quote_that_never_ends"),
        pytest.param("", "SPARK_HOME=/opt/spark", id="another_spark"),
        pytest.param("", "SPARK_SUBMIT_OPTS=-Da=b", id="options_of_spark_submit"),
        pytest.param("", "PYSPARK_SUBMIT_ARGS=pyspark-shell", id="arguments_of_spark_submit"),
    ],
)
def test_what_only_spark_submit_knows_is_left_to_it(setting: str, variable: str) -> None:
    chosen, environment = dict(CHOSEN), dict(PLAIN)
    for given, where in ((setting, chosen), (variable, environment)):
        name, _, value = given.partition("=")
        if name:
            where[name] = value
    assert jvm_command(chosen, environment, spark_home()) is None
    assert start_jvm(chosen, environment) is None


def test_a_spark_with_files_of_its_own_settings_is_left_to_spark_submit(tmp_path: Path) -> None:
    assert jvm_command(CHOSEN, PLAIN, tmp_path) is not None
    (tmp_path / "conf").mkdir()
    assert jvm_command(CHOSEN, PLAIN, tmp_path) is None


def test_the_logging_interface_comes_first_and_mllib_not_at_all(tmp_path: Path) -> None:
    (tmp_path / "jars").mkdir()
    for name in ("janino-3.jar", "slf4j-api-2.jar", "spark-core_2.13-4.jar", "spark-mllib_2.13-4.jar"):
        (tmp_path / "jars" / name).touch()
    jars = [Path(jar).name for jar in class_path(tmp_path).split(os.pathsep)]
    assert jars == ["slf4j-api-2.jar", "janino-3.jar", "spark-core_2.13-4.jar"]


def test_a_jvm_that_ends_before_it_listens_says_so(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.PIPE)
    with pytest.raises(JvmEndedError, match="exit code 0"):
        gateway_of(StartedJvm(process, tmp_path / "listens"))
    assert process.stdin is not None
    process.stdin.close()


def test_port_and_secret_are_read_as_the_jvm_writes_them(tmp_path: Path) -> None:
    told = tmp_path / "listens"
    told.write_bytes(struct.pack(">ii", 31234, 6) + b"secret")
    assert jvm._read(told) == (31234, "secret")


def test_a_hadoop_clusters_settings_stand_behind_the_jars_as_spark_has_them() -> None:
    given = {"HADOOP_CONF_DIR": "/etc/hadoop", "YARN_CONF_DIR": "/etc/yarn", "PATH": "/bin"}
    assert hadoop_settings(given) == ["/etc/hadoop", "/etc/yarn"]
    assert hadoop_settings({"HADOOP_CONF_DIR": ""}) == []
