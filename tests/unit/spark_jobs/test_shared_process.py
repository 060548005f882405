"""The process that light tasks share: which epochs it runs, and when it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from mirror_connect.connectors import problems
from mirror_connect.connectors.problems import Problem, ProblemCode, Problems
from mirror_connect.spark_jobs import shared_process
from mirror_connect.spark_jobs.internal_http import RunHandle, RunOverError, WorkerUnreachableError
from mirror_connect.spark_jobs.shared_process import SHORTEST_EPOCH, SharedProcess
from mirror_connect.spark_jobs.task_context import EPOCH_SECONDS

PATIENCE_S = 30


class Worker:
    """The worker's end, without HTTP: names runs, or says that this process is over."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._version = 0
        self._runs: list[str] | None = []
        self.away = 0

    def names(self, *runs: str) -> None:
        self._answer(list(runs))

    def is_over(self) -> None:
        self._answer(None)

    def _answer(self, runs: list[str] | None) -> None:
        with self._condition:
            self._runs = runs
            self._version += 1
            self._condition.notify_all()

    def call(self, method: str, path: str, body: object = None, timeout: float = 0.0) -> dict[str, Any]:
        if self.away:
            self.away -= 1
            raise WorkerUnreachableError(path)
        known = int(path.partition("after=")[2])
        with self._condition:
            self._condition.wait_for(lambda: self._version > known or self._runs is None, timeout=PATIENCE_S)
            if self._runs is None:
                raise RunOverError(path)
            return {"version": self._version, "runs": [{"run_id": run, "token": f"of {run}"} for run in self._runs]}

    def close(self) -> None:
        self.is_over()


class Epochs:
    """Epochs that end when a test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.beginning = 0
        self.ends: dict[str, asyncio.Future[None]] = {}

    async def epoch(self, handle: RunHandle, seconds: float, beginning: AbstractAsyncContextManager[None]) -> None:
        assert handle.token == f"of {handle.run_id}"
        assert SHORTEST_EPOCH * EPOCH_SECONDS <= seconds <= EPOCH_SECONDS
        async with beginning:
            self.beginning += 1
            await asyncio.sleep(0)
            assert self.beginning == 1
            self.beginning -= 1
        self.begun.append(handle.run_id)
        self.ends[handle.run_id] = asyncio.get_running_loop().create_future()
        await self.ends[handle.run_id]

    def end(self, run: str, error: Exception | None = None) -> None:
        ending = self.ends.pop(run)
        ending.set_result(None) if error is None else ending.set_exception(error)


class Rig:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.worker, self.epochs = Worker(), Epochs()
        monkeypatch.setattr(shared_process, "InternalHttp", lambda *_: self.worker)
        monkeypatch.setattr(shared_process, "RETRY_S", 0.01)
        monkeypatch.setattr(shared_process, "ERROR_PAUSE_S", 0.01)
        self.process = SharedProcess(RunHandle("http://127.0.0.1:1", "p", "t"), self.epochs.epoch)
        self.running = asyncio.create_task(self.process.run())

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.001)

    async def over(self) -> None:
        """The worker says that this process is over, and it has heard that."""
        self.worker.is_over()
        await self.until(lambda: self.process._over)

    async def ended(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.running


@pytest.fixture
async def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


async def test_each_named_run_gets_its_epochs_until_it_is_named_no_more(rig: Rig) -> None:
    rig.worker.names("a")
    await rig.until(lambda: rig.epochs.begun == ["a"])
    rig.worker.names("a", "b")
    await rig.until(lambda: rig.epochs.begun == ["a", "b"])
    rig.epochs.end("a")
    await rig.until(lambda: rig.epochs.begun == ["a", "b", "a"])
    rig.worker.names("b")
    rig.worker.names("b", "c")
    await rig.until(lambda: "c" in rig.epochs.begun)
    rig.epochs.end("a")
    await rig.over()
    rig.epochs.end("b")
    await asyncio.sleep(0.05)
    assert not rig.running.done()
    rig.epochs.end("c")
    await rig.ended()
    assert rig.epochs.begun == ["a", "b", "a", "c"]


async def test_without_a_run_it_waits_and_is_over_when_the_worker_says_so(rig: Rig) -> None:
    await asyncio.sleep(0.05)
    assert not rig.running.done()
    await rig.over()
    await rig.ended()


async def test_an_epoch_that_fails_is_tried_again_and_ends_no_other(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.worker.names("a", "b")
    await rig.until(lambda: len(rig.epochs.ends) == 2)
    rig.epochs.end("a", ValueError("a bug"))
    await rig.until(lambda: rig.epochs.begun.count("a") == 2)
    assert rig.epochs.begun.count("b") == 1
    assert "an epoch of run a failed" in caplog.text
    await rig.over()
    for run in ("a", "b"):
        rig.epochs.end(run)
    await rig.ended()


async def test_a_worker_that_is_away_for_a_moment_ends_nothing(rig: Rig) -> None:
    rig.worker.names("a")
    await rig.until(lambda: rig.epochs.begun == ["a"])
    rig.worker.away = 5
    rig.worker.names("a")
    await rig.until(lambda: rig.worker.away == 0)
    rig.worker.names("a", "b")
    await rig.until(lambda: rig.epochs.begun == ["a", "b"])
    await rig.over()
    for run in ("a", "b"):
        rig.epochs.end(run)
    await rig.ended()


async def test_it_begins_nothing_when_sparks_daemon_is_gone(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.worker.names("a")
    await rig.until(lambda: rig.epochs.begun == ["a"])
    monkeypatch.setattr(shared_process.os, "getppid", lambda: 1)
    rig.worker.names("a", "b")
    await rig.until(lambda: rig.process._over)
    rig.epochs.end("a")
    await rig.ended()
    assert "b" not in rig.epochs.begun


async def test_many_tasks_may_wait_for_the_worker_at_once(rig: Rig) -> None:
    # Python's own limit is six threads on a machine of two cores.
    waiting = threading.Barrier(41, timeout=PATIENCE_S)
    rig.worker.names("a")
    await rig.until(lambda: rig.epochs.begun == ["a"])
    asked = [asyncio.to_thread(waiting.wait) for _ in range(40)]
    together = asyncio.gather(*asked)
    await asyncio.to_thread(waiting.wait)
    await together
    await rig.over()
    rig.epochs.end("a")
    await rig.ended()


async def test_of_a_run_that_is_gone_no_problem_is_kept(rig: Rig) -> None:
    for run in ("a", "b"):
        Problems(print, run=run).report(Problem("t", ProblemCode.PARTITION_UNREADABLE, "wrong"), shown=True)
    rig.worker.names("a", "b")
    await rig.until(lambda: len(rig.epochs.ends) == 2)
    rig.worker.names("b")
    await rig.until(lambda: list(rig.process._runs) == ["b"])
    rig.epochs.end("a")
    await rig.until(lambda: not any(run == "a" for run, *_ in problems._since))
    assert any(run == "b" for run, *_ in problems._since)
    await rig.over()
    rig.epochs.end("b")
    await rig.ended()
