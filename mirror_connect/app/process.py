"""What a process has once, whatever it runs: Spark with the internal HTTP, HTTP servers, metrics, and how it starts
and ends.

It runs one worker (distributed.py), or one for each flow (dedicated/). Slots, processes and the log are shared.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import math
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from mirror_connect.app.config.allowed_paths import NO_FILES, LookupPaths
from mirror_connect.app.config.metrics_settings import NO_PORT, MetricsSettings
from mirror_connect.app.environment import listen_on
from mirror_connect.app.errors import StartupError
from mirror_connect.app.exposition.exposition import Exposition
from mirror_connect.app.exposition.measured import MeasuredProcess, MeasuredWorker
from mirror_connect.app.metrics.worker_metrics import ProcessMetrics
from mirror_connect.app.metrics_port import MetricsPort, exposition_settings
from mirror_connect.app.process_figures import ProcessTree
from mirror_connect.app.rest.http_servers import HttpServers
from mirror_connect.app.steps import ending_by, within
from mirror_connect.app.supervisor.internal_api import KNOWN, create_internal_application, create_tasks_application
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.version import API_VERSION
from mirror_connect.connectors.log_format import log_flow

log = logging.getLogger(__name__)

FORGET_S: Final = 60.0
# The whole end. foreground.LAST_RESORT_S is later, and Kubernetes and systemd have more patience than that.
END_S: Final = 8.5
# What each step has at the least, however long those before it take. What they do not need is for it, too.
# Longer than kubernetes_objects.STOP_S.
SPARK_ENDS_S: Final = 2.0
# What is left of Spark is killed then, and its scratch files are removed: a moment, but not on a machine with too much work.
SPARK_KILLED_S: Final = 2.5
LEAVING_S: Final = 0.8
CLOSING_S: Final = 0.5
TASKS_S: Final = END_S - SPARK_KILLED_S - LEAVING_S - CLOSING_S


class Part(Protocol):
    """What a process runs: a worker, or a flow with its worker."""

    async def secrets(self) -> Collection[str]:
        """The secrets that are in use."""

    def measured(self) -> MeasuredWorker | None:
        """What its metrics show now; None before there is anything."""

    # The steps of the end. The process goes on after an error, and when a step's time is over. It then cancels the step;
    # `steps.within` inside of it ends in time by itself.

    async def end_tasks(self) -> None:
        """First step, for TASKS_S at most: tasks commit what they have copied. Those that are left then end with Spark."""

    @property
    def ended(self) -> bool:
        """After the first step: whether nothing of its tasks runs or may still be written, so Spark is not waited for."""

    async def leave(self) -> None:
        """Second step, when no task runs any more: last statuses, then the group. It has LEAVING_S at the least."""

    async def close(self) -> None:
        """Third step: connections. It has CLOSING_S at the least."""


class Process:
    """See the module. `spark`: the properties spark.*; `forget_all_but` gets every minute the secrets that are in use.

    `lookup_paths`: where files of lookups may be.
    `launched`: Spark's first application, if it exists already. Building it opens the port of metrics; StartupError.
    """

    def __init__(
        self,
        spark: Mapping[str, str],
        forget_all_but: Callable[[Collection[str]], None],
        launched: LaunchedSpark | None = None,
        metrics: MetricsSettings = NO_PORT,
        lookup_paths: LookupPaths = NO_FILES,
    ) -> None:
        self._metrics_port = MetricsPort(metrics)
        self.http: Final = HttpServers()
        self.spark: Final = SparkHost(spark, launched=launched, lookup_paths=lookup_paths)
        self.metrics: Final = ProcessMetrics()
        self._tree = ProcessTree()
        self.exposition: Final = Exposition(self._measured, exposition_settings(metrics))
        self._launched = launched
        self._forget_all_but = forget_all_but
        self._parts: list[Part] = []
        self._stopped = asyncio.Event()
        self._spark_started = False

    def add(self, part: Part) -> None:
        """From now on it is ended with the process."""
        self._parts.append(part)

    async def start_spark(self) -> None:
        """Starts the internal HTTP, then Spark in the background; later calls have no effect. StartupError."""
        if self._spark_started:
            return
        self._spark_started = True
        # The first flow that is up calls this, but what begins here is of all flows.
        with log_flow(""):
            try:
                internal = self._launched.listener if self._launched else listen_on("127.0.0.1", 0, "the internal HTTP")
            except StartupError:
                self._spark_started = False  # the next flow tries again
                raise
            # Any number of connections: only tasks with tokens connect, with two each.
            self.http.serve(create_internal_application(self.spark), [internal], most_connections=None)
            if self._launched and (tasks := self._launched.tasks) is not None:
                self.http.serve(create_tasks_application(self.spark), [tasks.listener], tasks.tls, known=KNOWN)
            await self.spark.start(f"http://127.0.0.1:{internal.getsockname()[1]}")

    def stop(self) -> None:
        """Begins the clean end."""
        self._stopped.set()

    async def run(self, start: Callable[[], Awaitable[None]]) -> None:
        """From start to end. Raises what `start` raises, after the end."""
        self._metrics_port.serve(self.http, self.exposition)
        if self._launched is not None:
            await self.start_spark()
        starting = asyncio.ensure_future(start())
        stopping = asyncio.create_task(self._stopped.wait())
        forgetting = asyncio.create_task(forget_unused(self._secrets, self._forget_all_but))
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                # What is there now stays. To look for garbage among it held up the loop for 50 ms each time.
                gc.freeze()
                await stopping
        finally:
            for each in (starting, stopping, forgetting):
                each.cancel()
            await self._end(asyncio.gather(starting, stopping, forgetting, return_exceptions=True))

    def _measured(self) -> MeasuredProcess:
        workers = [found for part in self._parts if (found := part.measured()) is not None]
        spark = replace(self.spark.measured(), processes=self._tree.figures())
        return MeasuredProcess(API_VERSION, tuple(workers), spark)

    async def _secrets(self) -> frozenset[str]:
        return frozenset().union(*[await part.secrets() for part in self._parts])

    async def _end(self, start: Awaitable[object]) -> None:
        """Ends tasks, then Spark; then workers leave their groups: the next leaders find all that was written.

        A worker whose tasks have surely ended leaves while Spark ends: others take over sooner.

        `start`: what is left of the start, which has been cancelled.
        """
        now = asyncio.get_running_loop().time
        until = now() + END_S
        with ending_by(until - CLOSING_S - LEAVING_S - SPARK_KILLED_S):
            # A start that is cancelled closes what it had opened, which may wait for a cluster.
            await within(start, "ending the start")
            await self._each(lambda part: part.end_tasks(), "ending the tasks")
        killed_by = until - CLOSING_S - LEAVING_S
        early = [part for part in self._parts if part.ended]
        late = [part for part in self._parts if part not in early]
        with ending_by(killed_by):
            patience = max(0.0, min(SPARK_ENDS_S, killed_by - SPARK_KILLED_S - now()))
            await asyncio.gather(
                within(self.spark.end(patience), "ending Spark", patience + SPARK_KILLED_S),
                self._each(lambda part: part.leave(), "leaving the groups", early),
            )
        with ending_by(until - CLOSING_S):
            await self._each(lambda part: part.leave(), "leaving the groups", late)
        with ending_by(until):
            await asyncio.gather(
                self._each(lambda part: part.close(), "closing the workers"),
                within(self.http.end(), "closing the HTTP servers"),
            )

    async def _each(
        self, step: Callable[[Part], Awaitable[None]], what: str, parts: Sequence[Part] | None = None
    ) -> None:
        chosen = self._parts if parts is None else parts
        await asyncio.gather(*(within(step(part), what, math.inf) for part in chosen))


async def forget_unused(
    in_use: Callable[[], Awaitable[Collection[str]]],
    forget_all_but: Callable[[Collection[str]], None],
    every_s: float = FORGET_S,
) -> None:
    """Forgets unused secrets, or the password of a deleted connector would hide words of the log for ever."""
    while True:
        await asyncio.sleep(every_s)
        try:
            forget_all_but(await in_use())
        except Exception:
            log.exception(
                "A bug: secrets no longer in use stay redacted in the log. The worker tries again in %g s", every_s
            )
