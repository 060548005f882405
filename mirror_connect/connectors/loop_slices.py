"""Long work of an event loop in slices: after each of them all else that waits there has its turn.

The slices count items and not time. So the same work has the same slices on any machine, and in simulated time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

T = TypeVar("T")


def slices(items: Iterable[T], most: int) -> Iterator[list[T]]:
    """The items in lists of at most `most`."""
    rest = iter(items)
    while part := list(islice(rest, most)):
        yield part


async def in_turns(items: Iterable[T], most: int) -> AsyncIterator[list[T]]:
    """The same lists, each in a turn of the loop of its own. The first one comes at once."""
    for number, part in enumerate(slices(items, most)):
        if number:
            await asyncio.sleep(0)
        yield part


async def drained(waiting: dict[T, Any], do: Callable[[T], None], most: int) -> None:
    """Takes out the keys that are there now, first to last, and calls `do` with each of them; `most` in one slice.

    A key that somebody else takes out meanwhile is left alone. One that joins may have to wait for the next call.
    """
    left = len(waiting)
    while left > 0 and waiting:
        for key in list(islice(waiting, min(left, most))):
            del waiting[key]
            do(key)
        left -= most
        if left > 0:
            await asyncio.sleep(0)


class SharedSlices:
    """One slice in each turn of the loop for several works, which hold `one` while they work: one after the other."""

    def __init__(self, most: int) -> None:
        self.one = asyncio.Lock()
        self._most = most
        self._done = 0

    async def room(self, items: int) -> None:
        """Waits for the next turn if the present slice has no room for so many items."""
        if self._done and self._done + items > self._most:
            await asyncio.sleep(0)
            self._done = 0
        self._done += items
