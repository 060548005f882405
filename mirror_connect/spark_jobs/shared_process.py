"""The process that light tasks share: one query of Spark that runs the epochs of many tasks in one event loop.

A thread asks the worker which runs belong here. Each of them has its own connection to the worker, lease and epochs, as in a
process of its own. A run's next epoch begins here as long as the worker names the run. This query's own epoch ends when the
worker has no light task any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Final

from mirror_connect.connectors.problems import forget_problems
from mirror_connect.spark_jobs.internal_http import InternalHttp, RunHandle, RunOverError, WorkerUnreachableError
from mirror_connect.spark_jobs.task_context import EPOCH_SECONDS
from mirror_connect.spark_jobs.unreached_worker import NeverReachedError, never_reached
from mirror_connect.spark_jobs.worker_client import RETRY_S

log = logging.getLogger(__name__)

# Longer than the worker holds a request.
PLAN_TIMEOUT_S: Final = 15.0
# Of all tasks, for requests to the worker. One may take half a minute, and must keep no other task waiting.
MOST_THREADS: Final = 256
# libuv looks up half as many names at a time; by default two. One that doesn't answer takes half a minute.
LOOKUPS: Final = "64"
# An epoch's length, in parts of that of others: all would begin anew at once.
SHORTEST_EPOCH: Final = 0.7
# After an epoch that ended with an error which it could not report.
ERROR_PAUSE_S: Final = 1.0

Epoch = Callable[[RunHandle, float, AbstractAsyncContextManager[None]], Coroutine[Any, Any, None]]


class SharedProcess:
    """See the module. `handle`: of the shared process; `epoch` runs one epoch of a run's task (query.epoch_of)."""

    def __init__(self, handle: RunHandle, epoch: Epoch) -> None:
        self._handle = handle
        self._epoch = epoch
        self._http = InternalHttp(handle.url, handle.token, handle.fingerprint)
        self._runs: dict[str, RunHandle] = {}
        self._over = False
        self._error: NeverReachedError | None = None
        self._changed = asyncio.Event()
        self._beginning = asyncio.Lock()
        self._parent = os.getppid()
        self._thread = threading.Thread(target=self._ask_for_ever, name="runs", daemon=True)

    async def run(self) -> None:
        """Returns when the worker has no run for this process any more, and the epochs of all have ended.

        NeverReachedError.
        """
        loop = self._loop = asyncio.get_running_loop()
        os.environ.setdefault("UV_THREADPOOL_SIZE", LOOKUPS)
        loop.set_default_executor(ThreadPoolExecutor(MOST_THREADS, "requests"))
        self._thread.start()
        epochs: dict[str, asyncio.Task[None]] = {}
        known: set[str] = set()
        try:
            while epochs or not self._over:
                await self._changed.wait()
                self._changed.clear()
                epochs = {run_id: epoch for run_id, epoch in epochs.items() if not epoch.done()}
                for run_id in known.difference(epochs, self._runs):
                    forget_problems(run_id)
                known = {*epochs, *self._runs}
                for run_id, run in self._runs.items():
                    if run_id not in epochs and not self._over:
                        epochs[run_id] = asyncio.create_task(self._one_epoch(run), name=run_id)
        finally:
            self._over = True
            self._http.close()
        if self._error is not None:
            raise self._error

    async def _one_epoch(self, run: RunHandle) -> None:
        try:
            await self._epoch(run, EPOCH_SECONDS * random.uniform(SHORTEST_EPOCH, 1), self._beginning)
        except Exception:  # an error of one task must not end the others
            log.exception("an epoch of run %s failed", run.run_id)
            await asyncio.sleep(ERROR_PAUSE_S)
        finally:
            self._changed.set()

    def _ask_for_ever(self) -> None:
        version, began = -1, time.monotonic()
        while not self._over:
            try:
                plan = self._http.call("GET", f"/shared/{self._handle.run_id}?after={version}", timeout=PLAN_TIMEOUT_S)
            except RunOverError:
                self._over = True
            except WorkerUnreachableError:
                time.sleep(RETRY_S)
                self._error = never_reached(self._handle, began)
                self._over = self._over or self._error is not None
            else:
                version = plan["version"]
                # At the same address, behind the same certificate.
                handles = (replace(self._handle, run_id=each["run_id"], token=each["token"]) for each in plan["runs"])
                self._runs = {each.run_id: each for each in handles}
            # Spark's daemon is gone. The tasks end soon, and Spark starts this process anew if it can.
            self._over = self._over or os.getppid() != self._parent
            with contextlib.suppress(RuntimeError):  # the loop is closed: it has ended meanwhile
                self._loop.call_soon_threadsafe(self._changed.set)
