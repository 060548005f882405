"""Spark's long texts about executors that can't run Python, as one line. The texts are shortened from real ones."""

from __future__ import annotations

import pytest

from mirror_connect.spark_jobs.executor_errors import executor_line, fatal_error, statement_line

HEAD = (
    "[STREAM_FAILED] Query [id = 6d, runId = 2a] terminated with exception: Job aborted due to stage failure: "
    "Task 0 in stage 3.0 failed 8 times, most recent failure: Lost task 0.7 in stage 3.0 (TID 24) "
    "({host} executor {executor}): {error}"
)
DAEMON = """org.apache.spark.SparkException:
Error from python worker:
  {lines}
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number
\tat org.apache.spark.api.python.PythonWorkerFactory.startDaemon(PythonWorkerFactory.scala:412)
"""


def _text(error: str, executor: str = "3", host: str = "10.0.0.7") -> str:
    return (
        HEAD.format(host=host, executor=executor, error=error) + "\n\tat java.base/java.lang.Thread.run(Thread.java)\n"
    )


@pytest.mark.parametrize(
    ("error", "line"),
    [
        pytest.param(
            DAEMON.format(lines="mirror-connect: this executor has Python 3.12.1, and the worker has 3.11.7. Pack it"),
            "has Python 3.12.1, and the worker has 3.11.7. Pack it",
            id="another_python",
        ),
        pytest.param(
            'java.io.IOException: Cannot run program "./environment/bin/python": Exec failed, error: 2 (No such file) ',
            "can't start Python at ./environment/bin/python (No such file). ",
            id="no_python_by_newer_java",
        ),
        pytest.param(
            'java.io.IOException: Cannot run program "/opt/python": error=2, No such file or directory',
            "can't start Python at /opt/python (No such file or directory). ",
            id="no_python",
        ),
        pytest.param(
            DAEMON.format(
                lines="/usr/bin/python3: Error while finding module specification for 'mirror_connect.spark_jobs.daemon' "
                "(ModuleNotFoundError: No module named 'mirror_connect')"
            ),
            "has no mirror_connect in its Python. ",
            id="no_package",
        ),
        pytest.param(
            DAEMON.format(
                lines="python: error while loading shared libraries: libz.so.1: cannot open shared object file"
            ),
            "can't run Python: python: error while loading shared libraries: libz.so.1: cannot open shared object file. ",
            id="no_library",
        ),
        pytest.param(
            "java.io.InvalidClassException: org.apache.spark.rdd.RDD; local class incompatible",
            "seems to run another release of Spark (java.io.InvalidClassException: ",
            id="another_spark",
        ),
    ],
)
def test_the_line_names_the_executor_and_what_it_lacks(error: str, line: str) -> None:
    found = executor_line(_text(error)) or ""
    assert found.startswith(f"Executor 3 on 10.0.0.7 {line}")
    assert "\n" not in found


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("the query ended", id="no_failure_of_a_stage"),
        pytest.param(
            _text("ExecutorLostFailure (executor 3 exited caused by one of the running tasks)"), id="a_lost_one"
        ),
        pytest.param(
            _text("org.apache.spark.SparkException: Python worker exited unexpectedly"), id="a_killed_process"
        ),
        pytest.param(_text('Cannot run program "/a": error=2, No', executor="driver"), id="on_this_machine"),
    ],
)
def test_what_is_no_fault_of_an_executors_environment_stays_as_it_is(text: str) -> None:
    assert executor_line(text) is None


@pytest.mark.parametrize(
    ("error", "line"),
    [
        ("java.lang.StackOverflowError", "Spark has not enough stack to apply the statement to a record "),
        (
            "java.lang.OutOfMemoryError: Java heap space",
            "Spark has not enough memory to apply the statement to a record ",
        ),
    ],
)
@pytest.mark.parametrize("executor", ["driver", "3"])
def test_a_record_that_is_too_much_is_told_in_one_line(error: str, line: str, executor: str) -> None:
    found = statement_line(_text(error, executor))
    assert fatal_error(_text(error, executor)) in error
    assert found is not None
    assert found.startswith(line)
    assert "\n" not in found


@pytest.mark.parametrize(
    "text",
    [_text("org.apache.spark.SparkException: Python worker exited"), "java.lang.StackOverflowError", "the query ended"],
)
def test_another_text_is_not_of_a_record(text: str) -> None:
    assert statement_line(text) is fatal_error(text) is None
