"""A standalone worker: configs and statuses are in memory, source offsets in a file, and there is no other worker.

Its tasks report their source offsets, as they can't write the file. Their lease is short: tasks of a killed worker write no
longer than that, and those of the next worker not earlier.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.herder.assignments import Assignments
from mirror_connect.app.herder.interfaces import GroupAssignment, GroupWork, Silence, sole_assignment
from mirror_connect.app.standalone.file_log import OffsetFileLog
from mirror_connect.app.standalone.memory_log import MemoryLog
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.app.worker_connectors.offset_stores import OpenStore, Reported
from mirror_connect.app.worker_connectors.target_choice import Target
from mirror_connect.connectors.clock import boot_clock
from mirror_connect.connectors.task_protocol import TaskId

# Tasks report twice a second.
LEASE_S: Final = 5.0


class SoleMembership:
    """The place of a worker that is alone: it leads from the beginning (interfaces.Membership).

    `after_a_kill`: tasks of a killed worker may still have its lease, so this one's have theirs after it.
    """

    def __init__(self, url: str, *, after_a_kill: bool, clock: Callable[[], float] = boot_clock) -> None:
        self._url = url
        self._clock = clock
        self._since = clock() + (LEASE_S if after_a_kill else 0.0)
        self._work: GroupWork | None = None

    @property
    def assignment(self) -> GroupAssignment:
        """See interfaces.Membership. All that is wanted, as soon as it is."""
        return sole_assignment(self.generation, self._url, self._work)

    @property
    def is_leader(self) -> bool:
        """See interfaces.Membership."""
        return True

    @property
    def leader_url(self) -> str | None:
        """See interfaces.Membership."""
        return self._url

    @property
    def generation(self) -> int:
        """See interfaces.Membership. The same as in Connect."""
        return 0

    @property
    def silence(self) -> Silence | None:
        """See interfaces.Membership. There is no coordinator."""
        return None

    def share(self, work: GroupWork) -> None:
        """See interfaces.Membership."""
        self._work = work

    @property
    def steady(self) -> bool:
        """See interfaces.Membership."""
        return True

    def rebalances(self) -> None:
        """See interfaces.Membership. There is no group."""

    def rejoin(self) -> None:
        """See interfaces.Membership. There is nobody to share with."""

    def runs_for(self) -> float:
        """See interfaces.Membership."""
        return self.leads_for()

    def leads_for(self) -> float:
        """See interfaces.Membership."""
        return LEASE_S if self._clock() >= self._since else 0.0


class FileOffsets:
    """The one store of all connectors, whatever their target (offset_stores.Stores)."""

    def __init__(self, store: OffsetStore, file: OffsetFileLog) -> None:
        self._store = store
        self._file = file

    async def of(self, target: Target) -> OpenStore:
        """See Stores. As in Connect, also of connectors that write to another cluster than the worker's."""
        del target
        return OpenStore(self._store, topic="", partitions=0)

    def reported(self, entries: Sequence[Reported]) -> None:
        """See Stores."""
        self._file.note(entries)

    async def stop(self) -> None:
        """See Stores. The worker stops its own store."""


class FileBacking:
    """See the module, and backing.Backing."""

    def __init__(self, path: str, interval_ms: int, url: str, *, after_a_kill: bool) -> None:
        self.membership = SoleMembership(url, after_a_kill=after_a_kill)
        self.configs = MemoryLog("(configs in memory)")
        self.statuses = MemoryLog("(statuses in memory)")
        self._file = OffsetFileLog(path, interval_ms)
        self.offsets = OffsetStore(self._file)
        self.stores = FileOffsets(self.offsets, self._file)

    @property
    def exactly_once(self) -> Support:
        """See Backing. As in Connect, a standalone worker copies at least once."""
        return Support.NONE

    def transactional_id(self, task: TaskId) -> str:
        """See Backing. As in Connect, tasks of a standalone worker have none: it would need a right of its own."""
        del task
        return ""

    def listen(self, changed: Callable[[], None]) -> None:
        """See Backing. Nothing changes."""

    async def refuse_shared_topics(self, statuses: StatusStore) -> None:
        """See Backing. There are no topics."""

    async def watch_topics(self, statuses: StatusStore) -> None:
        """See Backing."""

    async def stay_in_sync(self, configs: ConfigStore, assignments: Assignments) -> None:
        """See Backing. There is nobody else."""

    async def join(self) -> None:
        """See Backing. The lock on the file was taken before."""

    async def leave(self, farewell_s: float, *, silently: bool = False) -> None:
        """See Backing. No task runs any more, so this is the last state."""
        await self._file.flush()

    async def close(self, patience_s: float) -> None:
        """See Backing. There are no connections."""
