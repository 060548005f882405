"""One worker: a member of one group, with its internal topics, its herder and the tasks that it runs.

It joins the group and, at the same time, reads or creates the internal topics. Only the group's leader writes. The process
around it (process.py) has Spark and the HTTP servers; a process may have several workers, one for each flow.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from mirror_connect.app.config.worker_config import StorageTopic, WorkerConfig
from mirror_connect.app.herder.active_topics import TopicTracking
from mirror_connect.app.herder.client_properties import OverridePolicy
from mirror_connect.app.herder.herder import Herder
from mirror_connect.app.herder.membership import MARGIN_SECONDS, Membership
from mirror_connect.app.herder.validation import ConfigRules
from mirror_connect.app.steps import left, within
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.app.supervisor.spark_host import SparkHost
from mirror_connect.app.supervisor.supervisor import Supervisor
from mirror_connect.app.worker_connectors.factory import WorkerConnectorFactory
from mirror_connect.app.worker_connectors.offset_stores import OffsetStores, OpenStore
from mirror_connect.app.worker_connectors.target_choice import Target, TargetChooser
from mirror_connect.app.worker_connectors.task_specs import TaskSpecs
from mirror_connect.connectors.errors import ClusterUnreachable
from mirror_connect.connectors.rights import PRODUCING_USER, WORKER_USER
from mirror_connect.connectors.task_protocol import CONNECT, DEDICATED
from mirror_connect.kafka_io.admin.admin import ClusterAdmin
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.client.worker_lease import WorkerLease
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from mirror_connect.kafka_io.producer.leader_producer import LeaderProducer
from mirror_connect.kafka_io.producer.leader_writer import LeaderWriter

log = logging.getLogger(__name__)
T = TypeVar("T")

UNREACHABLE_GIVE_UP_S: Final = 60.0
RETRY_S: Final = 1.0
TASKS_PATIENCE_S: Final = 3.0
STATUS_PATIENCE_S: Final = 1.0
# For all last steps together that need the worker's own cluster: an unreachable cluster must not delay each of them.
CLUSTER_PATIENCE_S: Final = 1.5


class Worker:
    """See the module. `worker_id` names it in statuses; other members of the group get `url`.

    `spark` runs its tasks. `flow`: the name in log lines, in a process with several workers.
    The end has three steps, which the process calls for all its workers: `end_tasks`, `leave`, `close`.
    """

    def __init__(self, config: WorkerConfig, spark: SparkHost, *, worker_id: str, url: str, flow: str = "") -> None:
        self._config = config
        self._spark = spark
        self.url: Final = url
        self._flow = flow
        self._until = 0.0
        self._membership = Membership.of(
            config.own_client("consumer"),
            config.group_id,
            self.url,
            client_id=config.client_id,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            on_change=lambda _: self.herder.membership_changed(),
        )
        self._lease = WorkerLease(self._membership.leads_for, config.session_timeout_ms / 1000 - MARGIN_SECONDS)
        self._clients = LogClients(config.own_client("producer"), config.client_id, self._lease)
        # The name is Kafka Connect's, so that a leader of either kind fences one of the other kind.
        leader_id = f"connect-cluster-{config.group_id}"
        leader = LeaderWriter(leader_id, lambda: LeaderProducer(self._clients, leader_id), self._clients, self._lease)
        self._configs_log = KafkaTopicLog(self._clients, _config_plan(config.config_storage), leader)
        self._statuses_log = KafkaTopicLog(self._clients, _status_plan(config.status_storage))
        self._offsets_log = KafkaTopicLog(self._clients, _offset_plan(config.offset_storage))
        self.configs: Final = ConfigStore(self._configs_log)
        self._statuses = StatusStore(self._statuses_log)
        self._offsets = OffsetStore(self._offsets_log)
        targets = TargetChooser(config)
        self._stores = OffsetStores(lambda: OpenStore(self._offsets, self._offsets_log.partitions), self._open_other)
        specs = TaskSpecs(config, config.resolver.resolve, targets, self._stores, DEDICATED if flow else CONNECT)
        self._supervisor = Supervisor(spark, specs, self._membership.leads_for, flow=flow)
        self.herder: Final = Herder(
            configs=self.configs,
            statuses=self._statuses,
            membership=self._membership,
            supervisor=self._supervisor,
            new_connector=WorkerConnectorFactory(
                targets, specs.offsets_of, lambda name: self.configs.snapshot().tasks(name)
            ),
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
            ),
        )

    async def secrets(self) -> frozenset[str]:
        """The secrets that are in use."""
        return await self.herder.secrets() | self._supervisor.secrets()

    # --- start ------------------------------------------------------------------------------------------------------

    async def start(self, answers: Callable[[], Awaitable[None]]) -> None:
        """Returns when the worker is in its group and its herder answers; `answers` is called when the latter does.

        StartupError, ClusterUnreachable after a minute, NotAuthorized, GroupRefusedError.
        """
        cluster_id = await self._patiently(self._cluster_id)
        # Reads need not wait for the group: the broker delays its first member by group.initial.rebalance.delay.ms (3 s by
        # default), and after a kill of this worker by 10 s. Connect, too, creates its topics before it joins.
        async with asyncio.TaskGroup() as together:
            together.create_task(self._membership.join())
            together.create_task(self._begin_to_answer(cluster_id, answers))
        self.herder.membership_changed()

    async def _begin_to_answer(self, cluster_id: str, answers: Callable[[], Awaitable[None]]) -> None:
        async with asyncio.TaskGroup() as together:
            for store in (self.configs, self._statuses, self._offsets):
                together.create_task(store.start())
        self.herder.start(cluster_id)
        self._supervisor.start()
        await answers()

    def _admin(self) -> ClusterAdmin:
        return ClusterAdmin(self._config.own_client("admin"), "the worker's cluster", timeout=10.0, user=WORKER_USER)

    async def _cluster_id(self) -> str:
        return await asyncio.to_thread(lambda: self._admin().cluster_id())

    async def _patiently(self, step: Callable[[], Awaitable[T]]) -> T:
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
                    again = f"The worker tries again for {UNREACHABLE_GIVE_UP_S:.0f} s and then gives up"
                    log.warning("%s. %s", error, "The flow is tried again until it answers" if self._flow else again)
                logged = True
            await asyncio.sleep(RETRY_S)

    async def _open_other(self, target: Target) -> OpenStore:
        """The offset topic on another cluster that a connector writes to."""
        clients = LogClients(target.producer, self._config.client_id, self._lease, PRODUCING_USER)
        log_there = KafkaTopicLog(clients, _offset_plan(self._config.offset_storage))
        store = OffsetStore(log_there)

        async def close() -> None:
            await store.stop()
            await asyncio.to_thread(clients.close)

        try:
            await store.start()
        except BaseException:
            await asyncio.to_thread(clients.close)
            raise
        return OpenStore(store, log_there.partitions, close)

    # --- end --------------------------------------------------------------------------------------------------------

    async def end_tasks(self) -> None:
        """Stops connectors and tasks. What is left of the tasks after that ends with Spark."""
        await within(self.herder.stop_connectors(), "stopping the connectors")
        await within(self._supervisor.stop(TASKS_PATIENCE_S), "stopping the tasks", TASKS_PATIENCE_S + 0.5)

    async def leave(self) -> None:
        """Writes the last statuses, then leaves the group: the next leader finds all that was written."""
        self._until = asyncio.get_running_loop().time() + CLUSTER_PATIENCE_S
        await within(self.herder.stop(STATUS_PATIENCE_S), "writing the last statuses")
        await within(self._membership.leave(), "leaving the group", left(self._until))

    async def close(self) -> None:
        """Closes the topics; `leave` comes before."""
        self._spark.remove(self._supervisor)
        stores = (self.configs, self._statuses, self._offsets, self._stores)
        closing = (*(store.stop() for store in stores), asyncio.to_thread(self._clients.close, left(self._until)))
        await within(asyncio.gather(*closing), "closing the topics")


def _config_plan(topic: StorageTopic) -> TopicPlan:
    return TopicPlan.for_configs(topic.name, topic.replication_factor, topic.configs)


def _status_plan(topic: StorageTopic) -> TopicPlan:
    return TopicPlan.for_statuses(topic.name, topic.partitions, topic.replication_factor, topic.configs)


def _offset_plan(topic: StorageTopic) -> TopicPlan:
    return TopicPlan.for_offsets(topic.name, topic.partitions, topic.replication_factor, topic.configs)
