"""Offset ranges: where consecutive upstream offsets became consecutive downstream ones, as the source task saw it.

Offset syncs hold too little for an exact translation (docs/decisions/0010). So every range of a partition is kept in a
compacted topic of our own on the target, which has one partition. A record of it is a *segment* of up to 256 ranges. A
partition has a ring of 256 segments. offset_range_index.py reads them.

An *incarnation* is one life of source and target topic: offsets of different incarnations are unrelated. A *rewind* is
an upstream offset below the reach, which is the highest offset ever mirrored. It happens after a crash, or when source
offsets were reset. It begins a new range of the same incarnation.

An incarnation begins with a *start*: the upstream offset where the task began to read. The state before its first segment
holds it. So the offsets from there to the first mirrored record are known to have no record on the target. A segment without
ranges says that all offsets from the start on are dropped so far. The start is not known if another copier was there
before, or if a former release of ours wrote the segment.

Contract: segments are durable before the source offsets of their records are committed. A task calls `caught_up` when
it has copied what the source held at the task's start. Then a crash leaves unrecorded copies only of records that are
read again. If source offsets had to be committed without their segments, the next task finds them ahead of the ranges,
as MirrorMaker would leave them. Nothing is skipped; the records in between have only a floor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from operator import add, sub
from typing import Final, NamedTuple

from mirror_connect.connectors.records.binary import INT16, INT32, INT64, Reader, text_bytes, varint_bytes
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy

RANGES_IN_SEGMENT: Final = 256
SLOTS: Final = 256
NO_ID: Final = bytes(16)
# No log gets so far, and sums with it stay within 64 bits.
_MOST: Final = 2**62
# No partition fills so many. After it the numbers start again, as for a new incarnation.
_LAST_SEGMENT: Final = 2**62
_VERSION: Final = 0
_LINKED: Final = 1
_UNSURE: Final = 2
_SETTLED: Final = 4
# From here on a varint has a second byte.
_LONG: Final = 0x80
# Of a linked range: the gap from which on its first number takes two bytes; and below it, that number of each gap.
_LONG_GAP: Final = _LONG >> 4
_GAPS_KEPT: Final = 1024
_LINKED_GAPS: Final = bytes((gap << 4 | _LINKED) & 0xFF for gap in range(256))


class OffsetRange(NamedTuple):
    """Upstream offsets upstream…upstream+length-1 are at downstream….

    `linked`: nothing between the previous range and this one was or will be mirrored (control records, aborted,
    compacted or lost records). `unsure`: downstream, unrecorded copies may lie between the two. `settled`: at its end
    all such copies are known to have been mirrored again.
    """

    upstream: int
    downstream: int
    length: int
    linked: bool = False
    unsure: bool = False
    settled: bool = False


@dataclass(slots=True)
class RangeLogState:
    """How far the ranges of an incarnation have got: the end of the newest range, and the reach.

    `owed`: a crash may have left unrecorded copies of up to this many records beyond the reach. Until as many have been
    mirrored again, those copies may be the only ones. All of them are at `floor` or after it.
    """

    upstream: int = 0
    downstream: int = 0
    reach: int = 0
    owed: int = 0
    floor: int = 0

    def add(self, offset_range: OffsetRange) -> None:
        """One more range, or the rest of a range whose beginning was added before."""
        if offset_range.unsure:
            if not self.owed:
                self.floor = self.downstream
            self.owed = max(self.owed, offset_range.downstream - self.downstream)
        self.upstream, self.downstream = (
            offset_range.upstream + offset_range.length,
            offset_range.downstream + offset_range.length,
        )
        if self.upstream > self.reach:
            self.owed = max(0, self.owed - (self.upstream - max(offset_range.upstream, self.reach)))
            self.reach = self.upstream
        if offset_range.settled:
            self.owed = 0
        if not self.owed:
            self.floor = 0


@dataclass(frozen=True, slots=True)
class Segment:
    """A record of the topic. `number` continues across incarnations, `since` is the incarnation's first.

    `before`: the state before the first range of this segment. Ids are the topics' (16 bytes, NO_ID if unknown).
    `remote`: the remote topic if a transformation named it; empty if the policy did.
    """

    topic: str
    partition: int
    number: int
    since: int
    source_id: bytes
    target_id: bytes
    before: RangeLogState
    ranges: tuple[OffsetRange, ...]
    remote: str = ""

    def key(self) -> bytes:
        """Version, topic, partition, slot of the ring."""
        return (
            INT16.pack(_VERSION) + text_bytes(self.topic) + INT32.pack(self.partition) + INT32.pack(self.number % SLOTS)
        )

    def value(self) -> bytes:
        """Version, number, ids; then varints: the state before, the number of ranges, and the gaps and length of each.

        After that the name `remote`, if there is one. Readers that don't know it ignore it.
        """
        return _value(self, _RangeBytes(self.before.upstream, self.before.downstream, self.ranges))

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Segment:
        """The inverse; UnreadableRecord for anything else, an unknown version too: the caller skips it."""
        names, data = Reader(key, "key of offset ranges"), Reader(value, "value of offset ranges")
        names.version(_VERSION)
        topic, partition, slot = names.topic(), names.partition(), names.int32()
        data.version(_VERSION)
        number, source_id, target_id = data.int64(), data.raw(16), data.raw(16)
        since = number - data.varint()
        upstream, downstream = data.varint(), data.varint()
        before = RangeLogState(upstream, downstream, upstream + data.varint(), data.varint())
        if before.owed:
            before.floor = downstream - data.varint()
        count = data.varint()
        if max(upstream, downstream, before.reach, before.owed) > _MOST or before.floor < 0:
            raise data.unreadable("an offset that none can be")
        if since < 0 or number > _LAST_SEGMENT or slot != number % SLOTS or count > RANGES_IN_SEGMENT:
            raise data.unreadable(f"segment {number} since {since} with {count} ranges in slot {slot}")
        ranges = []
        for _ in range(count):
            head, skipped, length = data.varint(), data.varint(), data.varint()
            gap = head >> 3
            upstream += -((gap + 1) >> 1) if gap & 1 else gap >> 1
            downstream += skipped
            if upstream < 0 or length < 1 or max(upstream, downstream) + length > _MOST:
                raise data.unreadable(f"a range of {length} records at {upstream}")
            flags = (bool(head & flag) for flag in (_LINKED, _UNSURE, _SETTLED))
            ranges.append(OffsetRange(upstream, downstream, length, *flags))
            upstream, downstream = upstream + length, downstream + length
        remote = data.topic() if data.more() else ""
        return cls(topic, partition, number, since, source_id, target_id, before, tuple(ranges), remote)


class _RangeBytes:
    """The ranges of a segment that grows, as varints. `count` is how many. Only `last` may still change.

    `upstream`, `downstream`: where the state before the segment ends. `last`: None as long as there is none.
    """

    __slots__ = ("_downstream", "_earlier", "_upstream", "count", "last")

    def __init__(self, upstream: int, downstream: int, ranges: Iterable[OffsetRange] = ()) -> None:
        # All but the last, and where they end.
        self._earlier = bytearray()
        self._upstream, self._downstream = upstream, downstream
        self.count = 0
        self.last: OffsetRange | None = None
        for each in ranges:
            self.append(each)

    def append(self, offset_range: OffsetRange) -> None:
        """One more range."""
        self._keep_last()
        self.last = offset_range
        self.count += 1

    def append_linked(self, ranges: Sequence[tuple[int, int]]) -> int:
        """The same for linked ones that are dense downstream, as (upstream, count). 0: one of them has no gap before it.

        Returns how many records they have. There is a range already. Compacted topics have a range for each few records. So
        no object and no turn of a loop in Python is for one range.
        """
        assert self.last is not None
        upstreams: tuple[int, ...]
        counts: tuple[int, ...]
        upstreams, counts = zip(*ranges, strict=True)
        ends = map(add, (self.last.upstream, *upstreams), (self.last.length, *counts))
        gaps = list(map(sub, upstreams, ends))
        if min(gaps) <= 0:
            return 0
        self._keep_last()
        self._earlier += _linked_bytes(gaps[:-1], counts[:-1])
        records = sum(counts)
        dense = records - counts[-1]
        self.last = OffsetRange(upstreams[-1], self._downstream + dense, counts[-1], linked=True)
        self._upstream, self._downstream = upstreams[-1] - gaps[-1], self._downstream + dense
        self.count += len(ranges)
        return records

    def value(self) -> bytes:
        """The number of ranges, and all of them."""
        newest = b"" if self.last is None else _range_bytes(self.last, self._upstream, self._downstream)
        return b"".join((varint_bytes(self.count), self._earlier, newest))

    def _keep_last(self) -> None:
        last = self.last
        if last is not None:
            self._earlier += _range_bytes(last, self._upstream, self._downstream)
            self._upstream, self._downstream = last.upstream + last.length, last.downstream + last.length


def _value(segment: Segment, ranges: _RangeBytes) -> bytes:
    """See Segment.value; the segment's own ranges do not count."""
    before = segment.before
    head = [
        segment.number - segment.since,
        before.upstream,
        before.downstream,
        before.reach - before.upstream,
        before.owed,
    ]
    if before.owed:
        head.append(before.downstream - before.floor)
    ids = (INT16.pack(_VERSION), INT64.pack(segment.number), segment.source_id, segment.target_id)
    behind = text_bytes(segment.remote) if segment.remote else b""
    return b"".join((*ids, *map(varint_bytes, head), ranges.value(), behind))


