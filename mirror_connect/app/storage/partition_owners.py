"""Which task of a connector each source partition is given to, and since when no other task is.

A worker gives a task only partitions that no other task may still write to. Other workers tell how far they have followed
the config topic. So the offsets of the commits at which a partition moved decide whom a task has to wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from mirror_connect.connectors.mirror.assignment import stored_partitions
from mirror_connect.connectors.partitions import TopicPartition


class Owner(NamedTuple):
    """The last task that a partition was given to.

    `since`: from this commit on it was given to no other task. `until`: the commit that took it away; None: it has it.
    """

    task: int
    since: int
    until: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionOwners:
    """Of one connector, at the commit of its task configs at the offset `commit`, or at its deletion there.

    `first`: the first commit that is known. What was before it is unknown, because compaction removes old commits.
    `given`: the partitions of each task.
    """

    commit: int
    first: int
    given: tuple[frozenset[TopicPartition], ...] = ()
    _texts: tuple[str, ...] = field(default=(), repr=False)
    _owners: Mapping[TopicPartition, Owner] = field(default_factory=dict, repr=False)

    def following(self, commit: int, texts: Sequence[str]) -> PartitionOwners:
        """These at the next commit; `texts`: the assigned partitions of each task, as its config has them."""
        if tuple(texts) == self._texts:
            return PartitionOwners(commit, self.first, self.given, self._texts, self._owners)
        owners, given = dict(self._owners), list(self.given[: len(texts)])
        changed = [
            task
            for task in range(max(len(texts), len(self._texts)))
            if task >= len(texts) or task >= len(self._texts) or texts[task] != self._texts[task]
        ]
        for task in changed:
            for partition in self.given[task] if task < len(self.given) else ():
                if (owner := owners[partition]).task == task and owner.until is None:
                    owners[partition] = owner._replace(until=commit)
        for task in changed:
            if task < len(texts):
                partitions = frozenset(stored_partitions(texts[task]))
                given[task : task + 1] = [partitions]
                for partition in partitions:
                    owners[partition] = self._owner(task, owners.get(partition))
        return PartitionOwners(commit, self.first, tuple(given), tuple(texts), MappingProxyType(owners))

    def _owner(self, task: int, last: Owner | None) -> Owner:
        if last is None:
            return Owner(task, self.first)
        if last.task == task:
            return Owner(task, last.since)
        # One config alone should name a partition; if two do, the first one has it.
        return last if last.until is None else Owner(task, last.until)

    def since(self, task: int, partition: TopicPartition) -> int | None:
        """From which commit on the partition was given to no other task; None if this task is not given it."""
        owner = self._owners.get(partition)
        return owner.since if owner is not None and owner.task == task and owner.until is None else None

    def has_given(self, task: int, partitions: frozenset[TopicPartition]) -> bool:
        """Whether the configs give the task all of these."""
        return partitions <= (self.given[task] if task < len(self.given) else frozenset())


def first_owners(commit: int, texts: Sequence[str] = ()) -> PartitionOwners:
    """At the first commit that is known of a connector, or at its deletion."""
    return PartitionOwners(commit, commit).following(commit, texts)
