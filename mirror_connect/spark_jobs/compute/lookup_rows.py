"""The rows of a lookup in Spark: a Python process gets them from the worker, at the beginning of each epoch.

So they are in no plan, and executors on other hosts need no file. While the worker does not have them, this waits: no record
is copied without its lookups.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from mirror_connect.spark_jobs.internal_http import InternalHttp, RunHandle, RunOverError, WorkerUnreachableError
from mirror_connect.spark_jobs.unreached_worker import never_reached

if TYPE_CHECKING:
    import pyarrow

    from mirror_connect.spark_jobs.compute.lookup_joins import LookupJoin

PAUSE_S: Final = 0.5
# The worker holds the request for some seconds while it reads, and 32 MiB may come over a slow link.
TIMEOUT_S: Final = 60.0


def rows_of(handle: RunHandle, join: LookupJoin) -> Iterator[pyarrow.RecordBatch]:
    """The rows that a join needs; one at most for each key. None if the run is over: then nothing is copied either.

    NeverReachedError: this executor is tried in vain, and the task's process, which would tell, does not begin before.
    """
    import pyarrow  # noqa: PLC0415 — the driver pickles this

    keys = ",".join(join.keys)
    http = InternalHttp(handle.url, handle.token, handle.fingerprint)
    path = f"/runs/{handle.run_id}/lookups/{quote(join.name)}?keys={quote(keys)}"
    began = time.monotonic()
    try:
        while True:
            try:
                content = http.content("GET", path, timeout=TIMEOUT_S)
                break
            except WorkerUnreachableError:
                if error := never_reached(handle, began):
                    raise error from None
                time.sleep(PAUSE_S)
            except RunOverError:
                return
    finally:
        http.close()
    with pyarrow.ipc.open_stream(content) as stream:
        yield from stream
