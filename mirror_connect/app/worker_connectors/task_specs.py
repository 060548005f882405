"""The specs of tasks: raw task configs made whole, with secrets resolved and client settings composed; and positions.

What is made here leaves the worker only through the internal HTTP, to the one task that holds the run's capability.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from mirror_connect.app.config.worker_config import WorkerConfig
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.worker_connectors.first_addresses import FirstAddresses
from mirror_connect.app.worker_connectors.resolved_runs import ResolvedRuns
from mirror_connect.app.worker_connectors.target_choice import BOOTSTRAP, Target, TargetChooser
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.config.config_table import RefusedConfig
from mirror_connect.connectors.mirror.assignment import parse_assigned_partitions
from mirror_connect.connectors.mirror.kept_topics import is_kept
from mirror_connect.connectors.mirror.mirror_checkpoint import assigned_groups
from mirror_connect.connectors.mirror.mirror_heartbeat import HEARTBEAT_TASK_CLASS
from mirror_connect.connectors.mirror.mirror_settings import source_admin, source_consumer
from mirror_connect.connectors.records.internal_json import is_integer
from mirror_connect.connectors.records.positions import MAX_OFFSET
from mirror_connect.connectors.records.topic_ids import topic_id_text
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy, replication_policy
from mirror_connect.connectors.task_protocol import PartitionPosition, TaskId, TaskPartition, TaskSpec

log = logging.getLogger(__name__)

Resolve = Callable[[Mapping[str, str]], Mapping[str, str]]


# Positions are asked for when a task starts or gets partitions: a store of another cluster is not held for ever after.
IDLE_S: Final = 600.0
# Not the address alone: two logins may see different things there, and one must not read with the other's rights.
_Way = frozenset[tuple[str, str]]


async def _nothing() -> None:
    """For a store that somebody else closes."""


@dataclass(frozen=True, slots=True)
class OpenStore:
    """An offset topic that is followed, its partition count, and what ends that."""

    store: OffsetStore
    partitions: int
    close: Callable[[], Awaitable[None]] = _nothing


class OffsetStores:
    """The worker's offset store, and those of other clusters that connectors write to; these are closed when idle."""

    def __init__(
        self,
        own: Callable[[], OpenStore],
        open_other: Callable[[Target], Awaitable[OpenStore]],
        idle_s: float = IDLE_S,
    ) -> None:
        self._own = own
        self._open_other = open_other
        self._idle_s = idle_s
        self._others: dict[_Way, OpenStore] = {}
        self._ends: dict[_Way, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        # One for each way: a cluster that is slow to answer keeps only its own connectors waiting.
        self._opening: dict[_Way, asyncio.Lock] = {}

    async def of(self, target: Target) -> OpenStore:
        """The store that holds the positions of connectors with this target; to be asked for again before each use."""
        if target.own:
            return self._own()
        way = frozenset(target.producer.items())
        async with self._opening.setdefault(way, asyncio.Lock()):
            if way not in self._others:
                self._others[way] = await self._open_other(target)
            if way in self._ends:
                self._ends[way].cancel()
            self._ends[way] = asyncio.get_running_loop().call_later(self._idle_s, self._close, way)
            return self._others[way]

    def _close(self, way: _Way) -> None:
        del self._ends[way]
        closing = asyncio.ensure_future(_closed(self._others.pop(way)))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def stop(self) -> None:
        """Stops following other clusters' topics; the worker's own is stopped by who made it."""
        for way, end in list(self._ends.items()):
            end.cancel()
            self._close(way)
        await asyncio.gather(*self._closing)


async def _closed(store: OpenStore) -> None:
    try:
        await store.close()
    except Exception:
        log.exception("The offsets topic of another cluster was not closed cleanly")


class TaskSpecs:
    """Builds specs and reads positions for the supervisor (supervisor.SpecSource)."""

    def __init__(self, worker: WorkerConfig, resolve: Resolve, targets: TargetChooser, stores: OffsetStores) -> None:
        self._worker = worker
        self._resolved = ResolvedRuns(resolve)
        self._targets = targets
        self._stores = stores
        self._target_of_task: dict[TaskId, Target] = {}
        self._first_addresses = FirstAddresses()

    async def resolve(self, run_id: str, task: TaskId, config: Mapping[str, str]) -> Mapping[str, str]:
        """See supervisor.SpecSource."""
        return await self._resolved.of(task, run_id, config)

    async def build(
        self, run_id: str, task: TaskId, config: Mapping[str, str], resolved: Mapping[str, str], version: int
    ) -> TaskSpec:
        """See supervisor.SpecSource. ClusterUnreachable while the target can't be told from the worker's cluster.

        ConfigError for a producer that leads to another cluster than the target, or to none at the run's beginning.
        """
        target = self._target_of_task[task] = await self._targets.chosen(resolved)
        definition = connector_definition(resolved["connector.class"])
        source = source_consumer(resolved)
        clusters = {"target cluster": target.producer}
        if definition.task_class != HEARTBEAT_TASK_CLASS:
            clusters["source cluster"] = source
        await self._first_addresses.check(task, run_id, clusters)
        for line in await self._targets.errors(resolved):
            # A config that a Java worker took, or that came while a cluster was away.
            raise RefusedConfig(BOOTSTRAP, line)
        store = await self._stores.of(target)
        settings = definition.settings(resolved, config)
        alias = settings.text("source.cluster.alias")
        policy = replication_policy(settings.originals)
        return TaskSpec(
            run_id=run_id,
            connector=task.connector,
            task=task.task,
            connector_class=definition.class_name,
            config=resolved,
            source=source,
            target=target.producer,
            source_alias=alias,
            target_alias=settings.text("target.cluster.alias"),
            assigned=await asyncio.to_thread(_assigned, config, policy, alias, target.kept),
            assignment_version=version,
            transactional_id=f"{self._worker.group_id}-{task}",
            offsets_topic=self._worker.offset_topic,
            offsets_partitions=store.partitions,
            commit_interval_ms=self._worker.offset_flush_interval_ms,
            assigned_groups=tuple(assigned_groups(config)),
            source_admin=source_admin(resolved),
            target_admin=target.admin,
            target_consumer=target.consumer,
        )

    async def offsets_of(self, resolved: Mapping[str, str]) -> OffsetStore:
        """The store that tasks of a connector with this resolved config write their positions to. Errors as of `build`."""
        return (await self._stores.of(await self._targets.chosen(resolved))).store

    async def positions(self, spec: TaskSpec, partitions: Sequence[tuple[str, int]]) -> list[PartitionPosition]:
        """See supervisor.SpecSource."""
        store = (await self._stores.of(self._target_of_task[TaskId(spec.connector, spec.task)])).store
        # The order of the members is part of the key's identity (Java's HashMap order).
        keys = [{"cluster": spec.source_alias, "partition": p, "topic": topic} for topic, p in partitions]
        found = await store.positions(spec.connector, keys)
        # Nothing comes in between: they are of the very records that were found.
        origins = store.origins(spec.connector, keys)
        return [
            PartitionPosition(
                topic, partition, _last_replicated(offset), topic_id_text(topic_id) if topic_id else None, epoch
            )
            for (topic, partition), offset, (topic_id, epoch) in zip(partitions, found, origins, strict=True)
        ]

    def keep(self, tasks: Collection[TaskId]) -> None:
        """See supervisor.SpecSource."""
        self._resolved.keep(tasks)
        self._first_addresses.keep(tasks)
        self._target_of_task = {task: target for task, target in self._target_of_task.items() if task in tasks}


def _assigned(
    config: Mapping[str, str], policy: DefaultReplicationPolicy, alias: str, kept: Collection[str]
) -> tuple[TaskPartition, ...]:
    """Blocking: a policy of the user's is asked. Nothing that leads to a kept topic, whoever has written the task config."""
    partitions = (
        TaskPartition(each.topic, each.partition, policy.remote_topic(alias, each.topic))
        for each in parse_assigned_partitions(config.get("task.assigned.partitions", ""))
    )
    return tuple(each for each in partitions if not is_kept(each.remote_topic, policy, kept))


def _last_replicated(offset: Mapping[str, object] | None) -> int | None:
    value = offset.get("offset") if offset else None
    return value if is_integer(value) and 0 <= value <= MAX_OFFSET else None
