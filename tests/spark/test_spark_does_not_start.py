"""A JVM that can't start: what it says of it reaches the worker, wherever it says it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

from mirror_connect.app.supervisor.launcher import SparkApplication
from tests.waiting import in_time

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        pytest.param(
            "spark.driver.memory",
            "lots",
            r"Invalid maximum heap size: -Xmxlots \(spark\.driver\.memory=lots\)",
            id="said_on_standard_error",
        ),
        pytest.param(
            "spark.driver.memory",
            "999999g",
            r"Error occurred during initialization of VM .+ \(spark\.driver\.memory=999999g\)",
            id="said_on_standard_output",
        ),
        pytest.param(
            "spark.master",
            "nonsense",
            r'Exception in thread "main" .*SparkException: Master must .+',
            id="said_by_spark_itself",
        ),
    ],
)
async def test_the_last_words_of_a_jvm_that_does_not_start_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, words: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    application = SparkApplication({name: value})
    await application.start("http://127.0.0.1:1", "token")
    try:
        code = await in_time("the application has ended", application.exited(), 360)
    finally:
        await application.end(0.0)
    assert (code, re.fullmatch(words, application.last_words) is not None) == (1, True), application.last_words


async def test_the_application_takes_no_module_from_the_directory_of_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "pyspark.py").write_text("raise SystemExit(99)\n")
    monkeypatch.chdir(tmp_path)
    application = SparkApplication({"spark.driver.memory": "lots"})
    await application.start("http://127.0.0.1:1", "token")
    try:
        assert await in_time("the application has ended", application.exited(), 360) == 1
    finally:
        await application.end(0.0)
