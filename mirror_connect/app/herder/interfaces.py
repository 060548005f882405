"""What the herder needs from the rest of the worker: app/worker.py passes the real parts, tests pass fakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from mirror_connect.app.config.config_providers import Explained
from mirror_connect.app.metrics.connector_figures import TaskPlace
from mirror_connect.app.metrics.rebalances import RebalanceFigures
from mirror_connect.app.storage.partition_owners import PartitionOwners
from mirror_connect.app.supervisor.interfaces import TaskEvents, WantedTask
from mirror_connect.app.supervisor.other_workers import OtherWorker
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.app.worker_connectors.connector_context import ConnectorContext, WorkerConnector
from mirror_connect.connectors.clock import utc
from mirror_connect.connectors.task_protocol import TaskId

NO_GENERATION: Final = -1


@dataclass(frozen=True, slots=True)
class Silence:
    """The worker's cluster does not answer. `since`: the last answer, in seconds since 1970; `why`: one line."""

    since: float
    why: str

    def __str__(self) -> str:
        return f"This worker has had no contact with its own cluster since {utc(self.since)}: {self.why}"


@dataclass(frozen=True, slots=True)
class SteppedOut(Silence):
    """This worker has left its group and comes back later. `since`: when."""

    def __str__(self) -> str:
        return f"This worker has been out of its group since {utc(self.since)}: {self.why}"


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of the group, with what the leader has assigned to it and what it has not surely ended yet.

    `confirmed`: by connector, up to which offset of the config topic the member had confirmed it when it last joined.
    `exactly_once`: the member's `exactly.once.source.support`; empty if it did not say.
    """

    url: str
    worker_id: str
    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()
    confirmed: Mapping[str, int] = field(default_factory=dict)
    exactly_once: str = ""


@dataclass(frozen=True, slots=True)
class LostMember:
    """A former member, and what it may have run. `lost_at`: not before it was lost, by this worker's boot_clock."""

    worker_id: str
    tasks: frozenset[TaskId]
    confirmed: Mapping[str, int]
    lost_at: float
    connectors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class GroupAssignment:
    """This worker's place in the group and what it runs. Outside the group: generation -1, no leader, nothing to run.

    `workers`: all members, this one too. `lost`: members that were lost some minutes ago or later. `config_offset`: the
    record of the config topic by which the leader has decided; a worker reads so far before it acts. `delayed_until`: what a
    lost worker ran waits for it, until then at least (scheduled.rebalance.max.delay.ms); by this worker's boot_clock.
    `fence`: for the leader: tasks that nobody has begun, and whose former processes may live or have left a transaction.
    """

    generation: int = NO_GENERATION
    leader: bool = False
    leader_url: str | None = None
    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()
    workers: tuple[GroupMember, ...] = ()
    lost: tuple[LostMember, ...] = ()
    config_offset: int = -1
    delayed_until: float | None = None
    fence: frozenset[TaskId] = frozenset()


OUTSIDE: Final = GroupAssignment()


@dataclass(frozen=True, slots=True)
class WantedWork:
    """What the config topic asks for, read up to `offset`: connectors to assign, with the number of their tasks."""

    connectors: Mapping[str, int]
    offset: int


@dataclass(frozen=True, slots=True)
class Claims:
    """What a worker runs, or has not surely ended yet.

    `confirmed`: by connector, the offset of the config topic up to which this worker's tasks of the connector have released
    every partition that their configs do not give them. `readiness`: whether its Spark can take more tasks.
    `begins_by`: by connector of which tasks are assigned to it, the commit of its task configs by which one would begin now.
    """

    connectors: frozenset[str] = frozenset()
    tasks: frozenset[TaskId] = frozenset()
    confirmed: Mapping[str, int] = field(default_factory=dict)
    readiness: Readiness = Readiness.READY
    begins_by: Mapping[str, int] = field(default_factory=dict)


class GroupWork(Protocol):
    """What the membership asks of the herder. Both are called on the loop, often, and answer at once."""

    def wanted(self) -> WantedWork:
        """What should run, as this worker has read the config topic. Only the leader's counts."""

    def claims(self) -> Claims:
        """What this worker runs. Nobody else gets any of it. All of it must be part of an assignment that it had."""


def sole_assignment(generation: int, url: str | None, work: GroupWork | None) -> GroupAssignment:
    """The assignment of a leader without other members: all of `work`."""
    if work is None:
        return GroupAssignment(generation, True, url)
    wanted = work.wanted()
    tasks = frozenset(TaskId(name, number) for name, count in wanted.connectors.items() for number in range(count))
    return GroupAssignment(generation, True, url, frozenset(wanted.connectors), tasks, config_offset=wanted.offset)


