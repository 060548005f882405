"""What an epoch's end looks like to people."""

from __future__ import annotations

from mirror_connect.spark_jobs.epochs import trace_of


def test_a_trace_begins_with_the_error_as_in_connect() -> None:
    try:
        raise ValueError("no such thing")
    except ValueError as error:
        trace = trace_of(error)
    assert trace.splitlines()[:2] == ["ValueError: no such thing", "Traceback (most recent call last):"]
