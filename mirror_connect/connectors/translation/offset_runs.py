"""Runs: where consecutive upstream offsets became consecutive downstream ones, as the source task saw it.

Offset syncs say little (docs/decisions/0010), so every run of a partition is kept in a compacted topic of our own, of
one partition, on the target. A record of it is a *segment* of up to 256 runs; a partition has a ring of 256 of them.
Reading them is offset_run_index.py.

An *incarnation* is one life of source and target topic: offsets of different ones have nothing to do with each other.
A *rewind* is an upstream offset below the reach (the highest one ever mirrored): a repeat after a crash, or positions
set back. It makes a new run of the same incarnation.

Contract: segments are durable before the positions that belong to them are committed, and a task says when it has
caught up with what the source held as it began. A crash then leaves unrecorded copies only of what is read again.
Where positions had to be committed without them, the next task finds what MirrorMaker would have left: positions that
have moved on beyond the runs. Nothing is skipped; what was mirrored so has only a floor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from mirror_connect.connectors.records.binary_records import INT16, INT32, INT64, Reader, text_bytes, varint_bytes
from mirror_connect.connectors.replication_policy import DefaultReplicationPolicy

RUNS_IN_SEGMENT: Final = 256
SLOTS: Final = 256
NO_ID: Final = bytes(16)
# No log gets so far, and what readers compute of it stays within 64 bits.
_MOST: Final = 2**62
# No partition fills so many; behind it the numbers begin anew, as an incarnation does.
_LAST_SEGMENT: Final = 2**62
_VERSION: Final = 0
_LINKED: Final = 1
_UNSURE: Final = 2
_SETTLED: Final = 4


class Run(NamedTuple):
    """Upstream offsets upstream…upstream+length-1 lie at downstream….

    `linked`: nothing between the end of the run before and this one was or will be mirrored (control records, aborted,
    compacted or lost ones). `unsure`: what lies downstream between the two may hold copies that nobody has recorded.
    `settled`: at its end all such copies are known to have been mirrored again.
    """

    upstream: int
    downstream: int
    length: int
    linked: bool = False
    unsure: bool = False
    settled: bool = False


@dataclass(slots=True)
class Standing:
    """Where the runs of an incarnation have got to: end of the newest one, and the reach.

    `owed`: a crash may have left copies of up to so many records beyond the reach that no run tells of. Until as many
    have been mirrored again, those copies are the only ones; all of them lie at `floor` or behind it.
    """

    upstream: int = 0
    downstream: int = 0
    reach: int = 0
    owed: int = 0
    floor: int = 0

    def add(self, run: Run) -> None:
        """One more run, or the rest of a run whose beginning has been added."""
        if run.unsure:
            if not self.owed:
                self.floor = self.downstream
            self.owed = max(self.owed, run.downstream - self.downstream)
        self.upstream, self.downstream = run.upstream + run.length, run.downstream + run.length
        if self.upstream > self.reach:
            self.owed = max(0, self.owed - (self.upstream - max(run.upstream, self.reach)))
            self.reach = self.upstream
        if run.settled:
            self.owed = 0
        if not self.owed:
            self.floor = 0


@dataclass(frozen=True, slots=True)
class Segment:
    """A record of the topic. `number` counts on through incarnations, `since` is the incarnation's first.

    `before`: how things stood before the first run here. Ids are the topics' (16 bytes, NO_ID if unknown).
    """

    topic: str
    partition: int
    number: int
    since: int
    source_id: bytes
    target_id: bytes
    before: Standing
    runs: tuple[Run, ...]

    def key(self) -> bytes:
        """Version, topic, partition, slot of the ring."""
        return (
            INT16.pack(_VERSION) + text_bytes(self.topic) + INT32.pack(self.partition) + INT32.pack(self.number % SLOTS)
        )

    def value(self) -> bytes:
        """Version, number, ids; then varints: how it stood, number of runs, and each run by its gaps and its length."""
        before = self.before
        out = [INT16.pack(_VERSION), INT64.pack(self.number), self.source_id, self.target_id]
        head = [
            self.number - self.since,
            before.upstream,
            before.downstream,
            before.reach - before.upstream,
            before.owed,
        ]
        if before.owed:
            head.append(before.downstream - before.floor)
        out += map(varint_bytes, (*head, len(self.runs)))
        upstream, downstream = before.upstream, before.downstream
        for run in self.runs:
            begins, lies, length, linked, unsure, settled = run
            gap, skipped = begins - upstream, lies - downstream
            flags = _LINKED * linked | _UNSURE * unsure | _SETTLED * settled
            first = (gap << 1 if gap >= 0 else (-gap << 1) - 1) << 3 | flags
            if first | skipped | length < 0x80:
                # What transactions of few records make: nearly all runs there are, so it has a short way.
                out.append(bytes((first, skipped, length)))
            else:
                out += (varint_bytes(first), varint_bytes(skipped), varint_bytes(length))
            upstream, downstream = begins + length, lies + length
        return b"".join(out)

    @classmethod
    def decode(cls, key: bytes | None, value: bytes | None) -> Segment:
        """The inverse; UnreadableRecord for anything else, an unknown version too: the caller skips it."""
        names, data = Reader(key, "key of offset runs"), Reader(value, "value of offset runs")
        names.version(_VERSION)
        topic, partition, slot = names.topic(), names.partition(), names.int32()
        data.version(_VERSION)
        number, source_id, target_id = data.int64(), data.raw(16), data.raw(16)
        since = number - data.varint()
        upstream, downstream = data.varint(), data.varint()
        before = Standing(upstream, downstream, upstream + data.varint(), data.varint())
        if before.owed:
            before.floor = downstream - data.varint()
        count = data.varint()
        if max(upstream, downstream, before.reach, before.owed) > _MOST or before.floor < 0:
            raise data.unreadable("an offset that none can be")
        if since < 0 or number > _LAST_SEGMENT or slot != number % SLOTS or count > RUNS_IN_SEGMENT:
            raise data.unreadable(f"segment {number} since {since} with {count} runs in slot {slot}")
        runs = []
        for _ in range(count):
            head, skipped, length = data.varint(), data.varint(), data.varint()
            gap = head >> 3
            upstream += -((gap + 1) >> 1) if gap & 1 else gap >> 1
            downstream += skipped
            if upstream < 0 or length < 1 or max(upstream, downstream) + length > _MOST:
                raise data.unreadable(f"a run of {length} records at {upstream}")
            flags = (bool(head & flag) for flag in (_LINKED, _UNSURE, _SETTLED))
            runs.append(Run(upstream, downstream, length, *flags))
            upstream, downstream = upstream + length, downstream + length
        return cls(topic, partition, number, since, source_id, target_id, before, tuple(runs))


def offset_runs_topic(policy: DefaultReplicationPolicy, source_alias: str) -> str:
    """On the target. Internal by MirrorMaker's own rule, so that nobody mirrors it."""
    separator = policy.internal_separator
    return f"mm2-offset-runs{separator}{source_alias}{separator}internal"