def _range_bytes(offset_range: OffsetRange, upstream: int, downstream: int) -> bytes:
    """As varints. `upstream`, `downstream`: where the range before it ends."""
    begins, lies, length, linked, unsure, settled = offset_range
    gap, skipped = begins - upstream, lies - downstream
    flags = _LINKED * linked | _UNSURE * unsure | _SETTLED * settled
    first = (gap << 1 if gap >= 0 else (-gap << 1) - 1) << 3 | flags
    if first | skipped | length < _LONG:
        # Nearly all ranges come from transactions of few records and fit this short form.
        return bytes((first, skipped, length))
    return varint_bytes(first) + varint_bytes(skipped) + varint_bytes(length)


def _linked_bytes(gaps: Sequence[int], counts: Sequence[int]) -> bytes | bytearray:
    """As `_range_bytes` of linked ranges with these gaps before them, which are dense downstream."""
    if not gaps:
        return b""
    if max(gaps) < _LONG_GAP and max(counts) < _LONG:
        found = bytearray(3 * len(gaps))
        found[::3] = bytes(gaps).translate(_LINKED_GAPS)
        found[2::3] = bytes(counts)
        return found
    return b"".join(chain.from_iterable(zip(map(_linked_head, gaps), map(_count, counts), strict=True)))


