"""The trace at the end of an epoch, as users see it, and what a task outlives."""

from __future__ import annotations

import signal
import subprocess
import sys

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


def test_a_task_on_a_cluster_outlives_the_signal_of_a_daemon_that_has_lost_its_executor() -> None:
    """PySpark's daemon sends it to all of its children; a task then has its last words to say."""
    program = """
import os, signal
from unittest import mock
from mirror_connect.spark_jobs import query
from mirror_connect.spark_jobs.executor_place import ExecutorPlace
with mock.patch.object(query, "executor_place", lambda: ExecutorPlace("1", "host")), query.outliving_the_daemon():
    os.kill(os.getpid(), signal.SIGHUP)
print("last words", flush=True)
os.kill(os.getpid(), signal.SIGHUP)
print("not reached", flush=True)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (found.returncode, found.stdout) == (-signal.SIGHUP, "last words\n")