class RunRecorder:
    """One partition's runs as its source task sees them acknowledged."""

    def __init__(self, topic: str, partition: int, source_id: bytes = NO_ID, target_id: bytes = NO_ID) -> None:
        self._current = Segment(topic, partition, 0, 0, source_id, target_id, Standing(), ())
        self._runs: list[Run] = []
        self._standing = Standing()
        self._finished: list[Segment] = []
        self._dirty = False
        self._first = True
        self._reading_from: int | None = None

    def resume(self, newest: Segment | None, reading_from: int | None = None) -> None:
        """Before anything is acked: the newest segment that an earlier task left (RunIndex.newest), if there is one.

        `reading_from`: the upstream offset that the committed position tells the task to begin at; None if none was
        ever committed.
        """
        self._reading_from = reading_from
        if newest is None:
            return
        ours = self._current
        if ids_differ(ours.source_id, newest.source_id) or ids_differ(ours.target_id, newest.target_id):
            kept = not ids_differ(ours.target_id, newest.target_id)
            last = _standing_after(newest)
            self._standing = Standing(downstream=last.downstream if kept else 0)
            number = _following(newest.number)
            self._current = replace(ours, number=number, since=number, before=replace(self._standing))
            return
        source_id = newest.source_id if ours.source_id == NO_ID else ours.source_id
        target_id = newest.target_id if ours.target_id == NO_ID else ours.target_id
        self._current = replace(newest, source_id=source_id, target_id=target_id, runs=())
        self._runs = list(newest.runs)
        self._standing = _standing_after(newest)

    def acked(self, upstream: int, count: int, downstream: int, *, linked: bool = True) -> None:
        """Records upstream…upstream+count-1 are durable at downstream….

        `linked`: this task has itself seen that nothing between the records acked before (or where it began) and these
        is mirrored.
        """
        if downstream < self._standing.downstream:
            # The target has lost records: what is known of where they were is worth nothing.
            self._new_segment(Standing(), new_incarnation=True)
        at = self._standing
        if self._runs and (upstream, downstream) == (at.upstream, at.downstream):
            begins, lies, length, *flags = self._runs[-1]
            self._runs[-1] = Run(begins, lies, length + count, *flags)
            if upstream == at.reach and not at.owed:
                # `Standing.add` for what nearly always is.
                at.upstream = at.reach = upstream + count
                at.downstream = downstream + count
            else:
                at.add(Run(upstream, downstream, count))
        else:
            run = Run(upstream, downstream, count, *self._flags(upstream, downstream, linked))
            if len(self._runs) == RUNS_IN_SEGMENT:
                self._new_segment(replace(at))
            self._runs.append(run)
            self._standing.add(run)
        self._first, self._dirty = False, True

    def acked_runs(self, runs: Sequence[tuple[int, int]], downstream: int, *, linked: bool = True) -> None:
        """The same for a batch with gaps upstream: (upstream, count) of each run; downstream they are dense.

        Nothing in the gaps is mirrored. `linked` is about the first run.
        """
        upstream, count = runs[0]
        self.acked(upstream, count, downstream, linked=linked)
        downstream += count
        ended = upstream + count
        kept, room = self._runs, self._room()
        for upstream, count in runs[1:]:
            if room > 0 and upstream > ended:
                # `acked` for what nearly always is: further on, on both sides.
                kept.append(Run(upstream, downstream, count, True))
                room -= 1
                ended = upstream + count
            else:
                self._stand_at(ended, downstream)
                self.acked(upstream, count, downstream)
                kept, room, ended = self._runs, self._room(), upstream + count
            downstream += count
        self._stand_at(ended, downstream)

    def _room(self) -> int:
        """How many runs that lie further on can simply be added."""
        at = self._standing
        return 0 if at.owed or at.upstream != at.reach else RUNS_IN_SEGMENT - len(self._runs)

    def _stand_at(self, upstream: int, downstream: int) -> None:
        at = self._standing
        at.upstream, at.downstream, at.reach = upstream, downstream, max(at.reach, upstream)

    def topics_are(self, source_id: bytes, target_id: bytes) -> None:
        """The ids that the topics have now. Others than before, and a new incarnation begins with the next records."""
        ours = self._current
        if ids_differ(ours.source_id, source_id) or ids_differ(ours.target_id, target_id):
            kept = not ids_differ(ours.target_id, target_id)
            downstream = self._standing.downstream if kept else 0
            self._new_segment(Standing(downstream=downstream), new_incarnation=True)
        self._current = replace(
            self._current,
            source_id=ours.source_id if source_id == NO_ID else source_id,
            target_id=ours.target_id if target_id == NO_ID else target_id,
        )

    @property
    def owes(self) -> bool:
        """Whether copies may be the only ones that no run tells of, until `caught_up`."""
        return self._standing.owed > 0

    def caught_up(self) -> None:
        """This task has mirrored or passed over all that the source held when it began: no copy is the only one now."""
        if self._standing.owed and self._runs:
            self._runs[-1] = self._runs[-1]._replace(settled=True)
            self._standing.owed = self._standing.floor = 0
            self._dirty = True

    def changed(self) -> list[tuple[bytes, bytes]]:
        """Key and value of each record to write, in order; only what has changed since this was last asked."""
        segments = [*self._finished, self._segment()] if self._dirty else self._finished
        self._finished, self._dirty = [], False
        return [(segment.key(), segment.value()) for segment in segments]

    def _flags(self, upstream: int, downstream: int, linked: bool) -> tuple[bool, bool]:
        at, number = self._standing, self._current.number
        skipped = downstream - at.downstream
        if not self._runs and number == self._current.since:
            # The first run of an incarnation. Where positions were committed without runs, someone else has mirrored.
            ours = self._first and (self._reading_from is None or number > 0)
            return False, ours and skipped > 0
        # Nothing lies between downstream and nothing beyond: then nothing of what was passed over is on the target.
        linked_by_place = not skipped and at.upstream == at.reach
        if not self._first:
            return linked or linked_by_place, False
        begun = upstream if self._reading_from is None else self._reading_from
        # Someone else has moved positions on beyond our runs: what is in between is not known from here.
        return (linked and begun <= at.upstream) or linked_by_place, skipped > 0

    def _segment(self) -> Segment:
        return replace(self._current, runs=tuple(self._runs))

    def _new_segment(self, before: Standing, *, new_incarnation: bool = False) -> None:
        if self._dirty:
            self._finished.append(self._segment())
        number = _following(self._current.number)
        since = number if new_incarnation or not number else self._current.since
        self._current = replace(self._current, number=number, since=since, before=before, runs=())
        self._standing = replace(before)
        self._runs = []


def _following(number: int) -> int:
    return number + 1 if number < _LAST_SEGMENT else 0


def _standing_after(segment: Segment) -> Standing:
    standing = replace(segment.before)
    for run in segment.runs:
        standing.add(run)
    return standing


def ids_differ(ours: bytes, found: bytes) -> bool:
    """Whether two topic ids are those of different topics; one that is unknown never is."""
    return NO_ID not in (ours, found) and ours != found