class Membership(Protocol):
    """The worker's place in its group. Its owner calls `Herder.membership_changed` whenever that changes."""

    @property
    def assignment(self) -> GroupAssignment:
        """The place and what to run; OUTSIDE while that is not certain."""

    @property
    def is_leader(self) -> bool:
        """Whether this worker leads, for certain, now: it decides what runs where, and writes the config topic."""

    @property
    def leader_url(self) -> str | None:
        """The leader, this worker or another; None while there is no leader or it is unknown."""

    @property
    def generation(self) -> int:
        """The group's generation, for statuses."""

    @property
    def silence(self) -> Silence | None:
        """Since when and why the group's cluster does not answer; None while the group assignment is certain."""

    def share(self, work: GroupWork) -> None:
        """From now on the members share `work`. Before it, and without it, the leader runs everything."""

    def rebalances(self) -> RebalanceFigures | None:
        """How often the group has rebalanced, for metrics; None without a group."""

    def rejoin(self) -> None:
        """Call this when `work` has changed: what the leader wants, what a member claims no more or has confirmed, or
        whether its Spark can take tasks.

        The group then assigns anew. Several calls in a short time are one.
        """

    @property
    def steady(self) -> bool:
        """Whether this worker has the group's newest assignment, as far as it knows, and has not asked for another one.

        If not, others may have been assigned something that it does not know of.
        """

    def runs_for(self) -> float:
        """Seconds for which this worker surely runs its assignment, so that its tasks may write; 0 if it does not."""

    def leads_for(self) -> float:
        """Seconds for which this worker surely leads, so that it may write the config topic; 0 if it does not."""


class WorkerClient(Protocol):
    """Requests to another worker of the group, signed with the session key."""

    async def signed(
        self, method: str, url: str, path: str, body: bytes, *, patience_s: float, limit: int
    ) -> tuple[int, bytes]:
        """Status and body of the answer, whatever the status. `url`: the advertised one; `limit`: of the answer's bytes.

        WorkerUnreachable: it did not answer, in one line. NoSessionKey: this worker has read none yet.
        """


class LeaderClient(Protocol):
    """Requests to the group's leader, for a worker that does not lead. They are signed with the session key."""

    async def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str]]) -> None:
        """`POST /connectors/X/tasks`. Returns when the leader has written them; to repeat it does no harm.

        NotLeader: nobody leads now, or the leader has changed. WorkerUnreachable: it is unknown whether they are written.
        BadRequest: the connector is stopped. ConnectorNotFound. Forbidden: another worker runs the connector.
        """


class Resolver(Protocol):
    """Config providers."""

    def resolve(self, config: Mapping[str, str]) -> Mapping[str, str]:
        """The config with its references replaced. ConfigError names a reference that can't be read. May block."""

    def explained(self, config: Mapping[str, str]) -> Explained:
        """The same for a config that is only validated: the log does not hide its secrets."""


class ConnectorFactory(Protocol):
    """Makes a connector that runs in the worker."""

    def __call__(
        self, raw: Mapping[str, str], resolved: Mapping[str, str], context: ConnectorContext
    ) -> WorkerConnector:
        """A connector, not started yet. Task configs come from `raw`, so that secrets stay references in the topic."""


class Supervisor(Protocol):
    """The running Spark tasks."""

    def listen(self, events: TaskEvents) -> None:
        """Sets the receiver of task events."""

    def want(
        self,
        tasks: Mapping[TaskId, WantedTask],
        owners: Mapping[str, PartitionOwners] | None = None,
        read: float = float("inf"),
    ) -> None:
        """Makes these the tasks that run. `owners` and `read`, its offset: of the same snapshot of the config topic.

        Without them they are as before.
        """

    def share(self, changed: Callable[[], None], steady: Callable[[], bool]) -> None:
        """Other workers may run tasks of the same connectors. Call it before any task is wanted.

        `changed` is called when the group should hear `claimed_tasks`, `confirmed` and `readiness` again. `steady`: see
        Membership.steady.
        """

    def group_changed(self, others: Iterable[OtherWorker], believed: Mapping[str, int], offset: int) -> None:
        """The group has another assignment: what group_news makes of it, and its config_offset.

        Call it in the moment in which the membership tells of it: until then this worker counts as not steady.
        """

    def claimed_tasks(self) -> frozenset[TaskId]:
        """Tasks that have not surely ended here. No other worker may start them."""

    def confirmed(self) -> Mapping[str, int]:
        """See Claims.confirmed."""

    @property
    def readiness(self) -> Readiness:
        """See Claims.readiness."""

    @property
    def absence(self) -> str | None:
        """Why no task can begin on its Spark, as a line for people; None if it is there."""

    def places(self) -> Sequence[TaskPlace]:
        """On which executors of a Spark cluster tasks run; none with a local master."""

    def lookup_ages(self, connector: str) -> Mapping[str, float]:
        """How old the rows of each lookup are that tasks of a connector join here, in seconds, by its name."""

    def holds_elsewhere(self, connector: str) -> str:
        """Which other workers may still write anything of a connector that no task is to run any more; empty: none."""

    def retire(self) -> None:
        """Ends all tasks, because another worker may lead by now. None of them writes any more."""

    def restart(self, task: TaskId) -> None:
        """Starts a task again."""
