"""Work that several tasks of one event loop need at the same time, done once for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class SharedWork(Generic[T]):
    """Each caller gets the result of work that begins after its call: what is true at the call must be in it.

    One piece of work runs at a time. All who call meanwhile wait for the next one, which begins behind it. It is cancelled
    when nobody waits for it any more. It may be used by several event loops, one after the other.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._running: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None
        self._waiting: dict[asyncio.Task[T], int] = {}

    async def result(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """The result of the next piece of work; `work` begins it, if no other caller's does. Errors go to all."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # The one before is closed, and its tasks with it.
            self._loop, self._running, self._next, self._waiting = loop, None, None, {}
        task = self._next
        if task is None:
            task = self._next = loop.create_task(self._run(self._running, work))
        self._waiting[task] = self._waiting.get(task, 0) + 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiting[task] -= 1
            if not self._waiting[task]:
                del self._waiting[task]
                if task.done():
                    _ = task.cancelled() or task.exception()  # counts as seen, also if all callers were cancelled
                else:
                    if self._next is task:
                        self._next = None
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    async def _run(self, before: asyncio.Task[T] | None, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if before is not None:
            await asyncio.wait({before})
        # Who calls from here on waits for another one.
        self._running, self._next = self._next, None
        return await work()
