"""Follows what the group assigns to this worker, and has the reconciler run it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Final

from mirror_connect.app.herder.interfaces import (
    OUTSIDE,
    Claims,
    GroupAssignment,
    Membership,
    Supervisor,
    WantedWork,
)
from mirror_connect.app.herder.leader import Leader
from mirror_connect.app.herder.other_workers import group_news
from mirror_connect.app.herder.reconciler import Reconciler
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.connectors.clock import boot_clock
from mirror_connect.connectors.errors import ClusterUnreachable, NotAuthorized
from mirror_connect.connectors.wording import counted

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
_POLL_S: Final = 0.05


class Assignments:
    """See the module. It is also what the members share (GroupWork). `alone`: there is no group."""

    def __init__(
        self,
        membership: Membership,
        configs: ConfigStore,
        reconciler: Reconciler,
        leader: Leader,
        *,
        supervisor: Supervisor,
        worker_id: str,
        alone: bool = False,
    ) -> None:
        self._membership = membership
        self._configs = configs
        self._reconciler = reconciler
        self._leader = leader
        self._supervisor = supervisor
        self._worker_id = worker_id
        self._alone = alone
        self._due = asyncio.Event()
        self._applied: GroupAssignment | None = None
        self._told: tuple[int, int] | None = None
        self._following: asyncio.Task[None] | None = None
        self._lets_go = False

    def wanted(self) -> WantedWork:
        """See GroupWork."""
        return self._leader.wanted()

    def claims(self) -> Claims:
        """See GroupWork."""
        return self._reconciler.claims()

    def start(self) -> None:
        """Begins to run what is assigned; call it when the topics have been read."""
        self._configs.add_listener(lambda _: self._due.set())
        self._following = asyncio.create_task(self._follow(), name="assignments")

    def changed(self) -> None:
        """The assignment may have changed. What this worker ran is void at once if its place is lost or uncertain."""
        assignment = self._membership.assignment
        if assignment != OUTSIDE:
            news = group_news(assignment, self._worker_id, boot_clock())
            self._supervisor.group_changed(news.others, news.believed, assignment.config_offset)
        if self._membership.runs_for() <= 0:
            self._applied = None
            self._reconciler.retire()
        self._due.set()

    async def let_go(self, patience_s: float) -> bool:
        """Ends all that runs here, and begins nothing until `take_again`. Whether all has ended in time."""
        self._lets_go, self._applied = True, None
        self._reconciler.revoke((), ())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience_s):
                while self._has_any:
                    await asyncio.sleep(_POLL_S)
        return not self._has_any

    def take_again(self) -> None:
        """What is assigned is run again."""
        self._lets_go = False
        self._due.set()

    @property
    def _has_any(self) -> bool:
        claims = self.claims()
        return bool(claims.connectors or claims.tasks)

    async def end(self) -> None:
        """Runs nothing new from now on."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)

    async def _follow(self) -> None:
        told = ""
        while True:
            self._due.clear()
            try:
                await self._match()
                told = ""
            except (ClusterUnreachable, NotAuthorized) as error:
                if str(error) != told:
                    log.warning("This worker can't run what is assigned to it yet: %s", error)
                told = str(error)
                self._due.set()
                await asyncio.sleep(RETRY_S)
            except Exception:
                log.exception("Handling a new assignment failed; trying again")
                self._due.set()
                await asyncio.sleep(RETRY_S)
            await self._due.wait()

    async def _match(self) -> None:
        assignment = self._membership.assignment
        if self._lets_go or assignment == self._applied or self._membership.runs_for() <= 0:
            return
        # At once: another worker waits for it.
        self._reconciler.revoke(assignment.connectors, assignment.tasks)
        if self._configs.snapshot().offset < assignment.config_offset:
            await self._configs.refresh()
        if self._lets_go or self._membership.assignment != assignment or self._membership.runs_for() <= 0:
            self._due.set()
            return
        self._reconciler.assign(assignment.connectors, assignment.tasks)
        self._leader.assigned(assignment)
        # Not before: what has failed is tried again.
        self._applied = assignment
        self._tell(assignment)

    def _tell(self, assignment: GroupAssignment) -> None:
        connectors, tasks, workers = len(assignment.connectors), len(assignment.tasks), len(assignment.workers)
        known = self._told or (0, 0)
        if self._alone or (connectors, tasks) == known or (workers <= 1 and self._told is not None):
            return
        self._told = (connectors, tasks)
        among = f", as one of {workers} workers" if workers > 1 else ""
        log.info("This worker runs %s and %s%s", counted(connectors, "connector"), counted(tasks, "task"), among)
