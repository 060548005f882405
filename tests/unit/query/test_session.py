"""The settings of a query's Spark. That it starts and ends is shown by tests/spark/query/test_command.py."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from mirror_connect.query import session
from mirror_connect.query.errors import QueryError
from mirror_connect.query.session import QuerySpark, query_settings
from mirror_connect.spark_jobs.jvm import StartedJvm


def test_it_is_local_closed_to_others_and_shows_nothing() -> None:
    found = query_settings(2, "2g", "/tmp/s")
    expected = {
        "spark.master": "local[2]",
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.authenticate": "true",
        "spark.sql.runSQLOnFiles": "false",
        "spark.sql.variable.substitute": "false",
        "spark.sql.python.filterPushdown.enabled": "true",
    }
    assert expected.items() <= found.items()
    # The later option counts.
    options = found["spark.driver.extraJavaOptions"]
    assert options.rindex("-XX:TieredStopAtLevel=4") > options.index("-XX:TieredStopAtLevel=1")


def test_a_jvm_that_does_not_start_is_told_with_its_last_words(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_chosen: Any, _environment: Any, output: Any) -> StartedJvm:
        command = ["sh", "-c", "echo Unrecognized VM option; exit 1"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output)
        return StartedJvm(process, Path("/nowhere/listens"))

    class EndedJvm:
        def __getattr__(self, name: str) -> Any:
            raise ConnectionRefusedError(name)

    monkeypatch.setattr(session, "start_jvm", start)
    # An earlier session of this process leaves its JVM to PySpark.
    monkeypatch.setattr(SparkContext, "_jvm", EndedJvm())
    before = tempfile.gettempdir()
    spark = QuerySpark("1g", 1)
    try:
        spark.begin()
        with pytest.raises(QueryError, match=r"does not start, exit code 1: Unrecognized VM option"):
            spark.session()
    finally:
        spark.end()
    assert not Path(spark.directory).exists()
    assert tempfile.gettempdir() == before


def test_without_java_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_: Any) -> None:
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(session, "start_jvm", start)
    spark = QuerySpark("1g", 1)
    try:
        with pytest.raises(QueryError, match="there is no Java"):
            spark.begin()
    finally:
        spark.end()
