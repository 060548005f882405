"""All operations of REST; knows neither HTTP nor Spark. One part for each kind of request, put together here.

Every worker answers reads from its copy of the topics. Only the leader writes configs: one change after the other, in
Connect's order of records. The group decides who runs what (assignments.py), and the records in the topics what is run
(reconciler.py).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.herder.active_topics import ActiveTopics, TopicTracking
from mirror_connect.app.herder.assignments import Assignments
from mirror_connect.app.herder.config_notices import ConfigNotices
from mirror_connect.app.herder.config_writes import ConfigWrites
from mirror_connect.app.herder.connector_reads import ConnectorReads
from mirror_connect.app.herder.interfaces import (
    ConnectorFactory,
    LeaderClient,
    Membership,
    Resolver,
    Supervisor,
    WorkerClient,
)
from mirror_connect.app.herder.leader import Leader
from mirror_connect.app.herder.leadership import Leadership
from mirror_connect.app.herder.link_reads import LinkReads
from mirror_connect.app.herder.link_watch import LinkWatch
from mirror_connect.app.herder.log_levels import ClusterLogLevels, LogLevels
from mirror_connect.app.herder.plans import Planner, Plans
from mirror_connect.app.herder.previews import Previewer, Previews
from mirror_connect.app.herder.reconciler import Reconciler
from mirror_connect.app.herder.restarts import Restarts
from mirror_connect.app.herder.session_key_rotation import SessionKeyRotation
from mirror_connect.app.herder.source_offsets import SourceOffsets, StoreOf, Transactions
from mirror_connect.app.herder.starts import AwaitedStarts, NoStarts
from mirror_connect.app.herder.status_book import StatusBook
from mirror_connect.app.herder.task_config_writes import TaskConfigWrites
from mirror_connect.app.herder.validation import ConfigRules, Validation
from mirror_connect.app.herder.views import Health, ServerInfo
from mirror_connect.app.herder.worker_client import SignedClient, WorkersLink
from mirror_connect.app.herder.worker_requests import StandaloneRequests, WorkerRequests
from mirror_connect.app.herder.workers import Workers
from mirror_connect.app.herder.zombie_fencing import FenceTasks, ZombieFencing
from mirror_connect.app.metrics.worker_metrics import WorkerMetrics
from mirror_connect.app.storage.config_view import ConfigSnapshot
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.status import CONNECT_VERSION, StatusStore
from mirror_connect.app.supervisor.readiness import Readiness
from mirror_connect.app.version import COMMIT
from mirror_connect.connectors.secrets import secrets_of
from mirror_connect.connectors.task_protocol import TaskId

log = logging.getLogger(__name__)

HEALTH_WAIT_S: Final = 10.0
READY: Final = "Worker has completed startup and is ready to handle requests."
NO_SPARK: Final = "Its Spark is not ready yet, so no task can begin on it."


class Herder:
    """See the module. `worker_id` is host:port of the advertised REST listener; `offsets_of` opens offset topics.

    `standalone`: a few answers are those of Connect's standalone mode. `metrics`: what the supervisor's tasks tell.
    `worker_client`: reaches the other workers of the group; None: over `link`.
    `fence_tasks`, `transactional_id`: of tasks with transactions; None if there are none.
    `leader`: the way to another worker that leads; None: over `link`.
    `link`: how workers of the group ask each other.
    """

    def __init__(
        self,
        *,
        configs: ConfigStore,
        statuses: StatusStore,
        membership: Membership,
        supervisor: Supervisor,
        new_connector: ConnectorFactory,
        resolver: Resolver,
        worker_id: str,
        offsets_of: StoreOf,
        topic_tracking: TopicTracking | None = None,
        rules: ConfigRules | None = None,
        log_levels: LogLevels | None = None,
        standalone: bool = False,
        metrics: WorkerMetrics | None = None,
        planner: Planner | None = None,
        previewer: Previewer | None = None,
        worker_client: WorkerClient | None = None,
        fence_tasks: FenceTasks | None = None,
        transactional_id: Callable[[TaskId], str] = lambda _: "",
        leader: LeaderClient | None = None,
        link: WorkersLink | None = None,
    ) -> None:
        metrics, link = metrics or WorkerMetrics(), link or WorkersLink()
        self.worker_client: Final = SignedClient(link, configs, membership, worker_id)
        if worker_client is None and self.worker_client.available:
            worker_client = self.worker_client
        if leader is None and self.worker_client.available:
            leader = self.worker_client
        self._stored_configs = configs
        self._membership = membership
        rules, tracking = rules or ConfigRules(), topic_tracking or TopicTracking()
        notices = ConfigNotices(
            rules.offsets_topic, rules.converters, derived=rules.derived, exactly_once=rules.exactly_once
        )
        self._turn = asyncio.Lock()
        self._book = StatusBook(statuses, worker_id, lambda: membership.generation)
        self._leader = Leader(configs, statuses, self._book, membership)
        self.task_configs: Final = TaskConfigWrites(
            configs,
            self._turn,
            leads=lambda: membership.is_leader and self._leader.leading,
            leader=leader,
        )
        self._reconciler = Reconciler(
            configs=configs,
            book=self._book,
            supervisor=supervisor,
            new_connector=new_connector,
            resolver=resolver,
            notices=notices,
            task_configs=self.task_configs,
            freed=membership.rejoin,
            track_topics=tracking.enabled,
            metrics=metrics,
        )
        self.assignments: Final = Assignments(
            membership,
            configs,
            self._reconciler,
            self._leader,
            supervisor=supervisor,
            worker_id=worker_id,
            alone=standalone,
        )
        membership.share(self.assignments)
        supervisor.share(membership.rejoin, lambda: membership.steady)
        self.leadership: Final = Leadership(membership, configs, statuses, self._leader, self._turn, alone=standalone)
        self._cluster_id: str | None = None
        # Whether connectors of files are still to be created; only `health` shows it.
        self.creating = False

        self.validation: Final = Validation(resolver, rules, notices)
        self.plans: Final = Plans(configs, self.leadership, self.validation, planner)
        self.previews: Final = Previews(self.leadership, self.validation, previewer)
        self.connectors: Final = ConnectorReads(
            configs=configs,
            statuses=statuses,
            book=self._book,
            leadership=self.leadership,
            membership=membership,
            worker_id=worker_id,
        )
        starts = AwaitedStarts(self._reconciler, self.task_configs, configs) if standalone else NoStarts()
        self.configs: Final = ConfigWrites(configs, self.leadership, self.validation, self.connectors, starts)
        self.restarts: Final = Restarts(
            configs=configs,
            statuses=statuses,
            book=self._book,
            leadership=self.leadership,
            reconciler=self._reconciler,
            reads=self.connectors,
            membership=membership,
            worker_id=worker_id,
            standalone=standalone,
        )
        support = rules.exactly_once
        # None: nothing here has transactions, as in standalone mode.
        self.fencing: Final = (
            None
            if fence_tasks is None
            else ZombieFencing(
                configs,
                membership,
                self.leadership,
                resolver,
                fence_tasks,
                client=worker_client,
                enabled=support is Support.ENABLED,
                leads_rounds=support in (Support.ENABLED, Support.PREPARING),
            )
        )
        self.source_offsets: Final = SourceOffsets(
            configs,
            self.leadership,
            self._reconciler,
            resolver,
            offsets_of,
            elsewhere=supervisor.holds_elsewhere,
            transactions=Transactions(self.fencing, transactional_id)
            if self.fencing is not None and support is Support.ENABLED
            else None,
        )
        self.links: Final = LinkReads(
            configs=configs,
            connectors=self.connectors,
            leadership=self.leadership,
            metrics=metrics,
            worker_id=worker_id,
            cluster_id=lambda: self._cluster_id,
            membership=membership,
            client=worker_client,
            spark=supervisor,
        )
        self._link_watch = LinkWatch(self.links)
        self.workers: Final = Workers(
            worker_id=worker_id,
            leadership=self.leadership,
            membership=membership,
            configs=configs,
            elsewhere=self.links.others,
            now_ms=metrics.now_ms,
            spark=supervisor,
        )
        self._spark = supervisor
        self.active_topics: Final = ActiveTopics(statuses, self.leadership, tracking)
        self.log_levels: Final = ClusterLogLevels(log_levels or LogLevels(), configs, self.leadership)
        self.worker_requests: Final = (
            StandaloneRequests()
            if standalone
            else WorkerRequests(configs, self.leadership, link, membership=membership, task_configs=self.task_configs)
        )
        self._key_rotation = SessionKeyRotation(configs, self.leadership)

    # For the worker.

    def start(self, kafka_cluster_id: str) -> None:
        """Begins to answer; config and status store are started before. Leads as soon as `membership` says so."""
        self._cluster_id = kafka_cluster_id
        self._book.start()
        self._leader.start()
        self._reconciler.start()
        self.assignments.start()
        self.log_levels.start()
        self.leadership.start()
        self.links.others.start()
        self._link_watch.start()
        self._key_rotation.start()

    def membership_changed(self, _: object = None) -> None:
        """Call this whenever the worker's group assignment changes."""
        self.assignments.changed()
        if self.fencing is not None:
            self.fencing.group_changed(self._membership.assignment)
        self.leadership.changed()

    async def secrets(self) -> frozenset[str]:
        """The secrets of all connectors, with those that config providers gave to running ones."""
        running = self._reconciler.secrets()
        return running | await asyncio.to_thread(_secrets, self._stored_configs.snapshot())

    async def stop_connectors(self) -> None:
        """Shutdown, first half: ends writes and stops connectors. Stop the supervisor after it."""
        self._link_watch.stop()
        self.links.others.stop()
        if self.fencing is not None:
            await self.fencing.stop()
        self._key_rotation.stop()
        await self.leadership.end()
        await self.assignments.end()
        await self._reconciler.stop_connectors()

    async def stop(self, patience_s: float = 2.0) -> None:
        """Shutdown, second half: sets everything that ran here to UNASSIGNED, and waits until that is written."""
        self._reconciler.release_nothing()
        if self.leadership.started and self._membership.runs_for() > 0:
            self._reconciler.give_up()
            if self._membership.is_leader and len(self._membership.assignment.workers) <= 1:
                # Even before it has taken over: nothing runs now, and statuses of a killed leader must not say RUNNING.
                self._leader.give_up()
            if not await self._book.flush(patience_s):
                log.warning("Some statuses could not be written before this worker ended")
        await self._book.stop()

    # REST: the worker itself.

    async def server_info(self) -> ServerInfo:
        """GET /."""
        await self.leadership.until_ready()
        return ServerInfo(CONNECT_VERSION, COMMIT, self._cluster_id or "")

    async def health(self) -> Health:
        """GET /health: whether requests that change something get the lock for writes."""
        if not self.leadership.complete or self.creating:
            return Health("starting", "Worker is still starting up.")
        try:
            async with asyncio.timeout(HEALTH_WAIT_S), self._turn:
                if (silence := self._membership.silence) is not None:
                    return Health("unhealthy", f"{silence}.")
                if self._spark.readiness is Readiness.READY:
                    return Health("healthy", READY)
                return Health("healthy", " ".join(filter(None, (READY, NO_SPARK, self._spark.absence))))
        except TimeoutError:
            return Health(
                "unhealthy", "Worker was unable to handle this request and may be unable to handle other requests."
            )


def _secrets(snapshot: ConfigSnapshot) -> frozenset[str]:
    tasks = [config for name in snapshot.connectors for config in snapshot.tasks(name)]
    return frozenset().union(*map(secrets_of, (*snapshot.connectors.values(), *tasks)))