@lru_cache(_GAPS_KEPT)
def _linked_head(gap: int) -> bytes:
    return varint_bytes(gap << 4 | _LINKED) + b"\0"


_count = lru_cache(_GAPS_KEPT)(varint_bytes)


def offset_ranges_topic(policy: DefaultReplicationPolicy, source_alias: str) -> str:
    """The topic on the target. It is internal by MirrorMaker's rule, so that no MirrorMaker copies it."""
    separator = policy.internal_separator
    return f"mm2-offset-runs{separator}{source_alias}{separator}internal"


class RangeRecorder:
    """One partition's ranges, recorded as the target acknowledges them. `remote`: see Segment."""

    def __init__(
        self, topic: str, partition: int, source_id: bytes = NO_ID, target_id: bytes = NO_ID, remote: str = ""
    ) -> None:
        self._current = Segment(topic, partition, 0, 0, source_id, target_id, RangeLogState(), (), remote)
        self._ranges = _RangeBytes(0, 0)
        self._state = RangeLogState()
        # Key and value of each.
        self._finished: list[tuple[bytes, bytes]] = []
        self._dirty = False
        self._first = True
        self._reading_from: int | None = None
        # Whether source offsets were committed before this task.
        self._committed = False
        # Whether the incarnation has a start, see above, and whether an earlier task has written it.
        self._started = self._start_written = False

    def resume(self, newest: Segment | None, reading_from: int | None = None) -> None:
        """Continues, before anything is acked, from the newest segment of an earlier task (RangeIndex.newest), if any.

        `reading_from`: the upstream offset at which the task begins, by the committed source offset; None if none was
        ever committed.
        """
        self._reading_from = reading_from
        self._committed = reading_from is not None
        if newest is None:
            return
        ours = self._current
        kept = not targets_differ(ours, newest)
        if not kept or ids_differ(ours.source_id, newest.source_id):
            last = _state_after(newest)
            self._state = RangeLogState(downstream=last.downstream if kept else 0)
            number = _following(newest.number)
            self._begin(replace(ours, number=number, since=number, before=replace(self._state)))
            if reading_from is not None:
                self._start(reading_from)
            return
        source_id = newest.source_id if ours.source_id == NO_ID else ours.source_id
        target_id = newest.target_id if ours.target_id == NO_ID else ours.target_id
        self._begin(replace(newest, source_id=source_id, target_id=target_id, ranges=()), newest.ranges)
        self._state = _state_after(newest)
        self._started = self._start_written = self._fresh
        if self._started and reading_from is not None and reading_from < self._state.upstream:
            self._start(reading_from)

    def begins(self, upstream: int) -> None:
        """The task reads from this offset on: no source offset was committed, or only one of another topic of the same name.

        In the latter case `topics_are` or `resume` is called first.
        """
        if self._first:
            self._reading_from = upstream
        known = self._started and upstream >= self._state.upstream
        # Source offsets without ranges: another copier has mirrored what may be in front.
        foreign = self._committed and not self._current.number
        if self._fresh and not known and not foreign:
            self._start(upstream)

    def passed(self) -> None:
        """A source offset beyond the start is about to be committed: the start is written, if there are no ranges."""
        self._dirty = self._dirty or (self._fresh and self._started and not self._start_written)

    def acked(self, upstream: int, count: int, downstream: int, *, linked: bool = True) -> None:
        """Records upstream…upstream+count-1 are durable at downstream….

        `linked`: this task has itself seen that nothing between the records acked before (or where it began) and these
        is mirrored.
        """
        if downstream < self._state.downstream:
            # The target has lost records: their recorded offsets are useless.
            self._new_target()
        elif not downstream and self._first and self._reading_from is not None and self._fresh and not self._started:
            # No other copier has mirrored anything, although there were source offsets.
            self._start(self._reading_from)
        at = self._state
        last = self._ranges.last
        if last is not None and (upstream, downstream) == (at.upstream, at.downstream):
            begins, lies, length, *flags = last
            self._ranges.last = OffsetRange(begins, lies, length + count, *flags)
            if upstream == at.reach and not at.owed:
                # `RangeLogState.add` for nearly all calls.
                at.upstream = at.reach = upstream + count
                at.downstream = downstream + count
            else:
                at.add(OffsetRange(upstream, downstream, count))
        else:
            if self._started and self._fresh and upstream < at.upstream:
                self._start(upstream)
                at = self._state
            offset_range = OffsetRange(upstream, downstream, count, *self._flags(upstream, downstream, linked))
            if self._started and self._fresh and not offset_range.linked:
                # In one segment with the start 0, it would look like a range in front of which nothing is known.
                self._dirty = True
                self._new_segment(replace(at))
            elif self._ranges.count == RANGES_IN_SEGMENT:
                self._new_segment(replace(at))
            self._ranges.append(offset_range)
            self._state.add(offset_range)
        self._first, self._dirty = False, True

    def acked_ranges(self, ranges: Sequence[tuple[int, int]], downstream: int, *, linked: bool = True) -> int:
        """The same for a batch with gaps upstream: (upstream, count) of each range; downstream they are dense.

        Nothing in the gaps is mirrored. `linked` is about the first range. Returns where they end downstream.
        """
        number = 0
        while number < len(ranges):
            part = ranges[number : number + self._room()] if number else ()
            if part and (records := self._ranges.append_linked(part)):
                downstream += records
                self._set_end(sum(part[-1]), downstream)
                number += len(part)
            else:
                upstream, count = ranges[number]
                self.acked(upstream, count, downstream, linked=linked or number > 0)
                downstream += count
                number += 1
        return downstream

    def _room(self) -> int:
        """How many ranges that follow can simply be added."""
        at = self._state
        return 0 if at.owed or at.upstream != at.reach else RANGES_IN_SEGMENT - self._ranges.count

    def _set_end(self, upstream: int, downstream: int) -> None:
        at = self._state
        at.upstream, at.downstream, at.reach = upstream, downstream, max(at.reach, upstream)

    def topics_are(self, source_id: bytes, target_id: bytes) -> None:
        """Sets the topics' present ids. If one has changed, a new incarnation begins with the next records."""
        ours = self._current
        if ids_differ(ours.source_id, source_id) or ids_differ(ours.target_id, target_id):
            if ids_differ(ours.source_id, source_id):
                kept = not ids_differ(ours.target_id, target_id)
                downstream = self._state.downstream if kept else 0
                self._new_segment(RangeLogState(downstream=downstream), new_incarnation=True)
            else:
                self._new_target()
        self._current = replace(
            self._current,
            source_id=ours.source_id if source_id == NO_ID else source_id,
            target_id=ours.target_id if target_id == NO_ID else target_id,
        )

    @property
    def owes(self) -> bool:
        """Whether unrecorded copies may be the only ones of their records, until `caught_up`."""
        return self._state.owed > 0

    def caught_up(self) -> None:
        """The task has copied all that the source held at its start: now no unrecorded copy is the only one."""
        if self._state.owed and self._ranges.last is not None:
            self._ranges.last = self._ranges.last._replace(settled=True)
            self._state.owed = self._state.floor = 0
            self._dirty = True

    def changed(self) -> list[tuple[bytes, bytes]]:
        """Key and value of each record to write, in order; only changes since the last call."""
        records = self._finished
        if self._dirty:
            records.append(self._record())
        self._finished, self._dirty = [], False
        return records

    def _flags(self, upstream: int, downstream: int, linked: bool) -> tuple[bool, bool]:
        at = self._state
        skipped = downstream - at.downstream
        if self._fresh and not self._started:
            # Source offsets without ranges: another copier has mirrored.
            ours = self._first and (self._reading_from is None or self._current.number > 0)
            return False, ours and skipped > 0
        # Nothing is between them downstream, and nothing beyond: no record in between is on the target.
        linked_by_offsets = not skipped and at.upstream == at.reach
        if not self._first:
            return linked or linked_by_offsets, False
        begun = upstream if self._reading_from is None else self._reading_from
        # Another copier has committed source offsets beyond our ranges: the offsets in between are unknown here.
        return (linked and begun <= at.upstream) or linked_by_offsets, skipped > 0

    @property
    def _fresh(self) -> bool:
        """Whether the incarnation has no ranges yet."""
        return self._ranges.last is None and self._current.number == self._current.since

    def _start(self, upstream: int) -> None:
        state = RangeLogState(upstream, self._state.downstream, upstream)
        self._begin(replace(self._current, before=replace(state)))
        self._state, self._started, self._start_written = state, True, False

    def _new_target(self) -> None:
        """A new incarnation, at the same place in the source."""
        start = self._reading_from if self._first else self._state.upstream
        self._new_segment(RangeLogState(), new_incarnation=True)
        if start is not None:
            self._start(start)

    def _record(self) -> tuple[bytes, bytes]:
        return self._current.key(), _value(self._current, self._ranges)

    def _begin(self, segment: Segment, ranges: Iterable[OffsetRange] = ()) -> None:
        self._current = segment
        self._ranges = _RangeBytes(segment.before.upstream, segment.before.downstream, ranges)

    def _new_segment(self, before: RangeLogState, *, new_incarnation: bool = False) -> None:
        if self._dirty:
            self._finished.append(self._record())
        number = _following(self._current.number)
        since = number if new_incarnation or not number else self._current.since
        self._started = self._started and since != number
        self._begin(replace(self._current, number=number, since=since, before=before, ranges=()))
        self._state = replace(before)


def _following(number: int) -> int:
    return number + 1 if number < _LAST_SEGMENT else 0


def _state_after(segment: Segment) -> RangeLogState:
    state = replace(segment.before)
    for offset_range in segment.ranges:
        state.add(offset_range)
    return state


def targets_differ(ours: Segment, found: Segment) -> bool:
    """Whether these lead into different topics on the target. Of brokers without topic ids only names are known."""
    return ours.remote != found.remote or ids_differ(ours.target_id, found.target_id)


def ids_differ(ours: bytes, found: bytes) -> bool:
    """Whether these are the ids of different topics; an unknown id (NO_ID) differs from none."""
    return NO_ID not in (ours, found) and ours != found
