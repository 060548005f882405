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
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from mirror_connect.kafka_io.client.connection import ConnectionLost

T = TypeVar("T")
# More than any rounding of times, and less than anything that happens here takes.
LEAST_S: Final = 1e-9
# Of timers, before they are taken out.
MOST_CANCELLED: Final = 50
INFINITY: Final = float("inf")


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


class World:
    """`now` in seconds. `random` decides delays alone, so that a seed and the events give the same run again."""

    def __init__(self, seed: int = 0) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.processes: list[Process] = []
        # asyncio's running loop while this world runs: set when another one's turn begins, which is dear.
        self.turn: Process | None = None
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()

    def at(self, when: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._numbers), call))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        self.at(self.now + seconds, call)

    def run(self, seconds: float) -> None:
        """Lets everything happen that happens in this time."""
        until = self.now + seconds
        events_of_world = self._events
        try:
            while True:
                due, process = self._next()
                if due > until:
                    self.now = until
                    return
                self.now = max(self.now, due)
                self.give_turn(process)
                if process is None:
                    heapq.heappop(events_of_world)[2]()
                else:
                    process.step()
        finally:
            self.give_turn(None)

    def give_turn(self, process: Process | None) -> None:
        """From now on its loop is the one that runs; None: no loop is."""
        if process is not self.turn:
            self.turn = process
            events._set_running_loop(process)

    def _next(self) -> tuple[float, Process | None]:
        now = self.now
        due, found = (self._events[0][0], None) if self._events else (INFINITY, None)
        for process in self.processes:
            if process.suspended:
                continue
            when = process.next_due
            if when is None:
                when = process.due()
            when = max(when, now)
            if when < due:
                due, found = when, process
        return due, found

    def close(self) -> None:
        for process in list(self.processes):
            process.kill()


class Process(asyncio.BaseEventLoop):
    """`offset` and `rate`: how its clock differs from the world's. `lies`: the clock stands still while suspended."""

    # BaseEventLoop's own.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]

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
        # When it has something to do, in the world's time, if that is known.
        self.next_due: float | None = None
        self._cancelled = 0
        super().__init__()
        self.set_exception_handler(lambda _, context: self.errors.append(context))
        world.processes.append(self)

    @property
    def now(self) -> float:
        """The world's time: what patched clocks say in this process (simulated_time.simulated_clock)."""
        return self.world.now

    # What asyncio asks of a loop.

    def time(self) -> float:
        now = self._suspended_at if self.suspended and self._lies else self.world.now
        return self._offset + (now - self._lost) * self._rate

    def _write_to_self(self) -> None: ...

    # Shorter than BaseEventLoop's, which ask for the debug mode: most of the time of a model is spent here.

    def call_soon(self, callback: Callable[..., Any], *args: Any, context: Any = None) -> asyncio.Handle:
        self._check_closed()  # type: ignore[attr-defined]
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        self.next_due = 0.0
        return handle

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        self._check_closed()  # type: ignore[attr-defined]
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True  # type: ignore[attr-defined]
        if self._scheduled[0] is timer and not self._ready:
            self.next_due = None
        return timer

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if not handle._scheduled:  # type: ignore[attr-defined]
            return
        self._cancelled += 1
        if self._scheduled[0] is handle and not self._ready:
            self.next_due = None

    # What the world asks.

    def due(self) -> float:
        """When something is to be done here next, in the world's time; the past if it is overdue."""
        scheduled = self._scheduled
        if self._ready:
            self.next_due = 0.0
            return 0.0
        while scheduled and scheduled[0]._cancelled:  # type: ignore[attr-defined]
            heapq.heappop(scheduled)._scheduled = False  # type: ignore[attr-defined]
            self._cancelled -= 1
        if not scheduled:
            self.next_due = INFINITY
        else:
            self.next_due = (scheduled[0].when() - self._offset) / self._rate + self._lost
        return self.next_due

    def step(self) -> None:
        """One turn of the loop, as BaseEventLoop._run_once: what is due now, and what was ready before."""
        ready, scheduled = self._ready, self._scheduled
        if self._cancelled > MOST_CANCELLED and self._cancelled * 2 > len(scheduled):
            self._sweep()
        end = self.time() + 1e-6
        # A timer that is due by less than what a float can hold must not keep the world from going on; nor must who waits
        # for the rest of its time, again and again, when no more than that is left of it.
        if not ready and scheduled:
            if scheduled[0].when() > self.time():
                self.world.now += LEAST_S
            end = max(self.time() + 1e-6, scheduled[0].when() + 1e-6)
        while scheduled and scheduled[0].when() < end:
            timer = heapq.heappop(scheduled)
            timer._scheduled = False  # type: ignore[attr-defined]
            if timer._cancelled:  # type: ignore[attr-defined]
                self._cancelled -= 1
            else:
                ready.append(timer)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:  # type: ignore[attr-defined]
                handle._run()
        self.next_due = None

    def _sweep(self) -> None:
        for timer in self._scheduled:
            timer._scheduled = not timer._cancelled  # type: ignore[attr-defined]
        self._scheduled[:] = [timer for timer in self._scheduled if not timer._cancelled]  # type: ignore[attr-defined]
        heapq.heapify(self._scheduled)
        self._cancelled = 0

    # What a model does.

    @contextmanager
    def _within(self) -> Iterator[None]:
        before = self.world.turn
        self.world.give_turn(self)
        try:
            yield
        finally:
            self.world.give_turn(before)

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        with self._within():
            return self.create_task(work)

    def made(self, make: Callable[[], T]) -> T:
        """An object that is made within the process."""
        with self._within():
            return make()

    def suspend(self, seconds: float) -> None:
        if self.suspended or not self.alive:
            return
        self.suspended, self._suspended_at = True, self.world.now

        def resume() -> None:
            if self._lies:
                self._lost += self.world.now - self._suspended_at
            self.suspended, self.next_due = False, None

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
        with self._within():
            for _ in range(10):
                tasks = asyncio.all_tasks(self)
                for task in tasks:
                    task.cancel()
                for _ in range(20):
                    if self._ready:
                        self.step()
                if not tasks and not self._ready:
                    break
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

        def give_up() -> None:
            if not answer.done():
                answer.set_exception(ConnectionLost("no answer"))

        timer = self.call_later(timeout, give_up)
        try:
            return await answer
        finally:
            timer.cancel()
