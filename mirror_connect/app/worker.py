"""One worker: its stores, its herder and the tasks that it runs.

Its state and its place among other workers are its backing (backing.py): a group and topics (group_backing.py), or memory
and a file (standalone/). It takes its place and, at the same time, reads its stores. The process around it (process.py) has
Spark and the HTTP servers; a process may have several workers, one for each flow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from typing import Any, Final, TypeVar

from mirror_connect.app.backing import Backing
from mirror_connect.app.config.common_config import CommonConfig
from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.exposition.measured import MeasuredWorker
from mirror_connect.app.herder.active_topics import TopicTracking
from mirror_connect.app.herder.client_properties import OverridePolicy
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.herder.lifecycle import TargetState
from mirror_connect.app.herder.log_levels import LogLevels
from mirror_connect.app.herder.validation import ConfigRules
from mirror_connect.app.herder.worker_client import WorkersLink
from mirror_connect.app.lookups.lookup_file import file_problem
from mirror_connect.app.measured_worker import measured_worker
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.planning.planner import Planner
from mirror_connect.app.planning.preview import Previewer
from mirror_connect.app.steps import LEAST_PATIENCE_S, left, within
from mirror_connect.app.storage.config_records import set_values
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.statement_reader import StatementReader
from mirror_connect.app.supervisor.supervisor import Supervisor
from mirror_connect.app.worker_connectors.carried_specs import carried
from mirror_connect.app.worker_connectors.factory import WorkerConnectorFactory
from mirror_connect.app.worker_connectors.other_copies import OtherCopies
from mirror_connect.app.worker_connectors.target_choice import TargetChooser
from mirror_connect.app.worker_connectors.task_fencing import TaskFencing
from mirror_connect.app.worker_connectors.task_specs import TaskSpecs
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.rights import WORKER_USER
from mirror_connect.connectors.spark_masters import is_local
from mirror_connect.connectors.task_protocol import CONNECT, DEDICATED
from mirror_connect.connectors.wording import counted
from mirror_connect.kafka_io.admin.admin import ClusterAdmin

log = logging.getLogger(__name__)
T = TypeVar("T")

UNREACHABLE_GIVE_UP_S: Final = 60.0
RETRY_S: Final = 1.0
TASKS_PATIENCE_S: Final = 3.0
STATUS_PATIENCE_S: Final = 1.0
# For all last steps together that need the worker's own cluster: an unreachable cluster must not delay each of them.
CLUSTER_PATIENCE_S: Final = 1.5


class Worker:
    """See the module. `worker_id` names it in statuses.

    `spark` runs its tasks. `flow`: the name in log lines, in a process with several workers. `standalone`: see Herder.
    `metrics`: of this worker in its process (ProcessMetrics), where they stay if it starts again. `link`: see Herder.
    The end has three steps, which the process calls for all its workers: `end_tasks`, `leave`, `close`.
    """

    def __init__(
        self,
        config: CommonConfig,
        spark: SparkHost,
        backing: Backing,
        *,
        worker_id: str,
        flow: str = "",
        standalone: bool = False,
        metrics: WorkerMetrics | None = None,
        link: WorkersLink | None = None,
    ) -> None:
        metrics = metrics or WorkerMetrics()
        self._config = config
        self._flow = flow
        self._standalone = standalone
        self._worker_id = worker_id
        self._spark = spark
        self._until = 0.0
        self._watching: list[asyncio.Task[None]] = []
        self._backing = backing
        self._membership = backing.membership
        link = link or WorkersLink()
        self.configs: Final = ConfigStore(backing.configs, inter_worker=link.inter_worker)
        self._statuses = StatusStore(backing.statuses)
        targets = TargetChooser(config)
        program = DEDICATED if flow else CONNECT
        specs = TaskSpecs(
            config,
            config.resolver.resolve,
            targets,
            backing.stores,
            backing.transactional_id,
            program=program,
            fence=self._fence if backing.exactly_once is Support.ENABLED else None,
        )
        statements = StatementReader(spark.questions, spark.preview_lookups, local=is_local(spark.master))
        others = OtherCopies(self.configs.snapshot, config.client("admin").get("bootstrap.servers", ""))
        fencing = TaskFencing(targets, backing.transactional_id, self._membership.leads_for)
        self._supervisor = Supervisor(
            spark,
            specs,
            self._membership.runs_for,
            flow=flow,
            metrics=metrics,
            carried=None if is_local(spark.master) else carried,
        )
        self.herder: Final = Herder(
            configs=self.configs,
            statuses=self._statuses,
            membership=self._membership,
            supervisor=self._supervisor,
            new_connector=WorkerConnectorFactory(targets, specs.offsets_of, self.configs.snapshot, others),
            resolver=config.resolver,
            worker_id=worker_id,
            offsets_of=specs.offsets_of,
            topic_tracking=TopicTracking(config.topic_tracking_enable, config.topic_tracking_allow_reset),
            rules=ConfigRules(
                OverridePolicy.of(config.override_policy, config.override_allowlist),
                config.offset_topic,
                targets.errors,
                config.converters,
                derived=bool(flow),
                exactly_once=backing.exactly_once,
                statement_error=statements.error,
                lookup_problem=self._lookup_problem,
            ),
            standalone=standalone,
            log_levels=LogLevels(tell_spark=spark.set_log_levels),
            metrics=metrics,
            planner=Planner(targets, specs.offsets_of, config.offset_topic, others),
            previewer=Previewer(statements.transformed),
            fence_tasks=None if backing.exactly_once is Support.NONE else fencing.fence,
            transactional_id=backing.transactional_id,
            link=link,
        )
        backing.listen(self.herder.membership_changed)

    def _lookup_problem(self, path: str) -> str | None:
        # What is configured at the start is not refused for a file that is there a moment later: its tasks wait.
        may_come = bool(self._flow) or self.herder.creating
        return file_problem(path, self._spark.lookup_paths, may_come=may_come)

    async def _fence(self, connector: str) -> None:
        assert self.herder.fencing is not None
        await self.herder.fencing.fence(connector)

    async def secrets(self) -> frozenset[str]:
        """The secrets that are in use."""
        return await self.herder.secrets() | self._supervisor.secrets()

    def measured(self) -> MeasuredWorker | None:
        """See process.Part."""
        if not self.herder.leadership.ready:
            return None
        return measured_worker(
            self.herder.links,
            self.configs.snapshot().connectors,
            self._membership,
            flow=self._flow,
            member=None if self._standalone else self._config.client_id or f"connect-{self._worker_id}",
        )

    # Start.

    async def start(
        self, answers: Callable[[], Awaitable[None]], tell: Callable[[ClusterUnreachable], None] | None = None
    ) -> None:
        """Returns when the worker is in its group and its herder answers; `answers` is called when the latter does.

        `tell` logs that the cluster does not answer yet; None: a line that says for how long it is tried.

        StartupError, ClusterUnreachable after a minute, NotAuthorized, GroupRefusedError.
        """
        cluster_id = await self._patiently(self._cluster_id, tell or _tell_of_patience)
        log.debug("Start: the cluster answers")
        # Reads need not wait for the group: the broker delays its first member by group.initial.rebalance.delay.ms (3 s by
        # default), and after a kill of this worker by 10 s. Connect, too, creates its topics before it joins.
        async with asyncio.TaskGroup() as together:
            together.create_task(self._join())
            together.create_task(self._begin_to_answer(cluster_id, answers))
        self.herder.membership_changed()

    async def _join(self) -> None:
        await self._backing.join()
        log.debug("Start: the group is joined")

    async def _begin_to_answer(self, cluster_id: str, answers: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as together:
            for store in (self.configs, self._statuses, self._backing.offsets):
                together.create_task(store.start())
        log.debug("Start: the internal topics are read")
        await self._backing.refuse_shared_topics(self._statuses)
        self._watch(self._backing.watch_topics(self._statuses), "topic-watch")
        self.herder.start(cluster_id)
        self._watch(self._backing.stay_in_sync(self.configs, self.herder.assignments), "config-sync")
        self._supervisor.start()
        await answers()
        self._spark.expect(self._last_configs())

    def _last_configs(self) -> Iterator[Mapping[str, str]]:
        """Of the tasks that this worker ran last. Most likely it gets them again, but after a kill only 10 s later."""
        configs = self.configs.snapshot()
        for connector in configs.connectors:
            if configs.target_state(connector) == TargetState.STARTED:
                last = self._statuses.tasks(connector)
                for task, config in enumerate(configs.tasks(connector)):
                    if task in last and last[task].worker_id == self._worker_id:
                        yield set_values(config)

    def _watch(self, endless: Coroutine[Any, Any, None], name: str) -> None:
        task = asyncio.create_task(endless, name=name)
        task.add_done_callback(_tell_of_bug)
        self._watching.append(task)

    def _admin(self) -> ClusterAdmin:
        return ClusterAdmin(self._config.own_client(), "the worker's cluster", timeout=10.0, user=WORKER_USER)

    async def _cluster_id(self) -> str:
        return await asyncio.to_thread(lambda: self._admin().cluster_id())

    async def _patiently(self, step: Callable[[], Awaitable[T]], tell: Callable[[ClusterUnreachable], None]) -> T:
        """Retries a first step for a minute while brokers are down: they may be starting too."""
        give_up = asyncio.get_running_loop().time() + UNREACHABLE_GIVE_UP_S
        logged = False
        while True:
            try:
                return await step()
            except ClusterUnreachable as error:
                if asyncio.get_running_loop().time() > give_up:
                    raise
                if not logged:
                    tell(error)
                logged = True
            await asyncio.sleep(RETRY_S)

    # End.

    async def end_tasks(self) -> None:
        """Stops connectors and tasks. What is left of the tasks after that ends with Spark."""
        for each in self._watching:
            each.cancel()
        await within(self.herder.stop_connectors(), "stopping the connectors")
        await within(self._supervisor.stop(TASKS_PATIENCE_S), "stopping the tasks", TASKS_PATIENCE_S + 0.5)

    @property
    def ended(self) -> bool:
        """See process.Part."""
        return not self._supervisor.claimed_tasks()

    async def leave(self) -> None:
        """Writes the last statuses, then leaves the group: the next leader finds all that was written."""
        self._until = asyncio.get_running_loop().time() + CLUSTER_PATIENCE_S
        await within(self.herder.stop(STATUS_PATIENCE_S), "writing the last statuses", keeping_s=LEAST_PATIENCE_S)
        # On a cluster, nobody knows whether a task that did not return has ended. Its lease ends with this worker's session.
        left_behind = self._supervisor.claimed_tasks() if self._spark.is_remote else ()
        if left_behind:
            log.warning(
                "%s did not return in time, and may still write: the group waits for the session of this worker",
                counted(len(left_behind), "task"),
            )
        patience = left(self._until)
        leaving = self._backing.leave(patience - LEAST_PATIENCE_S, silently=bool(left_behind))
        await within(leaving, "leaving the group", patience)

    async def close(self) -> None:
        """Closes the topics; `leave` comes before."""
        self._spark.remove(self._supervisor)
        stores = (self.configs, self._statuses, self._backing.offsets, self._backing.stores)
        closing = (*(store.stop() for store in stores), self._backing.close(left(self._until)))
        await within(asyncio.gather(*closing), "closing the topics")


def _tell_of_bug(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s has ended by a bug", task.get_name(), exc_info=error)


def _tell_of_patience(error: ClusterUnreachable) -> None:
    log.warning("%s. The worker tries again for %.0f s and then gives up", error, UNREACHABLE_GIVE_UP_S)
