"""Processes and a network in simulated time: each process has an event loop and a clock of its own, and may be suspended.

Nothing here waits: the world jumps to what happens next. A suspended process does nothing, and finds its timers overdue and
its answers there when it goes on, as after SIGSTOP. Product code runs in it unchanged.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import random
from asyncio import events
from collections.abc import Callable, Coroutine
from typing import Any, Final, Generic, TypeVar

from mirror_connect.kafka_io.client.connection import ConnectionLost

T = TypeVar("T")
# More than any rounding of times, and less than anything that happens here takes.
LEAST_S: Final = 1e-9


class Later(Generic[T]):
    """What a broker answers later: `serve` of Process.call may return it."""

    def __init__(self) -> None:
        self._outcome: tuple[T | None, Exception | None] | None = None
        self._told: Callable[[T | None, Exception | None], None] | None = None

    def answer(self, result: T | None, error: Exception | None = None) -> None:
        if self._outcome is None:
            self._outcome = result, error
            if self._told is not None:
                self._told(*self._outcome)

    def then(self, told: Callable[[T | None, Exception | None], None]) -> None:
        self._told = told
        if self._outcome is not None:
            told(*self._outcome)


class _NoSelector:
    def select(self, _timeout: float | None) -> list[Any]:
        return []


class World:
    """`now` in seconds. `random` decides delays alone, so that a seed and the events give the same run again."""

    def __init__(self, seed: int = 0) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.processes: list[Process] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, when: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(self.now + seconds, call)

    def run(self, seconds: float) -> None:
        """Lets everything happen that happens in this time."""
        until = self.now + seconds
        while True:
            due, process = self._next()
            if due > until:
                self.now = until
                return
            self.now = max(self.now, due)
            if process is None:
                heapq.heappop(self._events)[2]()
            else:
                process.step()

    def _next(self) -> tuple[float, Process | None]:
        due, chosen = (self._events[0][0], None) if self._events else (float("inf"), None)
        found: Process | None = chosen
        for process in self.processes:
            if not process.suspended and (when := process.due()) < due:
                due, found = when, process
        return due, found

    def close(self) -> None:
        for process in list(self.processes):
            process.kill()


class Process(asyncio.BaseEventLoop):
    """`offset` and `rate`: how its clock differs from the world's. `lies`: the clock stands still while suspended."""

    def __init__(self, world: World, name: str, *, offset: float = 0.0, rate: float = 1.0, lies: bool = False) -> None:
        self.world = world
        self.name = name
        self.suspended = False
        self.cut_until = 0.0
        self.late_until, self.late_s = 0.0, 0.0
        self._arrived = 0.0
        self.alive = True
        self.errors: list[dict[str, Any]] = []
        self._offset, self._rate, self._lies = offset, rate, lies
        self._lost = 0.0
        self._suspended_at = 0.0
        super().__init__()
        self._selector = _NoSelector()
        self._clock_resolution = 1e-6
        self.set_exception_handler(lambda _, context: self.errors.append(context))
        world.processes.append(self)

    # --- what asyncio asks of a loop --------------------------------------------------------------------------------

    def time(self) -> float:
        now = self._suspended_at if self.suspended and self._lies else self.world.now
        return self._offset + (now - self._lost) * self._rate

    def _process_events(self, _: list[Any]) -> None: ...

    def _write_to_self(self) -> None: ...

    # --- what the world asks ----------------------------------------------------------------------------------------

    def due(self) -> float:
        """When something is to be done here next, in the world's time."""
        if self._ready:  # type: ignore[attr-defined]
            return self.world.now
        while self._scheduled and self._scheduled[0]._cancelled:  # type: ignore[attr-defined]
            heapq.heappop(self._scheduled)._scheduled = False  # type: ignore[attr-defined]
        if not self._scheduled:  # type: ignore[attr-defined]
            return float("inf")
        when = self._scheduled[0]._when  # type: ignore[attr-defined]
        return max(self.world.now, (when - self._offset) / self._rate + self._lost)

    def step(self) -> None:
        # A timer that is due by less than what a float can hold must not keep the world from going on; nor must who waits
        # for the rest of its time, again and again, when no more than that is left of it.
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            if self._scheduled[0]._when > self.time():  # type: ignore[attr-defined]
                self.world.now += LEAST_S
            self._clock_resolution = max(1e-6, self._scheduled[0]._when - self.time() + 1e-6)  # type: ignore[attr-defined]
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            events._set_running_loop(before)
            self._clock_resolution = 1e-6

    # --- what a model does ------------------------------------------------------------------------------------------

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            return self.create_task(work)
        finally:
            events._set_running_loop(before)

    def made(self, make: Callable[[], T]) -> T:
        """An object that is made within the process."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            return make()
        finally:
            events._set_running_loop(before)

    def suspend(self, seconds: float) -> None:
        if self.suspended or not self.alive:
            return
        self.suspended, self._suspended_at = True, self.world.now

        def resume() -> None:
            if self._lies:
                self._lost += self.world.now - self._suspended_at
            self.suspended = False

        self.world.after(seconds, resume)

    def cut(self, seconds: float) -> None:
        """Nothing gets through to brokers."""
        self.cut_until = max(self.cut_until, self.world.now + seconds)

    def late(self, within: float, seconds: float) -> None:
        """What it sends within this time arrives so much later, and is lost to it: the connection has broken."""
        self.late_until, self.late_s = self.world.now + within, seconds

    def kill(self) -> None:
        """It is gone; what it does in being cleaned up reaches nobody."""
        if not self.alive:
            return
        self.alive = False
        self.world.processes.remove(self)
        for _ in range(10):
            for task in asyncio.all_tasks(self):
                task.cancel()
            for _ in range(20):
                if self._ready:  # type: ignore[attr-defined]
                    self.step()
        self.close()

    async def call(self, serve: Callable[[], T | Later[T]], timeout: float = 30.0) -> T:
        """A request to a broker: `serve` is what happens there when it arrives. ConnectionLost, also after `timeout`.

        Requests arrive in their order, but for those that are late.
        """
        world, answer = self.world, self.create_future()
        there, back = world.random.uniform(0.001, 0.02), world.random.uniform(0.001, 0.02)
        late = world.now < self.late_until
        lost = world.now < self.cut_until or not self.alive

        def arrive() -> None:
            try:
                result: Any = serve()
                error: Exception | None = None
            except Exception as raised:  # noqa: BLE001 - the answer is an error
                result, error = None, raised
            if isinstance(result, Later):
                result.then(answered)
            else:
                answered(result, error)

        def answered(result: Any, error: Exception | None) -> None:
            if not late and world.now >= self.cut_until:
                world.after(back, lambda: deliver(result, error))

        def deliver(result: Any, error: Exception | None) -> None:
            def settle() -> None:
                if not answer.done():
                    answer.set_result(result) if error is None else answer.set_exception(error)

            if self.alive:
                self.call_soon(settle)

        if late and not lost:
            world.after(there + self.late_s, arrive)
        elif not lost:
            self._arrived = max(self._arrived, world.now + there)
            world.at(self._arrived, arrive)
        try:
            async with asyncio.timeout(timeout):
                return await answer
        except TimeoutError:
            raise ConnectionLost("no answer") from None
