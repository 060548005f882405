"""Keeps one Spark application alive: starts it, receives its driver's reports, and restarts it with a back-off."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

from mirror_connect.app.exposition.measured import JvmFigures
from mirror_connect.app.supervisor.interfaces import Application
from mirror_connect.app.supervisor.spark_executors import SparkExecutor, named
from mirror_connect.connectors.ended_process import signal_named
from mirror_connect.connectors.wording import counted

log = logging.getLogger(__name__)

WATCH_S: Final = 5.0
# Longer than a JVM may be suspended: the tasks continue without it meanwhile, and a new one costs them a restart.
DRIVER_SILENT_S: Final = 90.0
BACK_OFF_S: Final = (1.0, 2.0, 5.0, 10.0, 30.0)
STEADY_S: Final = 120.0
# How long a cluster may take for its first executor without a warning.
EXPECTED_S: Final = 30.0
CONNECT_S: Final = 2.0
_STANDALONE: Final = "spark://"


class SparkKeeper:
    """Calls `lost` when an application has ended and all its processes are gone; `problem` says why.

    `purpose`: what stands behind its name in lines for people, as " for statements". `master`: its spark.master.
    """

    def __init__(
        self,
        new_application: Callable[[], Application],
        clock: Callable[[], float],
        lost: Callable[[], None],
        purpose: str = "",
        master: str = "",
    ) -> None:
        self._purpose = purpose
        self._master = master
        # Why a standalone master does not answer, while Spark starts or has no executor. Spark's driver says nothing of it
        # for a long time.
        self.unreachable: str | None = None
        self.application: Application | None = None
        # None until the driver of the present application has reported.
        self.slots: int | None = None
        self.slots_since = 0.0
        # Those of a cluster, which come and go; None with a local master.
        self.executors: tuple[SparkExecutor, ...] | None = None
        self.without_executor_since = ""
        # Until when the first executor is on its way; None if one has come, or if the log has told that none came.
        self._expected_until: float | None = None
        # What it has told last of its JVM.
        self.jvm: JvmFigures | None = None
        # Why there is no Spark now; None if Spark runs, or at the first start.
        self.problem: str | None = None
        self._new_application = new_application
        self._clock = clock
        self._lost = lost
        self._heard = 0.0
        self._began = 0.0
        self._started_at = time.strftime("%H:%M:%S")
        self._keeping: asyncio.Task[None] | None = None

    @property
    def absence(self) -> str | None:
        """Why no task can run now, as a line for people; None when Spark is there."""
        if self.slots is not None:
            return None
        return (
            self.unreachable
            or self.problem
            or f"Waiting for Spark{self._purpose}, which was started at {self._started_at}."
        )

    def start(self, url: str, token: str) -> None:
        """Begins, in the background."""
        self._keeping = asyncio.create_task(self._keep(url, token))

    def heard(
        self, slots: int, jvm: JvmFigures | None = None, executors: Sequence[SparkExecutor] | None = None
    ) -> None:
        """The driver has reported; `jvm` if it has new figures, `executors` if it is on a cluster and can read them."""
        self.jvm = jvm or self.jvm
        self._heard = self._clock()
        known = self.executors
        if executors is not None:
            self.executors = tuple(executors)
        if not self.slots:
            self.slots_since = self._heard
        if self.executors == () and known != ():
            self.without_executor_since = time.strftime("%H:%M:%S")
        if self.slots is None:
            self.problem = self.unreachable = None
            first = executors == ()
            self._expected_until = self._heard + EXPECTED_S if first else None
            shown = "executors are expected" if first else f"slots for {counted(slots, 'task')}"
            log.info("Spark%s is ready after %.1f s: %s", self._purpose, self._heard - self._began, shown)
        if self.executors:
            self._expected_until = self.unreachable = None
        elif self._expected_until is not None and self._heard >= self._expected_until:
            self._expected_until = None
            log.warning("Spark has no executor after %g s. Tasks wait for one", EXPECTED_S)
        if self.executors is not None and self.executors != known:
            self._log_executors(self.executors, known)
        self.slots = slots

    @staticmethod
    def _log_executors(now: tuple[SparkExecutor, ...], before: tuple[SparkExecutor, ...] | None) -> None:
        if now:
            log.info("Spark has %s now: %s", counted(len(now), "executor"), named(now))
        elif before is not None:
            log.warning("Spark has no executor any more. Tasks wait for one")

    async def end(self, patience_s: float) -> None:
        """Ends Spark for good; afterwards no process of it is alive."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        if self.application is not None:
            await self.application.end(patience_s)
            log.info("Spark%s has ended", self._purpose)

    async def _keep(self, url: str, token: str) -> None:
        failures = 0
        while True:
            started = self._clock()
            end = await self._one_life(url, token)
            self.application = self.slots = self.jvm = self.executors = None
            if self._clock() - started > STEADY_S:
                failures = 0
            pause = BACK_OFF_S[min(failures, len(BACK_OFF_S) - 1)]
            failures += 1
            self.problem = f"{end.rstrip('.')}; it starts again after {pause:g} s, and its tasks with it."
            log.error("%s", self.problem)
            try:
                self._lost()
            except Exception:  # whatever it is, without a new Spark nothing would run
                log.exception("Reporting that Spark has ended failed")
            await asyncio.sleep(pause)

    async def _one_life(self, url: str, token: str) -> str:
        application = self.application = self._new_application()
        self._heard = self._began = self._clock()
        self._started_at = time.strftime("%H:%M:%S")
        log.info("Spark%s is starting", self._purpose)
        try:
            if self.unreachable is not None:
                await self._look_for_master()  # it may be back
            try:
                await self._start(application, url, token)
            except OSError as error:
                return f"Spark{self._purpose} could not be started: {error}"
            code = await self._until_exit_or_silence(application)
        except Exception as error:
            log.exception("Spark could not be watched")
            with contextlib.suppress(Exception):
                await application.end(patience_s=0.0)
            return f"Spark{self._purpose} could not be watched: {type(error).__name__}: {error}"
        return described_end(code, application.last_words, self._purpose)

    @staticmethod
    async def _start(application: Application, url: str, token: str) -> None:
        starting = asyncio.create_task(application.start(url, token))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # A process can be ended only after it was created.
            await asyncio.wait([starting])
            raise

    async def _until_exit_or_silence(self, application: Application) -> int:
        exited = asyncio.create_task(application.exited())
        looked = self._clock()
        try:
            while True:
                done, _ = await asyncio.wait([exited], timeout=WATCH_S)
                if done:
                    return exited.result()
                if not self.slots:
                    await self._look_for_master()
                now = self._clock()
                if now - looked > 2 * WATCH_S:
                    self._heard = now  # this worker was suspended itself: it has not read the reports yet
                looked = now
                if now - self._heard > DRIVER_SILENT_S:
                    log.error("Spark's driver%s was silent for %d s and is killed", self._purpose, DRIVER_SILENT_S)
                    await application.end(patience_s=0.0)
                    return await exited
        finally:
            exited.cancel()

    async def _look_for_master(self) -> None:
        before, found = self.unreachable, await unreachable(self._master)
        if self.slots:
            return  # Spark is there by now
        self.unreachable = found
        if found is not None and found != before:
            log.warning("%s", found)


async def unreachable(master: str) -> str | None:
    """One line if no address of a standalone master takes connections; None if one does, and for other masters."""
    problems = []
    for address in master.removeprefix(_STANDALONE).split(",") if master.startswith(_STANDALONE) else ():
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(CONNECT_S):
                _, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        except TimeoutError:
            problems.append(f"{address} does not answer within {CONNECT_S:g} s")
        except OSError as error:
            why = (
                "refuses connections"
                if isinstance(error, ConnectionRefusedError)
                else f"fails: {error.strerror or error}"
            )
            problems.append(f"{address} {why}")
        else:
            writer.close()
            return None
    if not problems:
        return None
    return f"spark.master={master} can't be reached: {', '.join(problems)}. Start the master, or correct spark.master."


def described_end(code: int, last_words: str, purpose: str = "") -> str:
    """How the driver ended, in half a sentence. `last_words`: of its log, which say more than the exit code."""
    if code < 0:
        return f"Spark's driver{purpose} was ended by {signal_named(-code)}"
    if code > 0 and last_words:
        return f"Spark{purpose} ended: {last_words}"
    return f"Spark{purpose} ended with exit code {code}"
