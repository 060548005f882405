"""One partition's runs in a task: recorded from the moment on that it is known what an earlier task has left.

What is acknowledged before that waits in memory. Topic ids are looked at when a life's first batch is acknowledged, and
where offsets go back: that may be another topic of the same name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final

from mirror_connect.connectors.records.binary_records import INT16, INT32, text_bytes
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.connectors.translation.offset_runs import RunRecorder, Segment

# Acknowledged, and not joined to what was before it, while it isn't known what an earlier task has left.
MOST_EARLY: Final = 10_000

# The ids that source and remote topic have now, NO_ID where that isn't known.
TopicIds = Callable[[TaskPartition], tuple[bytes, bytes]]


class PartitionRuns:
    """One partition of a task. It puts itself into `dirty` when there may be something new to write."""

    def __init__(
        self, partition: TaskPartition, reading_from: int | None, ids: TopicIds, dirty: dict[PartitionRuns, None]
    ) -> None:
        self.partition = partition
        self.key = INT16.pack(0) + text_bytes(partition.topic) + INT32.pack(partition.partition)
        self.recorder: RunRecorder | None = None
        self.caught_up = False
        self._ids_of = ids
        self._dirty = dirty
        self._reading_from = reading_from
        self._known = False
        self._newest: Segment | None = None
        # (upstream, count, downstream, linked) as acknowledged, joined where they follow each other.
        self._early: list[tuple[int, int, int, bool]] = []
        # Ends of what was acknowledged last; before that everything lies lower.
        self._upstream = self._downstream = sys.maxsize
        # The source's end as this life first heard of it.
        self._end: int | None = None
        self._off = False

    def stop(self) -> None:
        """Nobody writes what would be recorded from now on: nothing is, and nothing is kept."""
        self._off = True
        self.recorder = self._newest = None
        self._early.clear()

    def acked(self, upstream: int, count: int, downstream: int, *, linked: bool) -> None:
        """See RunRecorder.acked."""
        if self._off:
            return
        recorder = self.recorder
        if upstream < self._upstream or downstream < self._downstream:
            recorder = self._looked_at_anew()
            if upstream < self._upstream < sys.maxsize:
                # Behind a truncation, or of another topic: where the source's log ended says nothing of this one.
                self._end = None
        if recorder is not None:
            recorder.acked(upstream, count, downstream, linked=linked)
            if self.caught_up and recorder.owes:
                recorder.caught_up()
        else:
            self._wait(upstream, count, downstream, linked=linked)
        self._upstream, self._downstream = upstream + count, downstream + count
        self._dirty[self] = None

    def acked_runs(self, runs: Sequence[tuple[int, int]], downstream: int, *, linked: bool) -> None:
        """See RunRecorder.acked_runs."""
        if self._off:
            return
        upstream, count = runs[0]
        self.acked(upstream, count, downstream, linked=linked)
        rest, downstream = runs[1:], downstream + count
        if not rest:
            return
        if self.recorder is not None:
            self.recorder.acked_runs(rest, downstream)
        else:
            for upstream, count in rest:
                self._wait(upstream, count, downstream, linked=True)
                downstream += count
        self._upstream = rest[-1][0] + rest[-1][1]
        self._downstream += sum(count for _, count in rest)

    def known(self, newest: Segment | None) -> None:
        """What an earlier task has left; what was acknowledged meanwhile is recorded now."""
        if self._off:
            return
        self._known, self._newest = True, newest
        early, self._early = self._early, []
        if early or newest is not None:
            recorder = self._made()
            for upstream, count, downstream, linked in early:
                recorder.acked(upstream, count, downstream, linked=linked)
            if self.caught_up and recorder.owes:
                recorder.caught_up()
            self._dirty[self] = None

    def passed(self, position: int, source_end: int) -> None:
        """All up to `position` is mirrored or passed over; `source_end` as last heard, -1 if nothing was."""
        if self._end is None and source_end >= 0:
            self._end = source_end
        if self._end is None or position + 1 < self._end:
            return
        self.caught_up = True
        if self.recorder is not None and self.recorder.owes:
            self.recorder.caught_up()
            self._dirty[self] = None

    def _looked_at_anew(self) -> RunRecorder | None:
        """At the first batch of a life, and where one of the topics may be another one of the same name than before."""
        if self.recorder is None:
            return self._made() if self._known else None
        self.recorder.topics_are(*self._ids_of(self.partition))
        return self.recorder

    def _made(self) -> RunRecorder:
        recorder = self.recorder = RunRecorder(
            self.partition.topic, self.partition.partition, *self._ids_of(self.partition)
        )
        recorder.resume(self._newest, self._reading_from)
        self._newest = None
        return recorder

    def _wait(self, upstream: int, count: int, downstream: int, *, linked: bool) -> None:
        early = self._early
        if early:
            first, length, lies, its = early[-1]
            if (first + length, lies + length) == (upstream, downstream):
                early[-1] = (first, length + count, lies, its)
                return
        if len(early) >= MOST_EARLY:
            # What is forgotten was mirrored, nobody knows where to. A crash may have left copies before it all the same.
            early.clear()
            linked = False
        early.append((upstream, count, downstream, linked))
