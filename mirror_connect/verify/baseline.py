"""Where both logs stood when following began: what comes to the target from there on has to be accounted for.

The order of the questions makes the answers true for a link that is running: first its position, then the target's end,
then the source's. What the position covers is below the target's end; and if the source ends at the position even
afterwards, nothing else of it is there. A partition of which nothing was copied yet and whose copy is empty begins so,
too, however much is waiting at the source.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from mirror_connect.kafka_io.consumer.fetched import SourcePartition
from mirror_connect.verify.link import Link
from mirror_connect.verify.place import EARLIEST, LATEST, CannotCompareError, Key
from mirror_connect.verify.placing import Piece
from mirror_connect.verify.plan import Topics, topics_of
from mirror_connect.verify.reading import ClusterReader

_RESET: Final = "auto.offset.reset"
# So many offsets behind the position are looked at.
_MARKERS: Final = 4
_MARKERS_BYTES: Final = 16 << 10


class TargetEnd(NamedTuple):
    """`at_rest`: the copies of what comes at the source from now on come from `offset` on, and none before."""

    offset: int
    at_rest: bool


class Untouched(NamedTuple):
    """Where both logs of a partition stood of which the link had no position. `certain`: that they belong together."""

    source: int
    target: int
    certain: bool


class Baselines:
    """Of one link, by the readers of both clusters. Errors are those of ClusterReader.offsets and topic_ids."""

    def __init__(self, link: Link, source: ClusterReader, target: ClusterReader) -> None:
        self._link = link
        self._source = source
        self._target = target
        self._topics: Topics | None = None
        self._untouched: dict[Key, Untouched] = {}

    async def target_ends(self, following: Mapping[Key, int]) -> dict[Key, TargetEnd]:
        """Of partitions of which all source records below `following` are on the target: that has to be known before."""
        remotes = self._remotes(following)
        ends, whole = await self._ends_of(remotes.values())
        last = await self._source.offsets(dict.fromkeys(following, LATEST))
        found = {}
        for key, remote in remotes.items():
            at_rest = remote in whole and await self._is_end(key, following[key], last[key] or 0)
            found[key] = TargetEnd(ends[remote], at_rest)
        return found

    async def look_at_untouched(self, told: Collection[Key]) -> None:
        """Learns where partitions begin of which the link has told no position yet: asked before, `told` are the others."""
        try:
            self._topics = await topics_of(self._link)
        except CannotCompareError:
            return  # they are found as they come
        ours, theirs, _ = self._topics
        keys = [(topic, number) for topic in ours for number in range(ours[topic]) if (topic, number) not in told]
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
            # Either nothing was written to the one, or there was nothing in the other.
            certain = (remotes[key] in whole or remotes[key] not in ends) and (end == 0 or last[key] == 0)
            self._untouched[key] = Untouched(first[key] or 0, end, certain and self._from_the_beginning)

    def untouched(self, key: Key) -> Untouched | None:
        """Where a partition that is heard of only now began on both sides; None where nobody has looked."""
        if key in self._untouched or self._topics is None:
            return self._untouched.get(key)
        ours, theirs, _ = self._topics
        # Made on both sides meanwhile.
        remote = self._link.remote_topic(key[0])
        made = key[1] >= ours.get(key[0], 0) and key[1] >= theirs.get(remote, 0)
        return Untouched(0, 0, self._from_the_beginning) if made else None

    @property
    def _from_the_beginning(self) -> bool:
        """Whether the link copies all of what it has no position of; else it may begin anywhere."""
        return self._link.source.consumer.get(_RESET, "earliest") == "earliest"

    async def _is_end(self, key: Key, offset: int, end: int) -> bool:
        """Whether the source has no data from there on; the markers of the last transactions may follow."""
        if not offset < end <= offset + _MARKERS:
            return offset == end
        chunk = await self._source.look(SourcePartition(*key), offset, most=_MARKERS_BYTES)
        if chunk is None or chunk.next_offset < end:
            return False
        return Piece(chunk, offset, committed=self._source.committed).first is None

    def _remotes(self, keys: Iterable[Key]) -> dict[Key, Key]:
        return {key: (self._link.remote_topic(key[0]), key[1]) for key in keys}

    async def _ends_of(self, remotes: Iterable[Key]) -> tuple[dict[Key, int], set[Key]]:
        """The ends as readers see them, and of which partitions no open transaction hides anything behind."""
        remotes = list(remotes)
        ends = await self._target.offsets(dict.fromkeys(remotes, LATEST))
        # Asked later: what a transaction wrote whose marker isn't everywhere yet would come to light behind the end.
        whole = await self._target.offsets(dict.fromkeys(remotes, LATEST), open_too=True)
        return {key: end or 0 for key, end in ends.items()}, {key for key in remotes if ends[key] == whole[key]}
