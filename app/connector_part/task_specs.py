"""The specs of tasks: raw task configs made whole, with secrets resolved and client settings composed; and positions.

What is made here leaves the worker only through the internal HTTP, to the one task that holds the run's capability.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from mirror_connect.app.connector_part.target_choice import Target, TargetChooser
from mirror_connect.app.storage.offsets import OffsetStore
from mirror_connect.app.worker_config import WorkerConfig
from mirror_connect.connectors import connector_definition
from mirror_connect.connectors.assignment import parse_assigned_partitions
from mirror_connect.connectors.job_contract import PartitionPosition, TaskId, TaskPartition, TaskSpec
from mirror_connect.connectors.mirror_settings import source_consumer
from mirror_connect.connectors.mirror_source import topic_selection

Resolve = Callable[[Mapping[str, str]], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class OpenStore:
    """An offset topic that is followed, and its partition count."""

    store: OffsetStore
    partitions: int


class OffsetStores:
    """The worker's offset store, and those of other clusters that connectors write to; opened when first needed."""

    def __init__(self, own: Callable[[], OpenStore], open_other: Callable[[Target], Awaitable[OpenStore]]) -> None:
        self._own = own
        self._open_other = open_other
        self._others: dict[str, OpenStore] = {}
        # One for each address: a cluster that is slow to answer keeps only its own connectors waiting.
        self._opening: dict[str, asyncio.Lock] = {}

    async def of(self, target: Target) -> OpenStore:
        """The store that holds the positions of connectors with this target."""
        if target.own:
            return self._own()
        address = target.producer["bootstrap.servers"]
        async with self._opening.setdefault(address, asyncio.Lock()):
            if address not in self._others:
                self._others[address] = await self._open_other(target)
            return self._others[address]

    async def stop(self) -> None:
        """Stops following other clusters' topics; the worker's own is stopped by who made it."""
        for each in self._others.values():
            await each.store.stop()


class TaskSpecs:
    """Builds specs and reads positions for the supervisor (supervisor.SpecSource)."""

    def __init__(self, worker: WorkerConfig, resolve: Resolve, targets: TargetChooser, stores: OffsetStores) -> None:
        self._worker = worker
        self._resolve = resolve
        self._targets = targets
        self._stores = stores
        self._store_of_task: dict[TaskId, OpenStore] = {}

    async def build(self, run_id: str, task: TaskId, config: Mapping[str, str], version: int) -> TaskSpec:
        """See supervisor.SpecSource. ClusterUnreachable while the target can't be told from the worker's cluster."""
        resolved = await asyncio.to_thread(self._resolve, config)
        target = await self._targets.chosen(resolved)
        store = self._store_of_task[task] = await self._stores.of(target)
        definition = connector_definition(resolved["connector.class"])
        settings = definition.settings(resolved)
        alias = settings.text("source.cluster.alias")
        policy = topic_selection(settings).policy
        return TaskSpec(
            run_id=run_id,
            connector=task.connector,
            task=task.task,
            connector_class=definition.class_name,
            config=resolved,
            source=source_consumer(resolved),
            target=target.producer,
            source_alias=alias,
            target_alias=settings.text("target.cluster.alias"),
            assigned=tuple(
                TaskPartition(each.topic, each.partition, policy.remote_topic(alias, each.topic))
                for each in parse_assigned_partitions(config.get("task.assigned.partitions", ""))
            ),
            assignment_version=version,
            transactional_id=f"{self._worker.group_id}-{task}",
            offsets_topic=self._worker.offset_topic,
            offsets_partitions=store.partitions,
            commit_interval_ms=self._worker.offset_flush_interval_ms,
        )

    async def positions(self, spec: TaskSpec, partitions: Sequence[tuple[str, int]]) -> list[PartitionPosition]:
        """See supervisor.SpecSource."""
        store = self._store_of_task[TaskId(spec.connector, spec.task)].store
        # The order of the members is part of the key's identity (Java's HashMap order).
        keys = [{"cluster": spec.source_alias, "partition": p, "topic": topic} for topic, p in partitions]
        found = await store.positions(spec.connector, keys)
        return [
            PartitionPosition(topic, partition, _last_replicated(offset))
            for (topic, partition), offset in zip(partitions, found, strict=True)
        ]


def _last_replicated(offset: Mapping[str, object] | None) -> int | None:
    value = offset.get("offset") if offset else None
    return value if isinstance(value, int) else None
