"""Builds the specs of tasks from raw task configs, with resolved secrets and client settings; reads source offsets.

Specs leave the worker only through the internal HTTP, to the one task that has the run's token.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from mirror_connect.app.config.common_config import CommonConfig
from mirror_connect.app.storage.offsets import SourceOffsetStore
from mirror_connect.app.worker_connectors.first_addresses import FirstAddresses
from mirror_connect.app.worker_connectors.offset_stores import Reported, Stores
from mirror_connect.app.worker_connectors.resolved_task_configs import ResolvedTaskConfigs
from mirror_connect.app.worker_connectors.source_positions import stored_source_offsets
from mirror_connect.app.worker_connectors.target_choice import BOOTSTRAP, Target, TargetChooser
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.config.table import RefusedConfig, Settings
from mirror_connect.connectors.errors import ConfigError
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, parse_assigned_partitions
from mirror_connect.connectors.mirror.dead_letters import dead_letter_topic
from mirror_connect.connectors.mirror.filters import is_reserved
from mirror_connect.connectors.mirror.mirror_checkpoint import assigned_groups
from mirror_connect.connectors.mirror.mirror_heartbeat import HEARTBEAT_TASK_CLASS
from mirror_connect.connectors.mirror.mirror_source import MirrorSource
from mirror_connect.connectors.mirror.routed_policy import routed_policy
from mirror_connect.connectors.mirror.settings import source_admin, source_consumer
from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.records.heartbeats import ALWAYS_ZERO
from mirror_connect.connectors.records.source_offsets import (
    source_offset_headers,
    source_offset_key,
    source_offset_value,
)
from mirror_connect.connectors.records.topic_ids import parse_topic_id
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy, replication_policy
from mirror_connect.connectors.secrets import resolved_secrets
from mirror_connect.connectors.task_protocol import (
    CONNECT,
    INTERVAL,
    POLL,
    SourceOffset,
    TaskId,
    TaskPartition,
    TaskSpec,
)

log = logging.getLogger(__name__)

Resolve = Callable[[Mapping[str, str]], Mapping[str, str]]


class TaskSpecs:
    """Builds specs and reads source offsets for the supervisor (supervisor.SpecSource).

    `transactional_id` of a task; empty if the lease alone fences its former processes. `program`: see TaskSpec.
    `fence`: if tasks copy exactly once, fences former tasks of a connector; it raises ClusterUnreachable, NotAuthorized
    and ConfigError. None: they copy at least once.
    """

    def __init__(
        self,
        worker: CommonConfig,
        resolve: Resolve,
        targets: TargetChooser,
        stores: Stores,
        transactional_id: Callable[[TaskId], str],
        *,
        program: str = CONNECT,
        fence: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._fence = fence
        self._worker = worker
        self._program = program
        self._transactional_id = transactional_id
        self._resolved = ResolvedTaskConfigs(resolve)
        self._targets = targets
        self._stores = stores
        self._target_of_task: dict[TaskId, Target] = {}
        self._alias_of_task: dict[TaskId, str] = {}
        self._first_addresses = FirstAddresses()

    async def resolve(self, run_id: str, task: TaskId, config: Mapping[str, str]) -> Mapping[str, str]:
        """See supervisor.SpecSource."""
        return await self._resolved.of(task, run_id, config)

    async def build(
        self, run_id: str, task: TaskId, config: Mapping[str, str], resolved: Mapping[str, str], version: int
    ) -> TaskSpec:
        """See supervisor.SpecSource. ClusterUnreachable while it is unknown whether the target is the worker's cluster.

        ConfigError if the producer leads to another cluster than the target, or at the run's beginning to none.
        """
        target = self._target_of_task[task] = await self._targets.chosen(resolved)
        definition = connector_definition(resolved["connector.class"])
        source = source_consumer(resolved)
        clusters = {"target cluster": target.producer}
        if definition.task_class != HEARTBEAT_TASK_CLASS:
            clusters["source cluster"] = source
        await self._first_addresses.check(task, run_id, clusters)
        for line in await self._targets.errors(resolved):
            # A Java worker may have accepted the config, or it came while a cluster was unreachable.
            raise RefusedConfig(BOOTSTRAP, line)
        store = await self._stores.of(target)
        settings = definition.settings(resolved, config)
        alias = self._alias_of_task[task] = settings.text("source.cluster.alias")
        # Transformations of others are refused. A Java worker may have taken them, and they change no topic of ours.
        policy_of = routed_policy if definition.class_name == MirrorSource.class_name else replication_policy
        policy = policy_of(settings.originals)
        boundary, interval = self._boundary(settings)
        if self._fence is not None:
            # Before the task can begin a transaction, and in any case before it asks where to continue.
            await self._fence(task.connector)
        letters = dead_letter_topic(settings) if definition.class_name == MirrorSource.class_name else None
        reserved = target.reserved if letters is None else target.reserved | {letters.name}
        return TaskSpec(
            run_id=run_id,
            connector=task.connector,
            task=task.task,
            connector_class=definition.class_name,
            config=resolved,
            source=source,
            target=target.producer if self._fence is None else transactional(target.producer),
            source_alias=alias,
            target_alias=settings.text("target.cluster.alias"),
            assigned=await asyncio.to_thread(_assigned, config, policy, alias, reserved),
            assignment_version=version,
            transactional_id=self._transactional_id(task),
            offsets_topic=store.topic,
            offsets_partitions=store.partitions,
            commit_interval_ms=self._worker.offset_flush_interval_ms,
            assigned_groups=tuple(assigned_groups(config)),
            source_admin=source_admin(resolved),
            target_admin=target.admin,
            target_consumer=target.consumer,
            program=self._program,
            exactly_once=self._fence is not None,
            transaction_boundary=boundary,
            transaction_interval_ms=interval,
            hidden=tuple(sorted(resolved_secrets(config, resolved))) if letters is not None and letters.context else (),
        )

    def _boundary(self, settings: Settings) -> tuple[str, int]:
        """When transactions end. ConfigError for what no connector here can do: a Java worker may have taken it."""
        boundary = settings.text("transaction.boundary").lower()
        if boundary == "connector" and self._fence is not None:
            raise ConfigError("transaction.boundary", boundary, "the connector does not define its own transactions")
        given = settings["transaction.boundary.interval.ms"]
        interval = self._worker.offset_flush_interval_ms if given is None else int(given)
        return (INTERVAL if boundary == INTERVAL else POLL), interval

    async def offsets_of(self, resolved: Mapping[str, str]) -> SourceOffsetStore:
        """Where tasks of a connector with this resolved config write their source offsets. Errors as of `build`."""
        return (await self._stores.of(await self._targets.chosen(resolved))).store

    async def source_offsets(self, spec: TaskSpec, partitions: Sequence[TopicPartition]) -> list[SourceOffset]:
        """See supervisor.SpecSource."""
        if self._fence is not None:
            # Partitions may have come from the task of a worker that was lost since the start.
            await self._fence(spec.connector)
        store = (await self._stores.of(self._target_of_task[TaskId(spec.connector, spec.task)])).store
        return await stored_source_offsets(store, spec.connector, spec.source_alias, partitions)

    def copied(self, task: TaskId, offsets: Sequence[SourceOffset]) -> None:
        """See supervisor.SpecSource."""
        alias = self._alias_of_task[task]
        entries = []
        for each in offsets:
            # A topic that was made again and is empty has no offset yet. The former one's shows that it was another topic.
            if each.offset is not None and each.offset >= 0:
                key = source_offset_key(task.connector, alias, each.topic, each.partition)
                headers = source_offset_headers(parse_topic_id(each.topic_id), each.leader_epoch)
                entries.append(Reported(key, source_offset_value(each.offset), headers))
        self._stores.reported(entries)

    def wrote_for(self, task: TaskId, keys: Sequence[str]) -> None:
        """See supervisor.SpecSource."""
        self._stores.reported([Reported(key.encode(), ALWAYS_ZERO) for key in keys])

    def keep(self, tasks: Collection[TaskId]) -> None:
        """See supervisor.SpecSource."""
        self._resolved.keep(tasks)
        self._first_addresses.keep(tasks)
        self._target_of_task = {task: target for task, target in self._target_of_task.items() if task in tasks}
        self._alias_of_task = {task: alias for task, alias in self._alias_of_task.items() if task in tasks}


def transactional(producer: Mapping[str, str]) -> dict[str, str]:
    """Producer properties of a task with transactions. As in Connect, two of them are not the user's to choose."""
    if producer.get("enable.idempotence", "true").strip().lower() == "false":
        log.warning("enable.idempotence=false has no effect: exactly-once copying needs an idempotent producer")
    kept = {name: value for name, value in producer.items() if name != "transactional.id"}
    return {**kept, "enable.idempotence": "true"}


def _assigned(
    config: Mapping[str, str], policy: DefaultReplicationPolicy, alias: str, reserved: Collection[str]
) -> tuple[TaskPartition, ...]:
    """Blocking: it may call a user's policy. Without partitions that lead to reserved topics, whatever the task config."""
    given = parse_assigned_partitions(config.get(ASSIGNED_PARTITIONS, ""))
    policy.judge(alias, {each.topic for each in given})
    partitions = (_task_partition(policy, alias, each) for each in given)
    return tuple(each for each in partitions if not is_reserved(each.remote_topic, policy, reserved))


def _task_partition(policy: DefaultReplicationPolicy, alias: str, partition: TopicPartition) -> TaskPartition:
    remote, named = policy.remote_topic(alias, partition.topic), policy.named_topic(alias, partition.topic)
    heartbeats = policy.is_heartbeats(partition.topic)
    return TaskPartition(*partition, remote, named="" if named == remote else named, heartbeats=heartbeats)
