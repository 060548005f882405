"""What a worker stands on: where its state is, and its place among other workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.herder.assignments import Assignments
from mirror_connect.app.herder.interfaces import Membership
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.app.storage.topic_log import TopicLog
from mirror_connect.app.worker_connectors.offset_stores import Stores
from mirror_connect.connectors.task_protocol import TaskId


class Backing(Protocol):
    """See the module. Nothing is opened before `join` and the start of the logs."""

    @property
    def membership(self) -> Membership:
        """The worker's place among others."""

    @property
    def configs(self) -> TopicLog:
        """The log of connectors' configs."""

    @property
    def statuses(self) -> TopicLog:
        """The log of states."""

    @property
    def offsets(self) -> OffsetStore:
        """The worker's own source offsets."""

    @property
    def stores(self) -> Stores:
        """Where connectors' source offsets are."""

    @property
    def exactly_once(self) -> Support:
        """What the worker does about exactly-once copying."""

    def transactional_id(self, task: TaskId) -> str:
        """What fences former processes of a task; empty if the lease alone does."""

    def listen(self, changed: Callable[[], None]) -> None:
        """`changed` is called whenever `membership` changes; before `join`."""

    async def refuse_shared_topics(self, statuses: StatusStore) -> None:
        """GroupRefusedError if workers outside of this worker's group use its topics; `statuses` have been read."""

    async def watch_topics(self, statuses: StatusStore) -> None:
        """Tells, without end, if such workers come later."""

    async def stay_in_sync(self, configs: ConfigStore, assignments: Assignments) -> None:
        """Leaves the place, without end, for as long as this worker can't read the configs by which others act."""

    async def join(self) -> None:
        """Returns when the worker has its place. Raises why it gets none."""

    async def leave(self, farewell_s: float, *, silently: bool = False) -> None:
        """Gives the place up, when nothing is written any more. `farewell_s`: for what others should hear before that.

        `silently`: tasks elsewhere may still write, for as long as they have a lease. Others are not told before.
        """

    async def close(self, patience_s: float) -> None:
        """Closes connections, while the logs are stopped."""
