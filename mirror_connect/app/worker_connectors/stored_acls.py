"""The ACLs that a connector has copied, stored with its source offsets, to find revocations from while it was stopped."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Final, TypeVar

from mirror_connect.app.worker_connectors.sampling_verification import OffsetsOf
from mirror_connect.connectors.acls import AclBinding, Resource
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.records.copied_acls import acl_offset, acl_partition, copied_acls

T = TypeVar("T")
# Reading to the end, and a record that all replicas have.
PATIENCE_S: Final = 35.0
# What is being stored when the connector is stopped.
CLOSING_S: Final = 2.0

_STOPPED: Final = "the offsets topic is no longer read: the connector is stopped"


class StoredAcls:
    """Of one connector. `load` and `save` block, for the thread of a sync; the store belongs to the event loop."""

    def __init__(self, name: str, config: Mapping[str, str], offsets_of: OffsetsOf) -> None:
        self._name = name
        self._config = config
        self._offsets_of = offsets_of
        self._loop = asyncio.get_running_loop()
        self._under_way: dict[concurrent.futures.Future[Any], asyncio.Task[Any]] = {}
        self._saving: set[asyncio.Task[Any]] = set()
        self._closed = False

    async def close(self) -> None:
        """On the event loop: cancels a sync that waits here; one that saves only after `CLOSING_S`.

        If a removed copy stayed stored, the next start would remove the same binding that somebody made by hand meanwhile.
        """
        self._closed = True
        if self._saving:
            await asyncio.wait(self._saving, timeout=CLOSING_S)
        for task in self._under_way.values():
            task.cancel()

    def load(self) -> dict[AclBinding, set[AclBinding]]:
        """All copies, with what they stand for. ClusterUnreachable, NotAuthorized."""
        return self._done(self._load, saves=False)

    def save(self, copies: Mapping[Resource, Mapping[AclBinding, Collection[AclBinding]]]) -> None:
        """Stores the copies of these resources; an empty entry removes one. ClusterUnreachable, NotAuthorized."""
        if copies:
            self._done(lambda: self._save(copies), saves=True)

    async def _load(self) -> dict[AclBinding, set[AclBinding]]:
        store = await self._offsets_of(self._config)
        notes = await store.notes(self._name)
        return {copy: of for note in notes for copy, of in copied_acls(note.partition, note.offset).items()}

    async def _save(self, copies: Mapping[Resource, Mapping[AclBinding, Collection[AclBinding]]]) -> None:
        store = await self._offsets_of(self._config)
        await store.put(self._name, [(acl_partition(each), acl_offset(of)) for each, of in copies.items()])

    def _done(self, work: Callable[[], Coroutine[Any, Any, T]], *, saves: bool) -> T:
        answer = concurrent.futures.Future[T]()
        self._loop.call_soon_threadsafe(self._begin, work, answer, saves)
        try:
            return answer.result(PATIENCE_S)
        except TimeoutError:
            # The timeout of this wait: that of the store arrives as another error.
            self._loop.call_soon_threadsafe(self._give_up, answer)
            what, cause = "the offsets topic does not answer", f"nothing within {PATIENCE_S:g} s"
            raise ClusterUnreachable(f"{what} within {PATIENCE_S:g} s", what=what, cause=cause) from None

    # On the event loop.

    def _begin(
        self, work: Callable[[], Coroutine[Any, Any, T]], answer: concurrent.futures.Future[T], saves: bool
    ) -> None:
        # The coroutine is made only here: if another thread made it and the loop ended, it would never run.
        if self._closed:
            answer.set_exception(ClusterUnreachable(_STOPPED))
            return
        task = self._under_way[answer] = asyncio.create_task(work())
        if saves:
            self._saving.add(task)
            task.add_done_callback(self._saving.discard)
        task.add_done_callback(lambda done: self._complete(done, answer))

    def _complete(self, done: asyncio.Task[T], answer: concurrent.futures.Future[T]) -> None:
        del self._under_way[answer]
        if done.cancelled():
            answer.set_exception(
                ClusterUnreachable(_STOPPED if self._closed else "reading the offsets topic was cancelled")
            )
        elif isinstance(error := done.exception(), TimeoutError):
            why = f": {error}" if str(error) else ""
            answer.set_exception(ClusterUnreachable(f"the offsets topic did not answer in time{why}"))
        elif error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(done.result())

    def _give_up(self, answer: concurrent.futures.Future[Any]) -> None:
        if task := self._under_way.get(answer):
            task.cancel()
