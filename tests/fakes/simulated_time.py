"""An event loop whose time is simulated: hours pass in milliseconds, and the same schedule runs the same way every time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class NothingWillHappenError(AssertionError):
    """Every task waits, and no timer is set: a deadlock of what runs here."""


class _Selector(selectors.DefaultSelector):
    """Never waits: where the loop would sleep, its time goes on instead."""

    loop: SimulatedLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        # Something is ready already: what comes from outside can wait, and asking for it is dear.
        if timeout == 0:
            return []
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise NothingWillHappenError
            self.loop.now += timeout
        return ready


class SimulatedLoop(asyncio.SelectorEventLoop):
    """`now`: its time in seconds, from 0 on. Threads must not be used: their work would take no time, or all of it."""

    def __init__(self) -> None:
        self.now = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now


def run_simulated(work: Coroutine[Any, Any, T]) -> T:
    """Runs it to its end in simulated time."""
    with asyncio.Runner(loop_factory=SimulatedLoop) as runner:
        return runner.run(work)


def simulated_clock(clock: Callable[[], float], begin: float) -> Callable[[], float]:
    """In a loop that has a time of its own (`now`) that, since `begin`; everywhere else what `clock` says, also in another
    thread's event loop.

    That loop reads this clock, as it takes the place of time.monotonic: asking the loop for its time would never end.
    """

    def now() -> float:
        own: float | None = getattr(asyncio.events._get_running_loop(), "now", None)
        return clock() if own is None else begin + own

    return now
