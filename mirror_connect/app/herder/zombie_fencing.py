"""Fences former tasks of connectors that copy exactly once, before any task of theirs reads where to continue.

As in Kafka Connect (KIP-618), the leader does it, and notes in the config topic how many tasks a connector had. Two things
make it due: new task configs, which may give a partition to another task, and workers that were lost. A task of theirs may
have left a transaction open. It would delay everybody who reads committed records behind it, other connectors too.

What still runs is never fenced: its worker holds it in the group, and hands partitions over by itself. So, unlike Connect's,
running tasks go on when task configs change.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from mirror_connect.app.config.config_reads import ConfigReads
from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.errors import BadRequest, ConnectError, ConnectorNotFound, Forbidden, NotLeader
from mirror_connect.app.herder.interfaces import GroupAssignment, Membership, Resolver, WorkerClient
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.herder.lifecycle import TargetState
from mirror_connect.app.herder.worker_client import message_of
from mirror_connect.app.storage.config_records import set_values
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.connectors.errors import ClusterUnreachable, ConfigError, NotAuthorized
from mirror_connect.connectors.log_format import ConnectorName
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.connectors.wording import counted
from mirror_connect.kafka_io.admin.admin_errors import AdminError

log = logging.getLogger(__name__)

RETRY_S: Final = 1.0
# What the leader has for one round, and for reading up to the generation of the worker that asks.
ROUND_S: Final = 60.0
GENERATION_S: Final = 5.0
_POLL_S: Final = 0.02
_ANSWER_LIMIT: Final = 64 << 10

FenceTasks = Callable[[str, Mapping[str, str], Collection[int]], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Round:
    """What is due: the tasks to fence, and the count to note; None if the noted one is in force."""

    tasks: tuple[int, ...] = ()
    count: int | None = None

    def __bool__(self) -> bool:
        return bool(self.tasks) or self.count is not None


def due_round(
    snapshot: ConfigSnapshot, connector: str, held: Collection[int], lost: Collection[int], *, ended: bool = False
) -> Round:
    """`held`: tasks that members of the group run, or are about to; `lost`: those that lost workers ran.

    `ended`: nothing of the connector runs any more, whatever `held` says.
    """
    pending = connector in snapshot.pending_fencing
    noted = snapshot.fencing_counts.get(connector)
    running = () if ended else held
    former = set(range(noted or 0)) - set(running) if pending or ended else set()
    count = max([snapshot.task_count(connector), *(number + 1 for number in running)]) if pending else None
    return Round(tuple(sorted(former | set(lost))), count)


class ZombieFencing:
    """See the module. `fence_tasks` does it at the brokers. `client` asks the leader; None: this worker asks nobody.

    `enabled`: whether tasks of this worker copy exactly once; `leads_rounds`: whether it fences for others, too.
    """

    def __init__(
        self,
        configs: ConfigStore,
        membership: Membership,
        leadership: Leadership,
        resolver: Resolver,
        fence_tasks: FenceTasks,
        *,
        client: WorkerClient | None,
        enabled: bool,
        leads_rounds: bool,
    ) -> None:
        self._configs = configs
        self._membership = membership
        self._leadership = leadership
        self._reads = ConfigReads(resolver.resolve, "fencing")
        self._fence_tasks = fence_tasks
        self._client = client
        self._enabled = enabled
        self._leads_rounds = leads_rounds
        # Tasks of lost workers, and those of which nobody knows who ran them, until this leader has fenced them.
        self._lost: set[TaskId] = set()
        # The last generation that this worker has led.
        self._led: int | None = None
        self._told: dict[str, str] = {}
        self._turns: dict[str, asyncio.Lock] = {}
        self._background: set[asyncio.Task[None]] = set()

    def group_changed(self, assignment: GroupAssignment) -> None:
        """The group has another assignment. Call it before anything of it is run."""
        if assignment.generation < 0:
            return
        self._tell(assignment)
        if not assignment.leader:
            # The leader does it. What it has not done when it is lost, each task does for itself at its start.
            self._lost.clear()
            return
        if assignment.generation == self._led:
            # Its place is certain again: what was to be fenced was noted before, and may run by now.
            return
        self._led, found = assignment.generation, assignment.fence
        self._lost |= found
        if self._enabled and found:
            for name in sorted({task.connector for task in found}):
                self._in_background(name)

    async def fence(self, connector: str) -> None:
        """For a task of this worker: returns when former tasks of the connector are fenced.

        ClusterUnreachable: ask again. NotAuthorized, ConfigError: that would not help.
        """
        try:
            if self._membership.is_leader:
                await self.lead_round(connector, self._membership.generation)
            else:
                await self._ask_leader(connector)
        except Forbidden as denied:
            raise NotAuthorized(str(denied)) from denied
        except ConnectError as error:
            raise ClusterUnreachable(f"Former tasks of connector {connector} are not fenced yet: {error}") from error

    async def lead_round(self, connector: str, generation: int, *, ended: bool = False) -> None:
        """As the leader. `generation`: of the group, as the worker that asks knows it. `ended`: see due_round.

        NotLeader, NotReady, ConnectorNotFound, BadRequest; ConnectError: a cluster is away. Forbidden: a right is missing
        or a setting is wrong, so to ask again would not help.
        """
        if not self._leads_rounds:
            raise BadRequest(
                "exactly.once.source.support is disabled on the leader of this group: set it to preparing on every worker, "
                "and only then to enabled on any"
            )
        await self._until(generation)
        async with self._turns.setdefault(connector, asyncio.Lock()):
            try:
                async with asyncio.timeout(ROUND_S):
                    while not await self._round(connector, ended=ended):
                        pass
            except TimeoutError:
                raise ConnectError(f"Former tasks of connector {connector} were not fenced in {ROUND_S:g} s") from None
            except (NotAuthorized, ConfigError) as error:
                raise Forbidden(str(error)) from error
            except (ClusterUnreachable, AdminError) as error:
                raise ConnectError(str(error)) from error

    async def stop(self) -> None:
        """Ends what goes on in the background."""
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)

    async def _round(self, connector: str, *, ended: bool) -> bool:
        """Whether nothing more is to do; else new task configs have come meanwhile."""
        async with self._leadership.writing() as snapshot:
            if not snapshot.contains(connector):
                raise ConnectorNotFound(connector)
            due = self._due(snapshot, connector, ended=ended)
        if due.tasks:
            # Without the lock: the target may be slow.
            resolved = await self._reads.resolve(set_values(snapshot.connectors[connector]))
            await self._fence_tasks(connector, resolved, due.tasks)
            log.info("Connector %s: %s fenced", ConnectorName(connector), counted(len(due.tasks), "former task"))
            self._lost -= {TaskId(connector, number) for number in due.tasks}
        if due.count is None:
            return True
        async with self._leadership.writing() as now:
            if self._due(now, connector, ended=ended).count != due.count or _generation(now, connector) != _generation(
                snapshot, connector
            ):
                return False
            await self._configs.put_task_count(connector, due.count)
        return True

    def _due(self, snapshot: ConfigSnapshot, connector: str, *, ended: bool) -> Round:
        lost = [task.task for task in self._lost if task.connector == connector]
        # Somebody may have resumed it meanwhile. Whatever begins after this waits for the end of the round.
        ended = ended and snapshot.target_state(connector) == TargetState.STOPPED and not snapshot.task_count(connector)
        return due_round(snapshot, connector, self._held(snapshot, connector), lost, ended=ended)

    def _held(self, snapshot: ConfigSnapshot, connector: str) -> set[int]:
        assignment = self._membership.assignment
        if not assignment.workers:
            # Nobody else is there.
            return set(range(snapshot.task_count(connector)))
        tasks = {task for worker in assignment.workers for task in worker.tasks}
        return {task.task for task in tasks if task.connector == connector}

    async def _until(self, generation: int) -> None:
        """The other worker may have heard of an assignment a moment earlier: then this one does not know who was lost."""
        try:
            async with asyncio.timeout(GENERATION_S):
                while self._membership.generation < generation:
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise NotLeader from None

    async def _ask_leader(self, connector: str) -> None:
        if self._client is None:
            raise ConfigError("dedicated.mode.enable.internal.rest", None, NO_LEADER)
        url = self._membership.leader_url
        if url is None:
            raise NotLeader
        body = json.dumps({"generation": self._membership.generation}).encode()
        path = f"/connectors/{quote(connector, safe='')}/fence"
        status, answer = await self._client.signed(
            "PUT", url, path, body, patience_s=ROUND_S + GENERATION_S, limit=_ANSWER_LIMIT
        )
        if status == 204:
            return
        message = message_of(answer) or f"the leader at {url} answered {status}"
        raise Forbidden(message) if status == Forbidden.status else ConnectError(message)

    def _tell(self, assignment: GroupAssignment) -> None:
        """Names the workers whose tasks copy at least once, although others copy exactly once."""
        found = {each.url or each.worker_id: each.exactly_once for each in assignment.workers}
        if Support.ENABLED not in found.values():
            found = {}
        others = {name: support for name, support in found.items() if support not in ("", Support.ENABLED)}
        for name, support in others.items():
            if self._told.get(name) != support:
                log.warning(
                    "exactly.once.source.support is %s on the worker %s and enabled on another one: tasks that run there "
                    "copy at least once, and may repeat records. Set it to enabled on every worker",
                    support,
                    name,
                )
        self._told = others

    def _in_background(self, connector: str) -> None:
        task = asyncio.create_task(self._until_fenced(connector), name=f"fencing {connector}")
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def _until_fenced(self, connector: str) -> None:
        told = ""
        while any(task.connector == connector for task in self._lost) and self._membership.is_leader:
            try:
                await self.lead_round(connector, self._membership.generation)
            except ConnectorNotFound:
                self._lost = {task for task in self._lost if task.connector != connector}
            except ConnectError as error:
                if str(error) != told:
                    log.warning(
                        "Connector %s: its former tasks are not fenced yet: %s", ConnectorName(connector), error
                    )
                told = str(error)
                await asyncio.sleep(RETRY_S)


NO_LEADER: Final = (
    "This worker is not able to communicate with the leader of the cluster, which is required for exactly-once source "
    "tasks. If running MirrorMaker 2 in dedicated mode, consider enabling inter-worker communication via the "
    "'dedicated.mode.enable.internal.rest' property."
)


def _generation(snapshot: ConfigSnapshot, connector: str) -> tuple[int | None, int]:
    return snapshot.generations.get(connector), snapshot.task_count(connector)
