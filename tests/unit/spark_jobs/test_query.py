"""The trace at the end of an epoch, as users see it."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.errors import ConfigError, NotAuthorized
from mirror_connect.kafka_io.producer.produce_outcome import PartitionRefusedError
from mirror_connect.spark_jobs.query import trace_of


def test_a_trace_begins_with_the_error_as_in_connect() -> None:
    try:
        raise ValueError("no such thing")
    except ValueError as error:
        trace = trace_of(error)
    assert trace.splitlines()[:2] == ["ValueError: no such thing", "Traceback (most recent call last):"]


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (PartitionRefusedError("set max.message.bytes"), "PartitionRefusedError: set max.message.bytes\n"),
        (ConfigError("acks", "7", "no"), "ConfigError: Invalid value 7 for configuration acks: no\n"),
        (NotAuthorized("Write is missing"), "NotAuthorized: Write is missing\n"),
    ],
)
def test_a_trace_of_what_the_user_can_mend_is_one_line(error: Exception, line: str) -> None:
    assert trace_of(error) == line
