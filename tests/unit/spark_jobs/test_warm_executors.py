"""When Python is started at executors that have come. With Spark: tests/spark/test_executors_of_a_cluster.py."""

from __future__ import annotations

import threading
from typing import Any

from mirror_connect.spark_jobs.warm_executors import WarmExecutors
from tests.waiting import wait_for_state


class Context:
    """Spark's, with jobs that end when they may. `jobs`: how many tasks each has."""

    def __init__(self) -> None:
        self.jobs: list[int] = []
        self.may_end = threading.Event()
        self.may_end.set()

    def range(self, start: int, end: int, step: int, slices: int) -> Any:
        assert (start, step, end) == (0, 1, slices)
        self.jobs.append(slices)
        return self

    def foreach(self, function: Any) -> None:
        function(0)
        assert self.may_end.wait(60)


def seen(warm: WarmExecutors, *executors: str) -> None:
    """Told, and waited for."""
    warm.seen(executors)
    assert warm._job is not None
    warm._job.join(60)


def test_executors_that_come_get_a_task_each_and_those_that_stay_or_go_get_none() -> None:
    context = Context()
    warm = WarmExecutors(context)
    seen(warm, "0", "1")
    assert context.jobs == [2]
    seen(warm, "0", "1")
    seen(warm, "1")
    assert context.jobs == [2]
    # The one that took the place of executor 0.
    seen(warm, "1", "2")
    assert context.jobs == [2, 2]


def test_nothing_is_begun_without_an_executor() -> None:
    context = Context()
    WarmExecutors(context).seen([])
    assert context.jobs == []


def test_those_that_come_while_a_job_runs_get_the_next_one() -> None:
    context = Context()
    context.may_end.clear()
    warm = WarmExecutors(context)
    warm.seen(["0"])
    wait_for_state(lambda: context.jobs == [1], "the first job runs")
    warm.seen(["0", "1"])
    assert context.jobs == [1]
    context.may_end.set()
    assert warm._job is not None
    warm._job.join(60)
    seen(warm, "0", "1")
    assert context.jobs == [1, 2]


def test_a_job_that_fails_is_left_to_the_queries_to_tell() -> None:
    class Broken(Context):
        def foreach(self, function: Any) -> None:
            raise RuntimeError("the JVM is gone")

    warm = WarmExecutors(Broken())
    seen(warm, "0")
    seen(warm, "0", "1")
