"""A worker of a group: its state is in three topics of its cluster, and the group's coordinator chooses who leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from mirror_connect.app.config.exactly_once import Support
from mirror_connect.app.config.worker_config import StorageTopic, WorkerConfig
from mirror_connect.app.group.config_sync import ConfigSync
from mirror_connect.app.group.lease import MARGIN_SECONDS
from mirror_connect.app.group.membership import PROTOCOL, PROTOCOL_TYPE, Membership
from mirror_connect.app.group.topic_guard import TopicGuard
from mirror_connect.app.herder.assignments import Assignments
from mirror_connect.app.storage.configs import ConfigStore
from mirror_connect.app.storage.offsets import InTransaction, OffsetStore
from mirror_connect.app.storage.status import StatusStore
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.app.worker_connectors.offset_stores import OffsetStores, OpenStore
from mirror_connect.app.worker_connectors.target_choice import Target
from mirror_connect.connectors.clock import boot_clock
from mirror_connect.connectors.rights import PRODUCING_USER
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.client.worker_lease import WorkerLease
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from mirror_connect.kafka_io.producer.leader_producer import LeaderProducer, write_in_transaction
from mirror_connect.kafka_io.producer.leader_writer import LeaderWriter


class GroupBacking:
    """See the module, and backing.Backing. Other members of the group get `url` and `worker_id`."""

    def __init__(self, config: WorkerConfig, url: str, worker_id: str) -> None:
        self._config = config
        self._changed: Callable[[], None] = lambda: None
        topics = (config.config_storage.name, config.offset_storage.name, config.status_storage.name)
        self.membership = Membership.of(
            config.own_client(),
            config.group_id,
            url,
            client_id=config.client_id,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            exactly_once=config.exactly_once,
            rebalance_delay_ms=config.rebalance_delay_ms,
            worker_id=worker_id,
            topics=topics,
            on_change=lambda _: self._changed(),
        )
        self._guard = TopicGuard(
            config.own_client(),
            config.client_id,
            group_id=config.group_id,
            worker_id=worker_id,
            session_s=config.session_timeout_ms / 1000,
            protocol_type=PROTOCOL_TYPE,
            protocol=PROTOCOL,
            topics=topics,
        )
        full_s = config.session_timeout_ms / 1000 - MARGIN_SECONDS
        # Every member writes the statuses of what it runs. Configs, and offsets that REST alters, are the leader's.
        self._lease = WorkerLease(self.membership.leads_for, full_s)
        member_lease = WorkerLease(self.membership.runs_for, full_s)
        self._clients = LogClients(config.own_client(), config.client_id, member_lease)
        # The name is Kafka Connect's, so that a leader of either kind fences one of the other kind.
        leader_id = f"connect-cluster-{config.group_id}"
        leader = LeaderWriter(leader_id, lambda: LeaderProducer(self._clients, leader_id), self._clients, self._lease)
        self.configs = KafkaTopicLog(self._clients, _config_plan(config.config_storage), leader)
        self.statuses = KafkaTopicLog(self._clients, _status_plan(config.status_storage))
        offsets_log = KafkaTopicLog(self._clients, _offset_plan(config.offset_storage), lease=self._lease)
        self.offsets = OffsetStore(offsets_log, in_transaction=self._transactions(self._clients, config.offset_topic))
        self.stores = OffsetStores(
            lambda: OpenStore(self.offsets, config.offset_topic, offsets_log.partitions), self._open_other
        )

    def listen(self, changed: Callable[[], None]) -> None:
        """See Backing."""
        self._changed = changed

    @property
    def exactly_once(self) -> Support:
        """See Backing."""
        return self._config.exactly_once

    def transactional_id(self, task: TaskId) -> str:
        """See Backing."""
        return f"{self._config.group_id}-{task}"

    async def refuse_shared_topics(self, statuses: StatusStore) -> None:
        """See Backing."""
        await self._guard.refuse(statuses)

    async def watch_topics(self, statuses: StatusStore) -> None:
        """See Backing."""
        await self._guard.watch(statuses, lambda: self.membership.is_leader)

    async def stay_in_sync(self, configs: ConfigStore, assignments: Assignments) -> None:
        """See Backing."""
        await ConfigSync(
            configs,
            self.membership,
            assignments,
            timeout_s=self._config.sync_timeout_ms / 1000,
            backoff_s=self._config.unsync_backoff_ms / 1000,
            clock=boot_clock,
        ).keep()

    async def join(self) -> None:
        """See Backing."""
        await self._guard.refuse_other_topics()
        await self.membership.join()

    async def leave(self, farewell_s: float, *, silently: bool = False) -> None:
        """See Backing."""
        await self.membership.leave(farewell_s, silently=silently)

    async def close(self, patience_s: float) -> None:
        """See Backing."""
        await asyncio.to_thread(self._clients.close, patience_s)

    async def _open_other(self, target: Target) -> OpenStore:
        """The offset topic of a connector, or the common one on another cluster that a connector writes to."""
        clients = LogClients(target.producer, self._config.client_id, self._lease, PRODUCING_USER)
        common = self._config.offset_storage
        topic = replace(common, name=target.offsets_topic) if target.offsets_topic else common
        log_there = KafkaTopicLog(clients, _offset_plan(topic))
        store = OffsetStore(log_there, in_transaction=self._transactions(clients, topic.name))

        async def close() -> None:
            await store.stop()
            await asyncio.to_thread(clients.close)

        try:
            await store.start()
        except BaseException:
            await asyncio.to_thread(clients.close)
            raise
        return OpenStore(store, topic.name, log_there.partitions, close)

    def _transactions(self, clients: LogClients, topic: str) -> InTransaction:
        return lambda transactional_id, entries: write_in_transaction(
            clients, self._lease, transactional_id, topic, entries
        )


def _config_plan(topic: StorageTopic) -> TopicPlan:
    return TopicPlan.for_configs(topic.name, topic.replication_factor, topic.configs)


def _status_plan(topic: StorageTopic) -> TopicPlan:
    return TopicPlan.for_statuses(topic.name, topic.partitions, topic.replication_factor, topic.configs)


def _offset_plan(topic: StorageTopic) -> TopicPlan:
    return TopicPlan.for_offsets(topic.name, topic.partitions, topic.replication_factor, topic.configs)
