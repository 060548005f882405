"""What is left of a message of Spark's. The places that errors name are tested with Spark, in tests/spark."""

from __future__ import annotations

import pytest
from pyspark.errors import PySparkException

from mirror_connect.spark_jobs.spark_messages import message_line


@pytest.mark.parametrize(
    ("message", "line"),
    [
        pytest.param("No column\n  is called\tx.", "[X] No column is called x.", id="one_line"),
        pytest.param("It is wrong.\n== SQL (line 1) ==\nSELECT 'a'", "[X] It is wrong.", id="without_the_text"),
        pytest.param("It is wrong.\n\nJVM stacktrace:\nat a.b", "[X] It is wrong.", id="without_a_trace"),
        pytest.param("m" * 596, "[X] " + "m" * 596, id="as_long_as_it_may_be"),
        pytest.param("m" * 597, "[X] " + "m" * 596 + " …", id="too_long"),
    ],
)
def test_a_message_is_one_line_that_is_not_too_long(message: str, line: str) -> None:
    assert message_line(PySparkException(message, errorClass="X")) == line
