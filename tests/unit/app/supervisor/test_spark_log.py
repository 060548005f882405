"""Spark's log in the worker's: the first line of an event is seen, a stack trace only when debugging."""

from __future__ import annotations

import logging

import pytest

from mirror_connect.app.supervisor.spark_log import SparkLog, with_settings
from mirror_connect.connectors.ended_process import ended_line


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
        pytest.param("26/01/02 03:04:05 ERROR Utils: Aborting task", logging.DEBUG, id="task_ended_as_asked"),
        pytest.param(
            "26/01/02 03:04:05 ERROR DataWritingSparkTask: Aborting commit for partition 0 (task 5, attempt 0, stage 5.0)",
            logging.DEBUG,
            id="before_nothing_is_undone",
        ),
        pytest.param(
            "26/01/02 03:04:05 ERROR DataWritingSparkTask: Aborted commit for partition 0 (task 5, attempt 0, stage 5.0)",
            logging.DEBUG,
            id="after_nothing_was_undone",
        ),
        pytest.param(
            "26/01/02 03:04:05 ERROR Utils: Uncaught exception in thread x", logging.ERROR, id="other_error_of_it"
        ),
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


ENDED = (
    "26/11/21 05:03:34 ERROR Utils: Aborting task",
    "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed).",
    "\tat org.apache.spark.api.python.BasePythonRunner.applyOrElse(PythonRunner.scala:704)",
    "Caused by: java.io.EOFException",
    "\t... 25 more",
    "26/11/21 05:03:34 ERROR DataWritingSparkTask: Aborting commit for partition 0 (task 0, attempt 0, stage 0.0)",
    "26/11/21 05:03:34 ERROR DataWritingSparkTask: Aborted commit for partition 0 (task 0, attempt 0, stage 0.0)",
)
FAILED = "ERROR Executor: Exception in task 0.0 in stage 0.0 (TID 0): Python worker exited unexpectedly (crashed)."


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        pytest.param(ENDED, "", id="ended_as_asked"),
        pytest.param((ENDED[0], "", *ENDED[1:]), "", id="with_the_end_of_another_line"),
        pytest.param((*ENDED, f"26/11/21 05:03:34 {FAILED}"), FAILED.removeprefix("ERROR "), id="failed"),
        pytest.param((*ENDED, "# A fatal error has been detected"), "A fatal error has been detected", id="jvm_gone"),
    ],
)
def test_a_task_that_is_ended_is_no_error_and_one_that_fails_is_one_of_a_single_line(
    caplog: pytest.LogCaptureFixture, lines: tuple[str, ...], words: str
) -> None:
    caplog.set_level(logging.INFO, "mirror_connect.spark")
    log = SparkLog()
    for line in lines:
        log.take(line)
    errors = [words] if words.startswith("Executor") else []
    assert (caplog.messages, log.last_words) == (errors, words)


GATEWAY = (
    "Traceback (most recent call last):",
    '  File "java_gateway.py", line 111, in launch_gateway',
    "pyspark.errors.exceptions.base.PySparkRuntimeError: [JAVA_GATEWAY_EXITED] Java gateway process exited before sending "
    "its port number.",
)
# What Spark 4.2 on Java 17 said, shortened.
STARTS = {
    "module": (
        [
            "Error occurred during initialization of boot layer",
            "java.lang.module.FindException: Module jdk.incubator.vector not found",
            *GATEWAY,
        ],
        "Error occurred during initialization of boot layer java.lang.module.FindException: Module jdk.incubator.vector "
        "not found",
    ),
    "size": (
        [
            "Invalid maximum heap size: -Xmxlots",
            "Error: Could not create the Java Virtual Machine.",
            "Error: A fatal exception has occurred. Program will exit.",
            *GATEWAY,
        ],
        "Invalid maximum heap size: -Xmxlots",
    ),
    "memory": (
        [
            "OpenJDK 64-Bit Server VM warning: INFO: os::commit_memory(0x7ee4f94, 357, 0) failed; error='Not enough space'",
            "#",
            "# There is insufficient memory for the Java Runtime Environment to continue.",
            "# Native memory allocation (mmap) failed to map 357 bytes. Error detail: committing reserved memory.",
            '[0.025s][warning][os,thread] Failed to start thread "Unknown thread" - pthread_create failed (EAGAIN).',
            "# An error report file with more information is saved as:",
            "# /tmp/hs_err_pid28023.log",
            *GATEWAY,
        ],
        "There is insufficient memory for the Java Runtime Environment to continue. Native memory allocation (mmap) failed "
        "to map 357 bytes. Error detail: committing reserved memory.",
    ),
    "spark_submit": (
        [
            "WARNING: Using incubator modules: jdk.incubator.vector",
            'Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with spark',
            "\tat org.apache.spark.deploy.SparkSubmit.error(SparkSubmit.scala:1)",
            *GATEWAY,
        ],
        'Exception in thread "main" org.apache.spark.SparkException: Master must either be yarn or start with spark',
    ),
    "usage": (
        [
            "Error: Not allowed to specify max heap(Xmx) memory settings through java options (was -Xmx12g).",
            "",
            "Usage: spark-submit [options] <app jar | python file | R file> [app arguments]",
            "Options:",
            "  --master MASTER_URL         spark://host:port",
            *GATEWAY,
        ],
        "Error: Not allowed to specify max heap(Xmx) memory settings through java options (was -Xmx12g).",
    ),
    "context": (
        [
            "Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties",
            "26/11/21 11:53:40 ERROR SparkContext: Error initializing SparkContext.",
            "Traceback (most recent call last):",
            "py4j.protocol.Py4JJavaError: An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.",
            ": org.apache.spark.SparkIllegalArgumentException: [INVALID_DRIVER_MEMORY] System memory is too small.",
            'Please increase "spark.driver.memory".',
            "\tat org.apache.spark.memory.UnifiedMemoryManager$.getMaxMemory(UnifiedMemoryManager.scala:1)",
        ],
        "org.apache.spark.SparkIllegalArgumentException: [INVALID_DRIVER_MEMORY] System memory is too small. "
        'Please increase "spark.driver.memory".',
    ),
    "nothing": ([*GATEWAY], GATEWAY[-1]),
}


