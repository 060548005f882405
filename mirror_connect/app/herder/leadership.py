"""Whether this worker can answer, whether it leads, and the lock for writes.

The broker's group coordinator chooses the leader; membership.py reads its choice.

A worker answers when it has read its topics. It writes when it leads its group and has taken over, which means that it has
read everything the last leader wrote. Without the leadership it cannot write any more. What it runs is another matter: see
assignments.py.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Final

from mirror_connect.app.errors import ConnectError, NotLeader, NotReady, ShuttingDown
from mirror_connect.app.herder.interfaces import Membership, SteppedOut
from mirror_connect.app.herder.leader import Leader
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.connectors.errors import ClusterUnreachable, LeaseOver, NotAuthorized

log = logging.getLogger(__name__)

# Deploy scripts write as soon as the REST port answers. To join the group takes a moment longer; after a kill of this
# worker it takes until the session of the killed process is over (session.timeout.ms).
LEADER_WAIT_S: Final = 15.0
READY_WAIT_S: Final = 10.0
RETRY_S: Final = 1.0


class Leadership:
    """See the module. `turn` is the lock that all writers of records take."""

    def __init__(
        self,
        membership: Membership,
        configs: ConfigStore,
        statuses: StatusStore,
        leader: Leader,
        turn: asyncio.Lock,
        *,
        alone: bool = False,
    ) -> None:
        self._membership = membership
        self._configs = configs
        self._statuses = statuses
        self._leader = leader
        self._turn = turn
        self._alone = alone
        self._ready = asyncio.Event()
        self._changed = asyncio.Event()
        self._moved = asyncio.Event()
        self._ending = False
        self._complete = False
        self._takeover_problem: str | None = None
        self._led_by: str | None = None
        self._following: asyncio.Task[None] | None = None
        self._term = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def started(self) -> bool:
        """Whether `start` was called."""
        return self._following is not None

    @property
    def ready(self) -> bool:
        """Whether the topics have been read, and the worker does not end yet."""
        return self._ready.is_set()

    @property
    def complete(self) -> bool:
        """Whether the start is over: since then this worker has taken over, or has known who leads.

        After a kill the broker lets it in only when the session of the killed process is over.
        """
        self._note_completion()
        return self.ready and self._complete

    @property
    def term(self) -> int | None:
        """The number of this worker's takeover, from 1 on, while it leads and has taken over; None otherwise."""
        return self._term if self._membership.is_leader and self._leader.leading else None

    @property
    def leader(self) -> str | None:
        """The URL of another worker that leads; None while there is none, or it is unknown."""
        return None if self._membership.is_leader else self._membership.leader_url

    def add_listener(self, moved: Callable[[], None]) -> None:
        """`moved` is called when the leadership has moved to or from this worker, or from one other worker to the next."""
        self._listeners.append(moved)

    def start(self) -> None:
        """Answers from now on, and leads as soon as the membership says so. Call it when the topics have been read."""
        self._following = asyncio.create_task(self._follow())
        self._ready.set()

    def changed(self) -> None:
        """The group assignment may have changed."""
        self._changed.set()

    async def end(self) -> None:
        """Ends answers and writes."""
        self._ending = True
        self._ready.clear()
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def until_ready(self) -> None:
        """Returns when reads can be answered; NotReady, ShuttingDown."""
        if self._ending:
            raise ShuttingDown
        try:
            async with asyncio.timeout(READY_WAIT_S):
                await self._ready.wait()
        except TimeoutError:
            raise NotReady("it has not read its topics yet") from None

    @contextlib.asynccontextmanager
    async def writing(self) -> AsyncIterator[ConfigSnapshot]:
        """Holds the lock for writes; gives the state before the write. NotLeader, NotReady, ShuttingDown, ConnectError."""
        await self._until_leading()
        async with self._turn:
            if self._ending:
                raise ShuttingDown
            if not (self._membership.is_leader and self._leader.leading):
                raise self._not_leader()
            try:
                # After a failed write another worker may have claimed the topic, and written.
                yield self._configs.snapshot() if self._configs.claimed else await self._configs.claim()
            except LeaseOver as error:
                raise self._not_leader() from error
            except (ClusterUnreachable, NotAuthorized) as error:
                raise ConnectError(str(error)) from error

    async def _until_leading(self) -> None:
        await self.until_ready()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEADER_WAIT_S):
                while not (self._membership.is_leader and self._leader.leading):
                    if not self._membership.is_leader and self._membership.leader_url is not None:
                        # There is a leader, and it is another worker.
                        raise NotLeader(self._membership.leader_url)
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(0.1):
                            await self._moved.wait()
                return
        if self._membership.is_leader:
            raise NotReady(self._takeover_problem or "it has not taken over yet")
        raise NotReady("it has not joined its group yet") if self._membership.generation < 0 else self._not_leader()

    def _not_leader(self) -> NotLeader:
        silence = self._membership.silence
        why = None if silence is None else f"{silence}. Repeat the request when the cluster answers again"
        return NotLeader(None if self._membership.is_leader else self._membership.leader_url, why)

    @property
    def _has_stepped_out(self) -> bool:
        """Whether this worker has left its group by itself, as a line of the log has said."""
        return isinstance(self._membership.silence, SteppedOut)

    def _note_completion(self) -> None:
        self._complete = self._complete or self.term is not None or self.leader is not None

    async def _follow(self) -> None:
        while True:
            self._changed.clear()
            try:
                await self._match()
                self._takeover_problem = None
                # Also where nobody asks for it: later the cluster may be away.
                self._note_completion()
            except (ClusterUnreachable, NotAuthorized) as error:
                if str(error) != self._takeover_problem:
                    log.warning("This worker can't take over yet: %s", error)
                self._takeover_problem = str(error)
                self._changed.set()
                await asyncio.sleep(RETRY_S)
            except Exception:
                log.exception("Handling a change of leadership failed; trying again")
                self._changed.set()
                await asyncio.sleep(RETRY_S)
            self._moved.set()
            self._moved = asyncio.Event()
            for moved in self._listeners:
                moved()
            await self._changed.wait()

    async def _match(self) -> None:
        leads = self._membership.is_leader and not self._ending
        if leads and not self._leader.leading:
            if self._led_by is not None:
                log.warning(
                    "%s no longer leads the group: it stopped, or sent no heartbeat within its session.timeout.ms. This "
                    "worker leads now",
                    self._led_by,
                )
                self._led_by = None
            # This worker must know everything that the last leader wrote before it decides anything.
            async with self._turn:
                await self._configs.claim()
                await self._statuses.refresh()
                await self._configs.put_session_key()
                if self._membership.is_leader and not self._ending:
                    self._term += 1
                    self._leader.begin()
                    if not self._alone:
                        log.info("This worker leads its group")
        elif not leads and self._leader.leading and not self._ending:
            leader = self._membership.leader_url
            why = f"{leader} leads" if leader else "its cluster did not answer in time, so another worker may lead"
            if not self._has_stepped_out:
                log.warning("This worker no longer leads the group: %s", why)
            self._configs.relinquish()
            self._leader.end()
        elsewhere = None if self._membership.is_leader else self._membership.leader_url
        if elsewhere is not None and elsewhere != self._led_by:
            log.info("This worker is in its group; the leader is %s", elsewhere)
        elif elsewhere is None and self._led_by is not None and not self._ending and not self._has_stepped_out:
            log.warning("Lost group membership; rejoining. The last known leader is %s", self._led_by)
        self._led_by = elsewhere
