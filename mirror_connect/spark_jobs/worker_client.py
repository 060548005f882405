"""A task's connection to its worker: requests specs and source offsets, reports twice a second, receives orders.

It uses `http.client` in a thread of its own: reports leave while the event loop is busy, and a task needs no HTTP library in
its memory. docs/worker-and-tasks.md, "Internal HTTP", describes the requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote

from mirror_connect.connectors.clock import boot_clock
from mirror_connect.connectors.problems import MOST_SHOWN, Problem, code_of
from mirror_connect.connectors.records.source_offsets import NO_EPOCH
from mirror_connect.connectors.task_measures import TaskMeasures
from mirror_connect.connectors.task_protocol import (
    FAILED,
    RUNNING,
    STARTING,
    SourceOffset,
    SourceRange,
    TaskOrders,
    TaskPartition,
    TaskReport,
    TaskSpec,
)
from mirror_connect.kafka_io.producer.task_lease import TaskLease
from mirror_connect.spark_jobs.executor_place import executor_place
from mirror_connect.spark_jobs.internal_http import (
    REQUEST_TIMEOUT_S,
    InternalHttp,
    RunHandle,
    RunOverError,
    WorkerUnreachableError,
)
from mirror_connect.spark_jobs.log_levels import apply, known_version
from mirror_connect.spark_jobs.task_context import UnderOrders
from mirror_connect.spark_jobs.unreached_worker import never_reached

RETRY_S: Final = 0.5
FINISHING_REPORT_S: Final = 0.1
# A worker that is silent for so long is gone or has given the task away. Then this process must end.
GIVE_UP_AFTER_S: Final = 300.0


class WorkerClient(UnderOrders):
    """The worker link of one epoch (see task_context.WorkerLink).

    `shared`: whether other tasks are in this process. `held`: the records that a statement keeps for long, in any thread.
    A thread reports and reads orders. `finish_wanted` is set by an order, by the end of the epoch, or when this process
    has lost its parent; `abandon_wanted` when the run is over for good. Both wake `changed` on the event loop, and
    `abandoned` stays set from the latter on.
    """

    def __init__(
        self,
        handle: RunHandle,
        loop: asyncio.AbstractEventLoop,
        *,
        shared: bool = False,
        held: Callable[[], tuple[SourceRange, ...]] = tuple,
    ) -> None:
        self.attempt = uuid.uuid4().hex
        self.changed = asyncio.Event()
        self.abandoned = asyncio.Event()
        self.orders = TaskOrders(lease_ms=0)
        self.counters: dict[str, int] = {}
        self.epoch_over = False
        self.state = STARTING
        self.trace: str | None = None
        # The state that the worker has heard last.
        self._told = STARTING
        self.assignment_version = 0
        self.problems: tuple[Problem, ...] = ()
        self.committed = self.settled = True
        # In the last report alone.
        self.lost: tuple[SourceRange, ...] = ()
        self._handle = handle
        self._shared = shared
        self._held = held
        self._place = executor_place()
        self._loop = loop
        self._requests = InternalHttp(handle.url, handle.token, handle.fingerprint)
        self._reports = InternalHttp(handle.url, handle.token, handle.fingerprint)
        self._lease = TaskLease(boot_clock)
        self._topics: set[str] = set()
        self._measures: TaskMeasures | None = None
        self._log_lines: list[str] = []
        self._events: list[Problem] = []
        self._copied: dict[tuple[str, int], tuple[Any, ...]] = {}
        self._offset_keys: dict[str, None] = {}
        # What goes with the next report is noted on the event loop and taken by the thread.
        self._noting = threading.Lock()
        # Whether only the worker stores the task's source offsets.
        self._stores_nothing = False
        self._parent = os.getppid()
        self._heard = time.monotonic()
        # When a callback was scheduled on the event loop that has not run yet.
        self._loop_asked: float | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._report_for_ever, name="reports", daemon=True)

    # Requests.

    async def spec(self) -> TaskSpec:
        """The task's present spec. Request it again after `orders.assignment_version` has grown."""
        asker = f"attempt={self.attempt}&pid={os.getpid()}&shared={int(self._shared)}&executor={quote(self._place.executor)}"
        spec = TaskSpec.from_json(await self._ask("GET", f"/runs/{self._handle.run_id}/spec?{asker}"))
        self._stores_nothing = spec.reports_offsets
        return spec

    async def source_offsets(self, partitions: Sequence[TaskPartition], *, fenceable: bool) -> list[SourceOffset]:
        """See WorkerLink."""
        asked = {"fenceable": fenceable, "partitions": [[p.topic, p.partition] for p in partitions]}
        path = f"/runs/{self._handle.run_id}/positions?attempt={self.attempt}"
        answer = await self._ask("POST", path, asked, timeout=30.0)
        return [SourceOffset(*each) for each in answer]

    async def _ask(self, method: str, path: str, body: Any = None, timeout: float = REQUEST_TIMEOUT_S) -> Any:
        began = time.monotonic()
        while True:
            try:
                return await asyncio.to_thread(self._requests.call, method, path, body, timeout)
            except WorkerUnreachableError:
                if self.abandon_wanted:
                    raise RunOverError(path) from None
                if error := await asyncio.to_thread(never_reached, self._handle, began):
                    raise error from None
                await asyncio.sleep(RETRY_S)

    # Reports.

    def copied(
        self, partition: TaskPartition, offset: int, topic_id: str | None = None, leader_epoch: int = NO_EPOCH
    ) -> None:
        """See WorkerLink."""
        origin = () if topic_id is None else (topic_id, leader_epoch)
        with self._noting:
            self._copied[partition.source] = (offset, *origin)

    def wrote_for(self, key: bytes) -> None:
        """See WorkerLink."""
        with self._noting:
            self._offset_keys[key.decode()] = None

    def log(self, line: str) -> None:
        """See WorkerLink."""
        with self._noting:
            self._log_lines.append(line)

    def event(self, event: Problem) -> None:
        """See WorkerLink."""
        with self._noting:
            self._events.append(event)

    def wrote_to(self, topic: str) -> None:
        """See WorkerLink."""
        with self._noting:
            self._topics.add(topic)

    @property
    def measures_wanted(self) -> bool:
        """See WorkerLink."""
        return self._measures is None

    def measured(self, measures: TaskMeasures) -> None:
        """See WorkerLink."""
        with self._noting:
            self._measures = measures if self._measures is None else self._measures.followed_by(measures)

    # Orders.

    def lease_valid(self) -> bool:
        """See WorkerLink."""
        return self._lease.valid()

    # The thread.

    def start(self) -> None:
        """Starts the reports."""
        self._thread.start()

    def close(self) -> None:
        """Ends the reports. Call `report_now` before, for the last report."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=REQUEST_TIMEOUT_S + 1)
        self._requests.close()
        self._reports.close()

    def end_epoch(self) -> None:
        """The epoch's time is over: the task commits and returns, and the next epoch continues."""
        self.epoch_over = True
        self.changed.set()

    def report_now(self, state: str, trace: str | None = None) -> None:
        """Ends the periodic reports and sends the last report of an epoch. Gives up after three tries."""
        self._stopped.set()
        self._thread.join(timeout=REQUEST_TIMEOUT_S + 1)
        ended = [(state, trace)]
        if state == FAILED and self.state == RUNNING != self._told:
            # It ran, if only for a moment. Whoever has restarted it must not hear that it could not be started.
            ended.insert(0, (RUNNING, None))
        for self.state, self.trace in ended:
            if not self._report_patiently():
                return

    def _report_patiently(self) -> bool:
        """Whether there is any use in another report."""
        for _ in range(3):
            try:
                self._report(hold=False)
            except RunOverError:
                return False
            except WorkerUnreachableError:
                time.sleep(RETRY_S)
            else:
                return True
        return False

    def _report(self, *, hold: bool = True) -> None:
        # Read before the source offsets: whoever reads that a partition was given away must have its last offset.
        version = self.assignment_version
        with self._noting:
            copied, self._copied = self._copied, {}
            offset_keys, self._offset_keys = self._offset_keys, {}
            topics, self._topics = self._topics, set()
            log_lines, self._log_lines = self._log_lines, []
            events, self._events = self._events, []
            measures, self._measures = self._measures, None
        problems = self.problems
        report = TaskReport(
            attempt=self.attempt,
            pid=os.getpid(),
            state=self.state,
            trace=self.trace,
            assignment_version=version,
            counters=dict(self.counters),
            topics=tuple(topics),
            log_lines=tuple(log_lines),
            log_codes=tuple(map(code_of, log_lines)),
            problems=problems[:MOST_SHOWN],
            more_problems=max(0, len(problems) - MOST_SHOWN),
            events=tuple(events),
            committed=self.committed,
            settled=self.settled,
            loop_silent_s=self._loop_silence(),
            source_offsets=tuple((*partition, *offset) for partition, offset in copied.items()),
            offset_keys=tuple(offset_keys),
            measures=None if measures is None else replace(measures, lease_ms=int(self._lease.left_s * 1000)),
            executor=self._place.executor,
            host=self._place.host,
            lost=self.lost,
            held=self._held(),
        )
        sent = boot_clock()
        path = f"/runs/{self._handle.run_id}/report?hold={int(hold)}&known={self.orders.assignment_version}"
        path += f"&levels={known_version()}"
        try:
            orders = TaskOrders.from_json(self._reports.call("POST", path, report.to_json()))
        except WorkerUnreachableError:
            with self._noting:
                self._copied = {**copied, **self._copied}
                self._offset_keys = {**offset_keys, **self._offset_keys}
                self._topics |= topics
                self._log_lines[:0] = log_lines
                self._events[:0] = events
                if measures is not None:
                    newer = self._measures
                    self._measures = measures if newer is None else measures.followed_by(newer)
            if self._stores_nothing:
                # Nobody notes what is copied from now on: after a kill of the worker all of it would be repeated.
                self._lease.end()
            raise
        self._heard = time.monotonic()
        self._told = report.state
        self._lease.renew(sent, orders.lease_ms)
        if orders.log_levels is not None:
            apply(orders.log_levels)
            # Of the process, and no reason to wake the task.
            orders = replace(orders, log_levels=None)
        # The lease is new in every answer, and no reason to wake the task.
        if replace(orders, lease_ms=self.orders.lease_ms) != self.orders:
            self._obey(orders)

    def _loop_silence(self) -> float:
        """Seconds since the event loop last ran this thread's callback; 0 for less than one."""
        now = time.monotonic()
        if self._loop_asked is None:
            self._loop_asked = now
            try:
                self._loop.call_soon_threadsafe(self._loop_answers)
            except RuntimeError:  # it is closed: the epoch has ended
                self._loop_asked = None
            return 0.0
        silence = now - self._loop_asked
        return round(silence, 1) if silence >= 1 else 0.0

    def _loop_answers(self) -> None:
        self._loop_asked = None

    def _obey(self, orders: TaskOrders) -> None:
        self.orders = orders
        self.epoch_over = self.epoch_over or orders.end_epoch
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: the epoch has ended meanwhile
            self._loop.call_soon_threadsafe(self._notice)

    def _notice(self) -> None:
        self.changed.set()
        if self.abandon_wanted:
            self.abandoned.set()

    def _report_for_ever(self) -> None:
        while not self._stopped.is_set():
            try:
                # The worker holds a report for up to half a second, so orders arrive at once and reports stay rare. It
                # does not hold those of a task that is finishing.
                self._report()
                if self.orders.finish or self.orders.end_epoch:
                    self._stopped.wait(FINISHING_REPORT_S)
            except RunOverError:
                self._obey(TaskOrders(lease_ms=0, finish=True, abandon=True))
                return
            except WorkerUnreachableError:
                if time.monotonic() - self._heard > GIVE_UP_AFTER_S:
                    self._obey(TaskOrders(lease_ms=0, finish=True, abandon=True))
                    return
                self._stopped.wait(RETRY_S)
            if os.getppid() != self._parent and not self.epoch_over:
                # Spark's daemon is gone, so nobody would end this process. Spark starts the task in another one.
                self.epoch_over = True
                self._wake()
                threading.Thread(target=_die_soon, name="orphan", daemon=True).start()


def _die_soon() -> None:
    time.sleep(3.0)
    os._exit(1)
