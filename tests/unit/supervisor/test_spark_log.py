"""Spark's log in the worker's: the first line of an event is seen, a stack trace only when debugging."""

from __future__ import annotations

import logging

import pytest

from mirror_connect.app.supervisor.spark_log import SparkLog


@pytest.mark.parametrize(
    ("line", "level"),
    [
        pytest.param("26/01/02 03:04:05 ERROR TaskSetManager: Task 0 failed", logging.ERROR, id="log4j_error"),
        pytest.param("26/01/02 03:04:05 WARN Utils: it is so", logging.WARNING, id="log4j_warning"),
        pytest.param("ERROR mirror_connect.spark_jobs query did not start", logging.ERROR, id="driver_error"),
        pytest.param("INFO mirror_connect.spark_jobs all well", logging.INFO, id="driver_info"),
        pytest.param("WARNING: Using incubator modules: jdk.incubator.vector", logging.DEBUG, id="jvm_at_every_start"),
        pytest.param(
            "26/01/02 03:04:05 WARN NativeCodeLoader: Unable to load native-hadoop library for your platform...",
            logging.DEBUG,
            id="spark_at_every_start",
        ),
        pytest.param("WARNING: Unknown module: jdk.foo", logging.WARNING, id="jvm_warning"),
        pytest.param("java.lang.IllegalStateException: no", logging.DEBUG, id="exception_below_its_event"),
        pytest.param("\tat org.apache.spark.Foo.bar(Foo.scala:1)", logging.DEBUG, id="frame"),
    ],
)
def test_a_line_gets_the_level_of_its_kind(caplog: pytest.LogCaptureFixture, line: str, level: int) -> None:
    caplog.set_level(logging.DEBUG, "mirror_connect.spark")
    SparkLog().take(line)
    assert [record.levelno for record in caplog.records] == [level]


def test_the_last_words_are_those_before_the_frames() -> None:
    log = SparkLog()
    for line in ("Starting", "py4j.Error: Could not parse Master URL: 'x'", "\tat java.base/Foo.bar", "", "  File x"):
        log.take(line)
    assert log.last_words == "py4j.Error: Could not parse Master URL: 'x'"


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("26/01/02 03:04:05 ERROR TaskSetManager: Task 0 failed", "TaskSetManager: Task 0 failed"),
        ("CRITICAL mirror_connect.spark_jobs its JVM is gone", "its JVM is gone"),
        ("WARNING: Unknown module: jdk.foo", "Unknown module: jdk.foo"),
    ],
)
def test_a_line_loses_the_time_and_level_that_the_workers_log_gives_it_anyway(
    caplog: pytest.LogCaptureFixture, line: str, text: str
) -> None:
    caplog.set_level(logging.DEBUG, "mirror_connect.spark")
    SparkLog().take(line)
    assert [record.message for record in caplog.records] == [text]


def test_the_drivers_own_reason_for_its_end_outlives_what_others_say_in_their_panic() -> None:
    log = SparkLog()
    for line in (
        "CRITICAL mirror_connect.spark_jobs its JVM was ended by signal 9 (SIGKILL)",
        "ERROR mirror_connect.spark_jobs query of run 1 did not stop",
        "py4j.protocol.Py4JNetworkError: Answer from Java side is empty",
    ):
        log.take(line)
    assert log.last_words == "its JVM was ended by signal 9 (SIGKILL)"
