"""The ends of both logs when sampling began: every later record on the target must be a copy.

The order of the requests makes the answers true for a running link: its source offset, then the target's end, then the
source's end. The copies up to the source offset are below the target's end. If the source still ends there afterwards,
the target has no other copies. The same holds for a partition without a source offset whose copy is empty.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.verify.clusters import EARLIEST, LATEST
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.link import Link
from mirror_connect.verify.offset_pairs import FetchedBatches
from mirror_connect.verify.plan import Topics, topics_of
from mirror_connect.verify.reading import ClusterReader

_RESET: Final = "auto.offset.reset"
# At most so many transaction markers are expected at the end of a source log.
_MARKERS: Final = 4
_MARKERS_BYTES: Final = 16 << 10


class TargetEnd(NamedTuple):
    """The end of a target log. `at_rest`: the copies of all later source records begin at `offset`, none earlier."""

    offset: int
    at_rest: bool


class Untouched(NamedTuple):
    """The offsets where both logs of a partition without a source offset begin. `certain`: they belong together."""

    source: int
    target: int
    certain: bool


class Baselines:
    """The baselines of one link. Errors are those of ClusterReader.offsets and topic_ids."""

    def __init__(self, link: Link, source: ClusterReader, target: ClusterReader) -> None:
        self._link = link
        self._source = source
        self._target = target
        self._topics: Topics | None = None
        self._untouched: dict[TopicPartition, Untouched] = {}

    async def target_ends(self, following: Mapping[TopicPartition, int]) -> dict[TopicPartition, TargetEnd]:
        """The target's ends. The caller knows already that all source records below `following` are on the target."""
        remotes = self._remotes(following)
        ends, whole = await self._ends_of(remotes.values())
        last = await self._source.offsets(dict.fromkeys(following, LATEST))
        found = {}
        for key, remote in remotes.items():
            at_rest = remote in whole and await self._is_end(key, following[key], last[key] or 0)
            found[key] = TargetEnd(ends[remote], at_rest)
        return found

    async def read_untouched(self, known: Collection[TopicPartition]) -> None:
        """Reads where partitions without a source offset begin. `known`: those with one; they were asked for before."""
        try:
            self._topics = await topics_of(self._link)
        except CannotCompareError:
            return  # sampling finds these partitions later
        ours, theirs = self._topics.ours, self._topics.theirs
        keys = [TopicPartition(topic, number) for topic in ours for number in range(ours[topic])]
        keys = [key for key in keys if key not in known]
        remotes = self._remotes(keys)
        await self._source.topic_ids({topic for topic, _ in keys})
        await self._target.topic_ids({topic for topic, _ in remotes.values() if topic in theirs})
        keys = [key for key in keys if self._source.has(key)]
        there = [remotes[key] for key in keys if self._target.has(remotes[key])]
        first = await self._source.offsets(dict.fromkeys(keys, EARLIEST))
        ends, whole = await self._ends_of(there)
        last = await self._source.offsets(dict.fromkeys(keys, LATEST))
        for key in keys:
            end = ends.get(remotes[key], 0)
            # Either the target was empty, or the source was.
            certain = (remotes[key] in whole or remotes[key] not in ends) and (end == 0 or last[key] == 0)
            self._untouched[key] = Untouched(first[key] or 0, end, certain and self._from_the_beginning)

    def untouched(self, key: TopicPartition) -> Untouched | None:
        """The begin of a partition that has its first source offset now; None if it was never read."""
        if key in self._untouched or self._topics is None:
            return self._untouched.get(key)
        ours, theirs = self._topics.ours, self._topics.theirs
        # Created on both sides since.
        remote = self._link.remote_topic(key[0])
        made = key[1] >= ours.get(key[0], 0) and key[1] >= theirs.get(remote, 0)
        return Untouched(0, 0, self._from_the_beginning) if made else None

    @property
    def _from_the_beginning(self) -> bool:
        """Whether the link copies a partition without a source offset from its beginning; else it may begin anywhere."""
        return self._link.source.consumer.get(_RESET, "earliest") == "earliest"

    async def _is_end(self, key: TopicPartition, offset: int, end: int) -> bool:
        """Whether the source has no data from `offset` on. The markers of the last transactions may follow."""
        if not offset < end <= offset + _MARKERS:
            return offset == end
        chunk = await self._source.fetch(key, offset, most=_MARKERS_BYTES)
        if chunk is None or chunk.next_offset < end:
            return False
        return FetchedBatches(chunk, offset, committed=self._source.committed).first is None

    def _remotes(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, TopicPartition]:
        return {key: self._link.remote(key) for key in keys}

    async def _ends_of(
        self, remotes: Iterable[TopicPartition]
    ) -> tuple[dict[TopicPartition, int], set[TopicPartition]]:
        """The ends that readers see, and the partitions where no open transaction hides records after the end."""
        remotes = list(remotes)
        ends = await self._target.offsets(dict.fromkeys(remotes, LATEST))
        # Asked later: a transaction whose marker isn't everywhere yet would show its records after the end.
        whole = await self._target.offsets(dict.fromkeys(remotes, LATEST), open_too=True)
        return {key: end or 0 for key, end in ends.items()}, {key for key in remotes if ends[key] == whole[key]}
