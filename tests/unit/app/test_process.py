"""What a process has once: Spark, whoever starts it, and the log, which goes on to hide secrets whatever goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import socket
from collections.abc import Collection
from types import SimpleNamespace
from typing import Any, cast

import pytest

from mirror_connect.app import process as process_module
from mirror_connect.app.errors import StartupError
from mirror_connect.app.foreground import LAST_RESORT_S
from mirror_connect.app.process import CLOSING_S, END_S, LEAVING_S, SPARK_ENDS_S, SPARK_KILLED_S, Process, forget_unused
from mirror_connect.app.steps import LEAST_PATIENCE_S, ending_by
from mirror_connect.app.supervisor import launcher
from mirror_connect.app.supervisor.launched_spark import LaunchedSpark
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.worker import Worker
from mirror_connect.connectors.log_format import LineFormatter, log_flow
from tests.fakes.simulated_time import run_simulated


async def test_secrets_in_use_are_told_again_and_again_also_after_an_error() -> None:
    answers = iter([{"first"}, RuntimeError("not now"), {"second"}])
    told: list[Collection[str]] = []
    enough = asyncio.Event()

    async def in_use() -> Collection[str]:
        answer = next(answers, None)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            enough.set()
            await asyncio.Event().wait()
        return answer or ()

    forgetting = asyncio.create_task(forget_unused(in_use, told.append, 0.001))
    async with asyncio.timeout(60):
        await enough.wait()
    forgetting.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await forgetting
    assert told == [{"first"}, {"second"}]


async def test_spark_starts_with_the_next_flow_where_the_first_one_got_no_port(monkeypatch: pytest.MonkeyPatch) -> None:
    urls: list[str] = []

    async def start(_: SparkHost, url: str) -> None:
        urls.append(url)

    def no_port(*_: object) -> socket.socket:
        raise StartupError("Can't listen")

    monkeypatch.setattr(SparkHost, "start", start)
    process = Process({}, lambda _: None)
    with monkeypatch.context() as patch:
        patch.setattr(process_module, "listen_on", no_port)
        with pytest.raises(StartupError):
            await process.start_spark()
    await process.start_spark()
    await process.http.end()
    assert [url.rpartition(":")[0] for url in urls] == ["http://127.0.0.1"]


async def test_spark_belongs_to_no_flow_whichever_starts_it(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    formatter = LineFormatter("%(message)s")

    async def start(_: SparkHost, url: str) -> None:
        # As Spark's keeper does: a task of its own, which takes over the context.
        await asyncio.create_task(say(url))

    async def say(url: str) -> None:
        lines.append(formatter.format(logging.LogRecord("l", logging.INFO, "f", 1, "Spark is starting", (), None)))

    monkeypatch.setattr(SparkHost, "start", start)
    process = Process({}, lambda _: None)
    with log_flow("A->B"):
        await process.start_spark()
        await process.start_spark()
    await process.http.end()
    assert lines == ["Spark is starting"]


async def test_spark_that_is_launched_is_followed_before_anything_else_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "DRIVER", ("-c", "import sys; sys.stdin.read()"))
    launched = await asyncio.to_thread(LaunchedSpark, {})
    process = Process({}, lambda _: None, launched)

    async def start() -> None:
        async with asyncio.timeout(60):
            while process.spark.copying.application is None:
                await asyncio.sleep(0.01)
        assert process.spark.copying.application is launched.application
        process.stop()

    await process.run(start)
    assert not launched.application.owns(launched.application.pid or 0)


async def test_what_is_there_after_the_start_is_no_garbage_to_look_for(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(gc, "freeze", lambda: told.append("frozen"))
    process = Process({}, lambda _: None)

    async def start() -> None:
        told.append("started")
        asyncio.get_running_loop().call_later(0.05, process.stop)

    await process.run(start)
    assert told == ["started", "frozen"]


# The end.


class FakePart:
    """Writes down its steps, and when each begins. `hanging`, `raising`: the steps that do so; no cancelling ends one."""

    def __init__(
        self,
        told: list[tuple[str, float]],
        *,
        hanging: Collection[str] = (),
        raising: str = "",
        ended: bool = False,
    ) -> None:
        self._told = told
        self.ended = ended
        self._hanging = hanging
        self._raising = raising

    def measured(self) -> None:
        return None

    async def secrets(self) -> frozenset[str]:
        return frozenset()

    async def end_tasks(self) -> None:
        await self._step("tasks")

    async def leave(self) -> None:
        await self._step("leave")

    async def close(self) -> None:
        await self._step("close")

    async def _step(self, name: str) -> None:
        self._told.append((name, now()))
        if name == self._raising:
            raise KeyError(name)
        if name in self._hanging:
            await hang()


class FakeSpark:
    """An application that ends only by being killed, which takes some time; then its scratch files are removed."""

    def __init__(self, told: list[tuple[str, float]], kill_s: float) -> None:
        self._told = told
        self._kill_s = kill_s

    async def end(self, patience_s: float) -> None:
        self._told.append(("spark", now()))
        await asyncio.sleep(patience_s + self._kill_s)
        self._told.append(("scratch removed", now()))


def now() -> float:
    return asyncio.get_running_loop().time()


async def hang() -> None:
    """Until long after the end, when the loop is closed."""
    while (left := 1000 - now()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(left)


async def up() -> None: ...


def ended(*parts: dict[str, Any], start: Any = up, kill_s: float = 0.1) -> tuple[list[tuple[str, float]], float]:
    """The steps of an end and when they began, and when it was over."""
    told: list[tuple[str, float]] = []

    async def run() -> float:
        process = Process({}, lambda _: None)
        process.spark.copying._keeper.application = cast("Any", FakeSpark(told, kill_s))
        for part in parts:
            process.add(FakePart(told, **part))
        process.stop()
        await process.run(start)
        return now()

    return told, run_simulated(run())


def names(told: list[tuple[str, float]]) -> list[str]:
    return [name for name, _ in told]


IN_ORDER = ["tasks", "spark", "scratch removed", "leave", "close"]


def test_tasks_end_then_spark_then_workers_leave_their_groups_and_close() -> None:
    told, over = ended({})
    assert (names(told), over) == (IN_ORDER, SPARK_ENDS_S + 0.1)


def test_a_worker_whose_tasks_have_surely_ended_leaves_while_spark_ends() -> None:
    told, over = ended({"ended": True}, {})
    assert names(told) == ["tasks", "tasks", "spark", "leave", "scratch removed", "leave", "close", "close"]
    assert (told[3][1], over) == (0, SPARK_ENDS_S + 0.1)


def test_one_that_leaves_early_and_hangs_takes_no_time_from_the_others() -> None:
    told, over = ended({"ended": True, "hanging": {"leave"}}, {})
    assert names(told)[-3:] == ["leave", "close", "close"]
    assert over < END_S


def test_whatever_hangs_all_of_the_end_is_over_before_the_last_resort_and_spark_is_killed() -> None:
    everything = {"hanging": {"tasks", "leave", "close"}}
    told, over = ended(everything, everything, start=hang, kill_s=SPARK_KILLED_S - 0.1)
    begun = dict(told)
    assert list(dict.fromkeys(names(told))) == IN_ORDER
    assert over == pytest.approx(END_S)
    assert over < LAST_RESORT_S
    # Nothing is left for Spark to end by itself.
    assert begun["scratch removed"] - begun["spark"] == pytest.approx(SPARK_KILLED_S - 0.1)
    assert begun["close"] - begun["leave"] >= LEAVING_S
    assert over - begun["close"] >= CLOSING_S


def test_what_a_step_does_not_need_is_for_those_after_it() -> None:
    told, over = ended({"hanging": {"leave"}})
    assert dict(told)["close"] == pytest.approx(END_S - CLOSING_S)
    assert over == pytest.approx(END_S - CLOSING_S)


@pytest.mark.parametrize("step", ["tasks", "leave", "close"])
def test_a_part_that_raises_stops_no_step_of_others(step: str, caplog: pytest.LogCaptureFixture) -> None:
    told, _ = ended({"raising": step}, {})
    assert names(told) == [*("tasks", "tasks", "spark", "scratch removed", "leave", "leave", "close", "close")]
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_failed_start_ends_all_parts_and_is_raised() -> None:
    told: list[tuple[str, float]] = []

    async def start() -> None:
        raise StartupError("no room")

    async def run() -> None:
        process = Process({}, lambda _: None)
        process.spark.copying._keeper.application = cast("Any", FakeSpark(told, 0.0))
        process.add(FakePart(told))
        await process.run(start)

    with pytest.raises(StartupError, match="no room"):
        run_simulated(run())
    assert names(told) == IN_ORDER


def test_a_worker_leaves_its_group_though_its_last_statuses_hang() -> None:
    left: list[float] = []

    class Backing:
        async def leave(self, farewell_s: float, *, silently: bool = False) -> None:
            # Nothing is left of the time for more than to leave.
            left.append(now() + farewell_s)

    class Herder:
        async def stop(self, _: float) -> None:
            await hang()

    async def run() -> None:
        worker = Worker.__new__(Worker)
        worker._backing = cast("Any", Backing())
        worker.herder = cast("Any", Herder())  # type: ignore[misc]
        worker._spark = cast("Any", SimpleNamespace(is_remote=False))
        with ending_by(LEAVING_S):
            await worker.leave()

    run_simulated(run())
    assert left == [pytest.approx(LEAVING_S - LEAST_PATIENCE_S)]
