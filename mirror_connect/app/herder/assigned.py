"""What the task configs of a connector assign: known to every worker, whether or not a task copies it now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from mirror_connect.app.storage.config_records import RawConfig, set_values
from mirror_connect.app.storage.partition_owners import PartitionOwners
from mirror_connect.connectors.mirror.assignment import ASSIGNED_PARTITIONS, stored_partitions
from mirror_connect.connectors.mirror.mirror_checkpoint import assigned_groups
from mirror_connect.connectors.partitions import TopicPartition

# So many partitions are looked at before the loop gets its turn.
AT_ONCE: Final = 500


@dataclass(frozen=True, slots=True)
class Assigned:
    """Source partitions and groups, each with the number of its task; `topics` has the partitions of each topic.

    `tasks`: the numbers of all tasks. `portions`: the partitions of each task in pieces of AT_ONCE, with the task's number.
    """

    partitions: Mapping[TopicPartition, int] = field(default_factory=dict)
    topics: Mapping[str, Sequence[TopicPartition]] = field(default_factory=dict)
    groups: Mapping[str, int] = field(default_factory=dict)
    tasks: frozenset[int] = frozenset()
    portions: Sequence[tuple[int, Sequence[TopicPartition]]] = ()

    @classmethod
    def by(cls, configs: Sequence[RawConfig], owners: PartitionOwners | None = None) -> Assigned:
        """By the configs of a connector's tasks, in their order. `owners`: their partitions, if they have been read."""
        partitions: dict[TopicPartition, int] = {}
        groups: dict[str, int] = {}
        for task, config in enumerate(configs):
            text = config.get(ASSIGNED_PARTITIONS) or ""
            known = owners is not None and owners.has_read(task, text)
            partitions |= dict.fromkeys(owners.listed[task] if owners and known else stored_partitions(text), task)
            groups |= dict.fromkeys(_groups(config), task)
        topics: dict[str, list[TopicPartition]] = {}
        for partition in partitions:
            topics.setdefault(partition.topic, []).append(partition)
        of_tasks: dict[int, list[TopicPartition]] = {}  # one that two configs name is in one of them only
        for partition, task in partitions.items():
            of_tasks.setdefault(task, []).append(partition)
        portions = [
            (task, every[begin : begin + AT_ONCE])
            for task, every in of_tasks.items()
            for begin in range(0, len(every), AT_ONCE)
        ]
        return cls(partitions, topics, groups, frozenset(range(len(configs))), portions)


def _groups(config: RawConfig) -> list[str]:
    try:
        return assigned_groups(set_values(config))
    except (ValueError, TypeError):
        return []  # anyone may have written it


class AssignedByConnector:
    """Keeps what was read, as long as the task configs are the same."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Sequence[RawConfig], Assigned]] = {}

    def of(self, connector: str, configs: Sequence[RawConfig], owners: PartitionOwners | None = None) -> Assigned:
        """What these configs of a connector's tasks assign. `owners`: see Assigned.by."""
        known = self._kept.get(connector)
        # The same objects: to compare ten thousand partitions takes as long as to read them.
        if (
            known is not None
            and len(known[0]) == len(configs)
            and all(a is b for a, b in zip(known[0], configs, strict=True))
        ):
            return known[1]
        found = Assigned.by(configs, owners)
        self._kept[connector] = (tuple(configs), found)
        return found

    def keep(self, connectors: Mapping[str, object]) -> None:
        """Forgets all others."""
        for name in [each for each in self._kept if each not in connectors]:
            del self._kept[name]
