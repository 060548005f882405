"""The open offset topics: the worker's own, and those of other clusters that connectors write to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.worker_connectors.target_choice import Target

log = logging.getLogger(__name__)

# Tasks need source offsets when they start or get partitions; an idle store of another cluster is closed after this time.
IDLE_S: Final = 600.0
# Not only the address: two logins may have different rights, and one must not read with the other's.
_Properties = frozenset[tuple[str, str]]


async def _nothing() -> None:
    """For a store that its owner closes."""


@dataclass(frozen=True, slots=True)
class OpenStore:
    """A followed log of source offsets, and the call that closes it.

    Tasks write to the topic, which has so many partitions. If it is empty, they report to the worker.
    """

    store: OffsetStore
    topic: str
    partitions: int
    close: Callable[[], Awaitable[None]] = _nothing


class Reported(NamedTuple):
    """A source offset that a task has reported, as a record of connect-offsets would have it."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = ()


class Stores(Protocol):
    """The stores with connectors' source offsets."""

    async def of(self, target: Target) -> OpenStore:
        """The store with the source offsets of connectors with this target; call it again before each use."""

    def reported(self, entries: Sequence[Reported]) -> None:
        """Takes what a task has reported that has no topic to write to."""

    async def stop(self) -> None:
        """Closes what `of` has opened."""


class OffsetStores:
    """The worker's offset store, and those of other clusters that connectors write to; these are closed when idle."""

    def __init__(
        self,
        own: Callable[[], OpenStore],
        open_other: Callable[[Target], Awaitable[OpenStore]],
        idle_s: float = IDLE_S,
    ) -> None:
        self._own = own
        self._open_other = open_other
        self._idle_s = idle_s
        self._others: dict[_Properties, OpenStore] = {}
        self._ends: dict[_Properties, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        # One for each login: a cluster that is slow to answer keeps only its own connectors waiting.
        self._opening: dict[_Properties, asyncio.Lock] = {}

    async def of(self, target: Target) -> OpenStore:
        """See Stores."""
        if target.own:
            return self._own()
        login = frozenset(target.producer.items())
        async with self._opening.setdefault(login, asyncio.Lock()):
            if login not in self._others:
                self._others[login] = await self._open_other(target)
            if login in self._ends:
                self._ends[login].cancel()
            self._ends[login] = asyncio.get_running_loop().call_later(self._idle_s, self._close, login)
            return self._others[login]

    def reported(self, entries: Sequence[Reported]) -> None:
        """See Stores. These tasks write their source offsets themselves."""
        raise RuntimeError(f"{len(entries)} source offsets were reported by a task that has a topic for them")

    def _close(self, login: _Properties) -> None:
        del self._ends[login]
        closing = asyncio.ensure_future(_closed(self._others.pop(login)))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def stop(self) -> None:
        """Closes the stores of other clusters; the worker closes its own."""
        for login, end in list(self._ends.items()):
            end.cancel()
            self._close(login)
        await asyncio.gather(*self._closing)


async def _closed(store: OpenStore) -> None:
    try:
        await store.close()
    except Exception:
        log.exception("The offsets topic of another cluster was not closed cleanly")
