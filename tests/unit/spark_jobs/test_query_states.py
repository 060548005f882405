"""The driver reports the state of each query, also of one whose state can't be read."""

from __future__ import annotations

from typing import Any

import pytest

from mirror_connect.spark_jobs.application import state_of


class _Query:
    """Answers with these, or raises them."""

    def __init__(self, active: object, error: object = None) -> None:
        self._active, self._error = active, error

    @property
    def isActive(self) -> Any:  # noqa: N802 — Spark's name
        if isinstance(self._active, Exception):
            raise self._active
        return self._active

    def exception(self) -> Any:
        if isinstance(self._error, Exception):
            raise self._error
        return self._error


@pytest.mark.parametrize(
    ("query", "state", "error"),
    [
        (_Query(True), "ACTIVE", None),
        (_Query(False), "ENDED", "the query ended"),
        (_Query(False, "Job aborted"), "ENDED", "Job aborted"),
        (_Query(RuntimeError("no such object o17\nin the JVM")), "UNKNOWN", "RuntimeError: no such object o17"),
        (
            _Query(False, RuntimeError("no such object o17")),
            "ENDED",
            "the query ended, and its error can't be read: RuntimeError: no such object o17",
        ),
    ],
)
def test_each_state_of_a_query_is_told(query: _Query, state: str, error: str | None) -> None:
    assert state_of(query) == {"state": state, "error": error}