@pytest.mark.parametrize(("lines", "words"), STARTS.values(), ids=STARTS)
def test_a_jvm_that_does_not_start_has_its_own_last_words(lines: list[str], words: str) -> None:
    log = SparkLog()
    for line in lines:
        log.take(line)
    assert log.last_words == words


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param(
            "Could not reserve enough space for object heap",
            "Could not reserve enough space for object heap (spark.driver.memory=9999g)",
            id="by_what_it_is_about",
        ),
        pytest.param(
            "Unrecognized VM option 'Nonsense' in -XX:+Nonsense",
            "Unrecognized VM option 'Nonsense' in -XX:+Nonsense (spark.driver.extraJavaOptions=-XX:+Nonsense)",
            id="by_its_value",
        ),
        pytest.param("set spark.driver.memory, the heap", "set spark.driver.memory, the heap", id="named_already"),
        pytest.param(
            "the heap: raise spark.transform.driver.memory",
            "the heap: raise spark.transform.driver.memory",
            id="named_as_in_the_workers_file",
        ),
        pytest.param("hunter22 is wrong", "hunter22 is wrong", id="never_a_secret"),
        pytest.param("9 lives", "9 lives", id="not_by_accident"),
    ],
)
def test_last_words_name_the_settings_that_they_are_about(words: str, told: str) -> None:
    spark = {"spark.driver.memory": "9999g", "spark.driver.extraJavaOptions": "-XX:+Nonsense"}
    assert with_settings(words, spark | {"spark.ssl.keyPassword": "hunter22", "spark.task.maxFailures": "9"}) == told


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


def test_signals_that_ended_task_processes_are_kept_and_are_no_last_words() -> None:
    log = SparkLog()
    log.take("Exception in thread main")
    for pid in range(200):
        log.take(ended_line(pid, 9))
    log.take(ended_line(199, 15))
    assert (len(log.signals), log.signals[199], log.signals[198], log.last_words) == (
        100,
        15,
        9,
        "Exception in thread main",
    )


def test_a_line_of_a_tasks_logger_keeps_its_name_and_level(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "mirror_connect"):
        SparkLog().take("DEBUG mirror_connect.kafka_io.client.cluster connected to b:9092")
    (record,) = caplog.records
    assert (record.name, record.levelname, record.getMessage()) == (
        "mirror_connect.kafka_io.client.cluster",
        "DEBUG",
        "connected to b:9092",
    )


def test_the_drivers_lines_show_when_only_its_own_logger_logs_so_much(caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.INFO, "mirror_connect.spark"),
        caplog.at_level(logging.DEBUG, "mirror_connect.spark_jobs"),
    ):
        SparkLog().take("DEBUG mirror_connect.spark_jobs Start: the JVM listens")
        SparkLog().take("26/01/02 03:04:05 DEBUG Utils: it is so")
    assert [(each.name, each.getMessage()) for each in caplog.records] == [
        ("mirror_connect.spark_jobs", "Start: the JVM listens")
    ]


def test_no_more_than_some_names_become_loggers() -> None:
    spark = SparkLog()
    for number in range(300):
        spark.take(f"ERROR mirror_connect.spark_jobs.x{number} a user's class wrote this")
    known = logging.root.manager.loggerDict
    assert sum(f"mirror_connect.spark_jobs.x{number}" in known for number in range(300)) == 200
