"""How an executor that has never reached the worker tells so: by an error that Spark shows."""

from __future__ import annotations

import time
from typing import Final

from mirror_connect.spark_jobs.executor_versions import OUR_LINE
from mirror_connect.spark_jobs.internal_http import RunHandle, was_reached, why_unreachable

# An executor that has never reached the worker tells Spark after so long, which then tries another one.
REACH_S: Final = 15.0


class NeverReachedError(Exception):
    """This executor has never reached the worker. Spark shows the text, see executor_errors.py."""


def never_reached(handle: RunHandle, since: float) -> NeverReachedError | None:
    """The error of a process that has tried in vain since a time of the monotonic clock; None if it should go on trying.

    On the worker's own machine there is no such error: the worker is there, or this process ends with it. Blocking.
    """
    if not handle.fingerprint or was_reached(handle.url) or time.monotonic() - since < REACH_S:
        return None
    reason = why_unreachable(handle.url, handle.fingerprint)
    if reason is None:
        return None
    return NeverReachedError(
        f"\n{OUR_LINE}can't reach the worker at {handle.url}: {reason}. Let it through, "
        "or set task.advertised.host.name and task.listener.port to what executors can reach"
    )
