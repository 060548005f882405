"""Runs one flow: its worker, which is started again until it is in its group, and the connectors of the file.

A flow whose cluster is away or refuses it stops no other flow. The leader of the group writes the connectors' configs, as
MirrorMaker's herder does: when it becomes the leader, and only those that differ from its file.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import Final

from mirror_connect.app.config.worker_config import WorkerConfig
from mirror_connect.app.dedicated.flows import Flow
from mirror_connect.app.dedicated.stored_configs import (
    different_connectors,
    leading_line,
    standby_line,
    superfluous_connectors,
)
from mirror_connect.app.errors import ConnectError, ConnectorNotFound, NotLeader, StartupError, first_cause
from mirror_connect.app.exposition.measured import MeasuredWorker
from mirror_connect.app.group_backing import GroupBacking
from mirror_connect.app.herder.worker_client import WorkersLink
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.rest_client import RestClient
from mirror_connect.app.steps import within
from mirror_connect.app.storage.config_view import Change, ConnectorUpdated
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.worker import Worker
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, GroupRefusedError, NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName, log_flow

log = logging.getLogger(__name__)

RETRY_S: Final = 5.0
# A flow that is not up for long is told again: a log of days must not begin with the only line about it.
TOLD_AGAIN_S: Final = 600.0
# The leader of a moment ago writes its configs just after it has taken over: only what stays different is told.
SETTLED_S: Final = 3.0
# Errors whose text says what the user can do.
FORESEEN: Final = (ClusterUnreachable, NotAuthorized, GroupRefusedError, ConfigError, StartupError)


class FlowRunner:
    """See the module. `settled` is called when the flow is up, and when it could not start: see `up` and `problem`.

    `worker_id` names this node in statuses; other nodes get `url`. `path`: of the file, for messages. `metrics`: of
    all its starts. `client`: for other nodes, if they have the internal REST.
    """

    def __init__(
        self,
        flow: Flow,
        config: WorkerConfig,
        *,
        spark: SparkHost,
        start_spark: Callable[[], Awaitable[None]],
        settled: Callable[[], None],
        worker_id: str,
        url: str,
        path: str,
        metrics: WorkerMetrics,
        client: RestClient | None = None,
    ) -> None:
        self.flow: Final = flow
        self.worker: Worker | None = None
        self.up = False
        self.problem: Exception | None = None
        self._config = config
        self._spark = spark
        self._start_spark = start_spark
        self._settled = settled
        self._worker_id = worker_id
        self._url = url
        self._client = client
        self._path = path
        self.metrics: Final = metrics
        self._changed = asyncio.Event()
        self._clock: Callable[[], float] = time.monotonic
        # What was logged about why the flow is not up, and when.
        self._told_problems: dict[str, float] = {}
        # What was logged last about a difference.
        self._told: str | None = None
        self._configured_term: int | None = None
        # Connector → why its config is refused, as it was logged last.
        self._refused: dict[str, str] = {}
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins, in the background."""
        with log_flow(self.flow.name):
            self._running = asyncio.create_task(self._run())

    async def secrets(self) -> frozenset[str]:
        """See process.Part."""
        return await self.worker.secrets() if self.worker is not None else frozenset()

    def measured(self) -> MeasuredWorker | None:
        """See process.Part."""
        return self.worker.measured() if self.worker is not None and self.up else None

    async def end_tasks(self) -> None:
        """See process.Part."""
        with log_flow(self.flow.name):
            if self._running is not None:
                self._running.cancel()
                # A start that is cancelled closes what it had opened, which may wait for a cluster.
                await within(asyncio.wait([self._running]), "ending the flow's start")
            if self.worker is not None:
                await self.worker.end_tasks()

    @property
    def ended(self) -> bool:
        """See process.Part."""
        return self.worker is None or self.worker.ended

    async def leave(self) -> None:
        """See process.Part."""
        with log_flow(self.flow.name):
            if self.worker is not None:
                await self.worker.leave()

    async def close(self) -> None:
        """See process.Part."""
        with log_flow(self.flow.name):
            if self.worker is not None:
                await self.worker.close()

    # Start.

    async def _run(self) -> None:
        while True:
            try:
                # Its key stores are read again, which may fail while somebody replaces them.
                worker = self.worker = self._new_worker()
                await worker.start(self._start_spark, self._tell_of)
                break
            except Exception as error:  # noqa: BLE001 — whatever it is must not end the other flows; it is logged
                cause = first_cause(error)
                self._tell_of(cause)
                await self._end()
                self.problem = cause
                self._settled()
            await asyncio.sleep(RETRY_S)
        self.up, self.problem = True, None
        log.info("The flow is up; this node is %s", self._worker_id)
        self._settled()
        worker.herder.leadership.add_listener(self._changed.set)
        worker.configs.add_listener(self._config_changed)
        while True:
            try:
                await self._keep_configured(worker)
            except Exception:
                log.exception("A bug while the connectors' configs were kept; trying again")
                await asyncio.sleep(RETRY_S)

    def _new_worker(self) -> Worker:
        backing = GroupBacking(self._config, self._url, self._worker_id)
        return Worker(
            self._config,
            self._spark,
            backing,
            worker_id=self._worker_id,
            flow=self.flow.name,
            metrics=self.metrics,
            link=WorkersLink(self._url, self._config.inter_worker, self._client),
        )

    def _tell_of(self, cause: Exception) -> None:
        """Each problem when it comes, and every ten minutes: two may alternate, as brokers of a cluster that is away."""
        problem, now = f"{type(cause).__name__}: {cause}", self._clock()
        if now - self._told_problems.get(problem, -TOLD_AGAIN_S) < TOLD_AGAIN_S:
            return
        # Those of an hour ago are not kept.
        self._told_problems = {each: at for each, at in self._told_problems.items() if now - at < TOLD_AGAIN_S}
        self._told_problems[problem] = now
        if isinstance(cause, FORESEEN):
            log.error("The flow is not up: %s. It is tried again every %g s; other flows go on", cause, RETRY_S)
        else:
            log.error("The flow is not up because of an unexpected error; it is tried again", exc_info=cause)

    async def _end(self) -> None:
        if (worker := self.worker) is not None:
            await worker.end_tasks()
            await worker.leave()
            await worker.close()
            self.worker = None

    # The connectors' configs.

    async def _keep_configured(self, worker: Worker) -> None:
        leadership = worker.herder.leadership
        while True:
            self._changed.clear()
            wait_s: float | None = None
            term = leadership.term
            if term is not None and term != self._configured_term:
                if await self._configure(worker):
                    self._configured_term = term
                else:
                    wait_s = RETRY_S
            elif term is None and leadership.leader is not None and not await self._changes_within(SETTLED_S):
                self._compare(worker)
            await self._changes_within(wait_s)

    async def _changes_within(self, seconds: float | None) -> bool:
        """Waits for a change of leadership or of a config; None: without end."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
                return True
        except TimeoutError:
            return False

    def _config_changed(self, change: Change) -> None:
        if isinstance(change, ConnectorUpdated):
            self._changed.set()

    async def _configure(self, worker: Worker) -> bool:
        """Writes the configs that differ; False if that has to be tried again. A refused one keeps none from the others."""
        stored = worker.configs.snapshot().connectors
        self._tell(leading_line(self.flow, stored, self._worker_id))
        refused = {}
        try:
            for name in superfluous_connectors(self.flow, stored):
                await worker.herder.configs.delete(name)
                log.info("Connector %s was removed: only an earlier file has it", ConnectorName(name))
        except (NotLeader, ConnectorNotFound):
            return False
        for name in different_connectors(self.flow, stored):
            try:
                await worker.herder.configs.put(name, self.flow.connectors[name])
            except NotLeader:
                return False
            except (ConnectError, ConfigError) as error:
                refused[name] = error.line if isinstance(error, ConnectError) else str(error)
                if self._refused.get(name) != refused[name]:
                    log.error(
                        "Connector %s can't be configured, and is tried again: %s", ConnectorName(name), refused[name]
                    )
        self._refused = refused
        return not refused

    def _compare(self, worker: Worker) -> None:
        leader = worker.herder.leadership.leader
        if leader is not None:
            self._tell(standby_line(self.flow, worker.configs.snapshot().connectors, leader, self._path))

    def _tell(self, line: str | None) -> None:
        if line is not None and line != self._told:
            log.warning("%s", line)
        self._told = line
