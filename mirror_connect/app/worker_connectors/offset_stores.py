"""The open offset topics: the worker's own, and those of other clusters that connectors write to."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, Protocol

from mirror_connect.app.storage.layered_offsets import LayeredOffsets
from mirror_connect.app.storage.offsets import SourceOffsetStore
from mirror_connect.app.worker_connectors.target_choice import Target

log = logging.getLogger(__name__)

# Tasks need source offsets when they start or get partitions; an idle store of another cluster is closed after this time.
IDLE_S: Final = 600.0
# Not only the address: two logins may have different rights, and one must not read with the other's.
_Properties = frozenset[tuple[str, str]]
# A login, and the name of a connector's own topic; empty for the common one.
_Place = tuple[_Properties, str]


async def _nothing() -> None:
    """For a store that its owner closes."""


@dataclass(frozen=True, slots=True)
class OpenStore:
    """A followed log of source offsets, and the call that closes it.

    Tasks write to the topic, which has so many partitions. If it is empty, they report to the worker.
    """

    store: SourceOffsetStore
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
    """The worker's offset store, those of other clusters and connectors' own; all but the first are closed when idle.

    `open_other` opens the target's `offsets_topic`, or the common one of its cluster.
    """

    def __init__(
        self,
        own: Callable[[], OpenStore],
        open_other: Callable[[Target], Awaitable[OpenStore]],
        idle_s: float = IDLE_S,
    ) -> None:
        self._own = own
        self._open_other = open_other
        self._idle_s = idle_s
        self._others: dict[_Place, OpenStore] = {}
        self._ends: dict[_Place, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        # One for each login: a cluster that is slow to answer keeps only its own connectors waiting.
        self._opening: dict[_Place, asyncio.Lock] = {}

    async def of(self, target: Target) -> OpenStore:
        """See Stores."""
        if target.offsets_topic:
            common = await self.of(replace(target, offsets_topic=""))
            own = await self._opened(target)
            return OpenStore(LayeredOffsets(own.store, common.store), own.topic, own.partitions)
        return self._own() if target.own else await self._opened(target)

    async def _opened(self, target: Target) -> OpenStore:
        place = frozenset(target.producer.items()), target.offsets_topic
        async with self._opening.setdefault(place, asyncio.Lock()):
            if place not in self._others:
                self._others[place] = await self._open_other(target)
            if place in self._ends:
                self._ends[place].cancel()
            self._ends[place] = asyncio.get_running_loop().call_later(self._idle_s, self._close, place)
            return self._others[place]

    def reported(self, entries: Sequence[Reported]) -> None:
        """See Stores. These tasks write their source offsets themselves."""
        raise RuntimeError(f"{len(entries)} source offsets were reported by a task that has a topic for them")

    def _close(self, place: _Place) -> None:
        del self._ends[place]
        closing = asyncio.ensure_future(_closed(self._others.pop(place)))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def stop(self) -> None:
        """Closes the stores of other clusters and connectors' own; the worker closes the rest."""
        for place, end in list(self._ends.items()):
            end.cancel()
            self._close(place)
        await asyncio.gather(*self._closing)


async def _closed(store: OpenStore) -> None:
    try:
        await store.close()
    except Exception:
        log.exception("The offset topic %s was not closed cleanly", store.topic)
