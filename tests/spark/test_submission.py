"""Spark's own parser of submissions takes the settings for YARN and Kubernetes; no cluster is asked.

It is the class that the driver's JVM runs. With --verbose it prints what it makes of the command, before it starts anything.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from mirror_connect.spark_jobs.jvm import class_path, jvm_command, spark_home
from mirror_connect.spark_jobs.spark_settings import settings

pytestmark = [pytest.mark.spark]


@pytest.mark.parametrize(
    ("master", "printed"),
    [
        pytest.param(
            "yarn",
            {"spark.submit.deployMode": "client", "spark.yarn.dist.archives": "file:{archive}#environment"},
            id="yarn",
        ),
        pytest.param(
            "k8s://api.example:6443",
            {"spark.master": "k8s://https://api.example:6443", "spark.archives": "file:{archive}#environment"},
            id="kubernetes",
        ),
    ],
)
def test_spark_takes_the_command_of_the_driver(
    master: str, printed: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "core-site.xml").write_text("<configuration/>")
    archive = tmp_path / "environment.tar.gz"
    archive.touch()
    chosen = settings(
        {
            "spark.master": master,
            "spark.archives": f"{archive}#environment",
            "spark.driver.host": "127.0.0.1",
            "spark.kubernetes.container.image": "mirror-connect:0.1.0",
        }
    )
    path = {"PATH": os.environ["PATH"]} | {name: os.environ[name] for name in ("JAVA_HOME",) if name in os.environ}
    command = jvm_command(chosen, path, spark_home())
    assert command is not None
    command.insert(command.index("pyspark-shell"), "--verbose")
    done = subprocess.run(
        command,
        env={
            **path,
            "CLASSPATH": class_path(spark_home()),
            "SPARK_HOME": str(spark_home()),
            "HADOOP_CONF_DIR": str(tmp_path),
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_ENV_LOADED": "1",
            "_PYSPARK_DRIVER_CONN_INFO_PATH": str(tmp_path / "told"),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:]
    # Behind this line stands what Spark's application gets.
    found = done.stdout.partition("Spark config:")[2].replace("file:///", "file:/")
    for name, value in printed.items():
        assert f"({name},{value.format(archive=archive)})" in found, found[-3000:]
    assert "(spark.pyspark.python,./environment/bin/python)" in found
