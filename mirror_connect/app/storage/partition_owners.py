"""Which task of a connector each source partition is given to, and since when no other task is.

A worker gives a task only partitions that no other task may still write to. Other workers tell how far they have followed
the config topic. So the offsets of the commits at which a partition moved decide whom a task has to wait for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, NamedTuple

from mirror_connect.connectors.mirror.assignment import stored_partitions
from mirror_connect.connectors.partitions import TopicPartition

# The commit of a connector of which none was read.
NO_COMMIT: Final = -1
Partitions = frozenset[TopicPartition]
_NONE: Partitions = frozenset()


class Former(NamedTuple):
    """The last task that partitions were given to, from `since` to the commit `until`, which took them away."""

    task: int
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class PartitionOwners:
    """Of one connector, at the commit of its task configs at the offset `commit`, or at its deletion there.

    `first`: the first commit that is known. What was before it is unknown, because compaction removes old commits.
    `given`: the partitions of each task; `listed`: the same in the order of its config.
    Partitions with one history are kept as a set, because there may be ten thousand of them: `_owned` are those of each
    task, by the commit from which on no other task was given them, and `_free` those that no task has now.
    """

    commit: int
    first: int
    given: tuple[Partitions, ...] = ()
    listed: tuple[Sequence[TopicPartition], ...] = field(default=(), repr=False)
    _texts: tuple[str, ...] = field(default=(), repr=False)
    _owned: tuple[Mapping[int, Partitions], ...] = field(default=(), repr=False)
    _free: Mapping[Former, Partitions] = field(default_factory=dict, repr=False)

    def following(
        self, commit: int, texts: Sequence[str], read: Mapping[int, Sequence[TopicPartition]] = MappingProxyType({})
    ) -> PartitionOwners:
        """These at the next commit; `texts`: the assigned partitions of each task, as its config has them.

        `read`: the partitions in them, by task, as far as they have been read already.
        """
        if tuple(texts) == self._texts:
            return replace(self, commit=commit)
        count, before = len(texts), len(self._texts)
        changed = [
            task
            for task in range(max(count, before))
            if task >= count or task >= before or texts[task] != self._texts[task]
        ]
        given = [*self.given[:count], *[_NONE] * (count - before)]
        listed = [*self.listed[:count], *[()] * (count - before)]
        owned: list[Mapping[int, Partitions]] = [*self._owned[:count], *[{}] * (count - before)]
        free = dict(self._free)
        for task in changed:
            for since, partitions in self._owned[task].items() if task < before else ():
                free[Former(task, since, commit)] = partitions
            if task < count:
                owned[task] = {}
        # Of all tasks that have been looked at.
        named = set().union(*(given[task] for task in range(count) if task not in changed))
        for task in [each for each in changed if each < count]:
            listed[task] = read[task] if task in read else stored_partitions(texts[task])
            given[task] = frozenset(listed[task])
            # One config alone should name a partition; if two do, the first one has it.
            owned[task] = self._taken(task, given[task] - named, free)
            named |= given[task]
        sets, lists, kept = tuple(given), tuple(listed), MappingProxyType(free)
        return PartitionOwners(commit, self.first, sets, lists, tuple(texts), tuple(owned), kept)

    def _taken(self, task: int, rest: Partitions, free: dict[Former, Partitions]) -> Mapping[int, Partitions]:
        """These, by the commit since which this task alone is given them. What it takes is no longer `free`."""
        found: dict[int, Partitions] = {}
        for former, partitions in list(free.items()):
            if taken := partitions & rest:
                rest -= taken
                since = former.since if former.task == task else former.until
                found[since] = found.get(since, _NONE) | taken
                if left := partitions - taken:
                    free[former] = left
                else:
                    del free[former]
        if rest:
            found[self.first] = found.get(self.first, _NONE) | rest
        return found

    def since(self, task: int, partition: TopicPartition) -> int | None:
        """From which commit on the partition was given to no other task; None if this task is not given it."""
        owned = self._owned[task] if task < len(self._owned) else {}
        return next((since for since, partitions in owned.items() if partition in partitions), None)

    def taken_after(self, task: int, partitions: Partitions, commit: float) -> tuple[Partitions, int]:
        """Which of these others had until after this commit, or the task is not given, and the newest such commit or -1."""
        rest, held, newest = partitions, _NONE, -1
        for since, owned in self._owned[task].items() if task < len(self._owned) else ():
            if owns := rest & owned:
                rest -= owns
                if since > commit:
                    held, newest = held | owns, max(newest, since)
        return held | rest, newest

    def has_given(self, task: int, partitions: Partitions) -> bool:
        """Whether the configs give the task all of these."""
        given = self.given[task] if task < len(self.given) else _NONE
        return partitions is given or partitions <= given

    def has_read(self, task: int, text: str) -> bool:
        """Whether this is the text of the task's config, whose partitions are known here."""
        return task < len(self._texts) and self._texts[task] == text


def first_owners(
    commit: int, texts: Sequence[str] = (), read: Mapping[int, Sequence[TopicPartition]] = MappingProxyType({})
) -> PartitionOwners:
    """At the first commit that is known of a connector, or at its deletion. `read`: see PartitionOwners.following."""
    return PartitionOwners(commit, commit).following(commit, texts, read)
