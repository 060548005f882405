"""Starts Python at executors that have come, so that a task which moves there finds it.

Its daemon imports what tasks need. That takes seconds, and longer on a busy machine: partitions would stand still meanwhile.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger("mirror_connect.spark_jobs")


class WarmExecutors:
    """One job for all that have come since the last one. It waits for a slot, if there is none."""

    def __init__(self, context: SparkContext) -> None:
        self._context = context
        self._known: frozenset[str] = frozenset()
        self._job: threading.Thread | None = None

    def seen(self, executors: Iterable[str]) -> None:
        """These are there now. Returns at once."""
        now = frozenset(executors)
        if now <= self._known:
            self._known = now
        elif self._job is None or not self._job.is_alive():
            self._known = now
            # Spark gives each executor with a free slot one task, before any gets a second one.
            self._job = threading.Thread(target=start_python, args=(self._context, len(now)), name="warm", daemon=True)
            self._job.start()


def start_python(context: SparkContext, tasks: int = 1) -> None:
    """Runs a job that does nothing: Python's daemon starts, and imports what tasks need, before anybody waits for it.

    The first query finds both. They serve it only if its processes get the same environment (simplifiedTraceback).
    """
    try:
        context.range(0, tasks, 1, tasks).foreach(_nothing)
        log.debug("Start: Python's daemon is there")
    except Exception:  # the first query shows what is wrong
        log.debug("A job that does nothing failed", exc_info=True)


def _nothing(_number: int) -> None:
    pass
