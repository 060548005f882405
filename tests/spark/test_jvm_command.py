"""The command of Spark's JVM is the one that Spark's own launcher makes."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from mirror_connect.spark_jobs.jvm import MAIN_CLASS, class_path, jvm_command, spark_home
from mirror_connect.spark_jobs.spark_settings import settings, without_secrets

pytestmark = pytest.mark.spark


def test_the_command_is_that_of_sparks_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/tmp/scratch")
    chosen = without_secrets(settings({"spark.driver.extraJavaOptions": '-Da="b c"'}))
    environment = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
    home = spark_home()
    ours = jvm_command(chosen, environment, home)
    given = [argument for name, value in chosen.items() for argument in ("--conf", f"{name}={value}")]
    launcher = ["java", "-cp", f"{home}/jars/*", "org.apache.spark.launcher.Main", MAIN_CLASS, *given, "pyspark-shell"]
    if "JAVA_HOME" in environment:
        launcher[0] = f"{environment['JAVA_HOME']}/bin/java"
    # As spark-class sets them.
    known = {"SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13", "SPARK_CONF_DIR": f"{home}/conf"}
    printed = subprocess.run(launcher, env={**environment, **known}, capture_output=True, text=True, check=True).stdout
    theirs = printed.strip("\n\0").split("\0")
    assert ours is not None
    # The launcher writes where java is, and the path of classes, which is a variable of ours.
    assert (theirs[0].endswith("/bin/java"), theirs[1]) == (True, "-cp")
    first, *rest = class_path(home).split(":")
    assert theirs[2].rstrip(":") == f"{home}/conf:{first}:{home}/jars/*"
    left_out = {str(jar) for jar in (home / "jars").glob("*.jar")} - {first, *rest}
    assert [Path(jar).name.rpartition("-")[0] for jar in left_out] == ["spark-mllib_2.13"]
    del theirs[1:3]
    options = ours.index(MAIN_CLASS) + 1
    assert theirs[1:options] == ours[1:options]
    # It has no order of settings.
    assert sorted(theirs[options:-1]) == sorted(ours[options:-1])
    assert theirs[-1] == ours[-1]
