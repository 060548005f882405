"""Sees which partitions of a task have batches in flight in the open transaction, and when it should end.

`interval`: when its time is over. `poll`: when all that had been fetched at its first batch was given to the producer, or
when nothing is in flight any more, although the producer has had its turn to take more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mirror_connect.spark_jobs.copy.transactional_flow import TransactionalFlow


class TransactionWatch:
    """`in_flight`: the feeds with batches in flight. `copied`: those of which the open transaction has records.

    `bytes`: given to the producer in the open transaction.

    `due`: set when the transaction should end before its time is over. `buffered`: gives the bytes that are fetched at
    present; None if the boundary isn't `poll`. `most`: ends the transaction after so many bytes; None for no limit.
    `on_most()`: called then, at once: nothing more may be given.
    `after_turn(call)`: calls when the producer has taken what it can; for `poll`.
    """

    def __init__(
        self,
        buffered: Callable[[], int] | None,
        on_most: Callable[[], None] = lambda: None,
        after_turn: Callable[[Callable[[], None]], object] = lambda call: call(),
    ) -> None:
        self.in_flight: set[TransactionalFlow] = set()
        self.copied: set[TransactionalFlow] = set()
        self.due = asyncio.Event()
        self.bytes = 0
        self.most: int | None = None
        self._buffered = buffered
        self._on_most = on_most
        self._after_turn = after_turn
        self._end: int | None = None

    def began(self) -> None:
        """A transaction begins."""
        self.due.clear()
        self.copied.clear()
        self.bytes, self._end = 0, self.most

    def ask(self) -> None:
        """The transaction should end soon."""
        self.due.set()

    def taken(self, feed: TransactionalFlow, size: int) -> None:
        """The feed has given a batch of so many bytes."""
        self.in_flight.add(feed)
        if self._buffered is not None and not self.bytes:
            fetched = self._buffered()
            self._end = fetched if self._end is None else min(self._end, fetched)
        self.bytes += size
        if self._end is not None and self.bytes >= self._end:
            self.due.set()
            if self.most is not None:
                self._on_most()

    def settled(self, feed: TransactionalFlow) -> None:
        """The feed has no batch in flight any more."""
        self.in_flight.discard(feed)
        if self._buffered is not None and self.bytes and not self.in_flight:
            self._after_turn(self._look)

    def _look(self) -> None:
        if self.bytes and not self.in_flight:
            self.due.set()
