"""A worker of a group: its state is in three topics of its cluster, and the group's coordinator chooses who leads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mirror_connect.app.config.worker_config import StorageTopic, WorkerConfig
from mirror_connect.app.herder.membership import MARGIN_SECONDS, Membership
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.storage.topic_log import KafkaTopicLog
from mirror_connect.app.worker_connectors.offset_stores import OffsetStores, OpenStore
from mirror_connect.app.worker_connectors.target_choice import Target
from mirror_connect.connectors.rights import PRODUCING_USER
from mirror_connect.connectors.task_protocol import TaskId
from mirror_connect.kafka_io.admin.topic_plan import TopicPlan
from mirror_connect.kafka_io.client.worker_lease import WorkerLease
from mirror_connect.kafka_io.consumer.log_clients import LogClients
from mirror_connect.kafka_io.producer.leader_producer import LeaderProducer
from mirror_connect.kafka_io.producer.leader_writer import LeaderWriter


class GroupBacking:
    """See the module, and backing.Backing. Other members of the group get `url`."""

    def __init__(self, config: WorkerConfig, url: str) -> None:
        self._config = config
        self._changed: Callable[[], None] = lambda: None
        self.membership = Membership.of(
            config.own_client(),
            config.group_id,
            url,
            client_id=config.client_id,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            on_change=lambda _: self._changed(),
        )
        self._lease = WorkerLease(self.membership.leads_for, config.session_timeout_ms / 1000 - MARGIN_SECONDS)
        self._clients = LogClients(config.own_client(), config.client_id, self._lease)
        # The name is Kafka Connect's, so that a leader of either kind fences one of the other kind.
        leader_id = f"connect-cluster-{config.group_id}"
        leader = LeaderWriter(leader_id, lambda: LeaderProducer(self._clients, leader_id), self._clients, self._lease)
        self.configs = KafkaTopicLog(self._clients, _config_plan(config.config_storage), leader)
        self.statuses = KafkaTopicLog(self._clients, _status_plan(config.status_storage))
        offsets_log = KafkaTopicLog(self._clients, _offset_plan(config.offset_storage))
        self.offsets = OffsetStore(offsets_log)
        self.stores = OffsetStores(
            lambda: OpenStore(self.offsets, config.offset_topic, offsets_log.partitions), self._open_other
        )

    def listen(self, changed: Callable[[], None]) -> None:
        """See Backing."""
        self._changed = changed

    def transactional_id(self, task: TaskId) -> str:
        """See Backing."""
        return f"{self._config.group_id}-{task}"

    async def join(self) -> None:
        """See Backing."""
        await self.membership.join()

    async def leave(self) -> None:
        """See Backing."""
        await self.membership.leave()

    async def close(self, patience_s: float) -> None:
        """See Backing."""
        await asyncio.to_thread(self._clients.close, patience_s)

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
        return OpenStore(store, self._config.offset_topic, log_there.partitions, close)


def _config_plan(topic: StorageTopic) -> TopicPlan:
    return TopicPlan.for_configs(topic.name, topic.replication_factor, topic.configs)


def _status_plan(topic: StorageTopic) -> TopicPlan:
    return TopicPlan.for_statuses(topic.name, topic.partitions, topic.replication_factor, topic.configs)


def _offset_plan(topic: StorageTopic) -> TopicPlan:
    return TopicPlan.for_offsets(topic.name, topic.partitions, topic.replication_factor, topic.configs)
