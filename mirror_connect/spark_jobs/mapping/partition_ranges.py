"""Records one partition's offset ranges in a task, once it knows the newest segment of an earlier task.

Until then, acknowledged batches wait in memory. Topic ids are read when the task's first batch is acknowledged, and where
offsets go back: that may be another topic of the same name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Final

from mirror_connect.connectors.records.binary import INT16, INT32, text_bytes
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.connectors.translation.offset_ranges import RangeRecorder, Segment

# The limit of ranges that wait until the earlier task's newest segment is known.
MOST_EARLY: Final = 10_000

# The present ids of source and remote topic, NO_ID if one isn't known.
TopicIds = Callable[[TaskPartition], tuple[bytes, bytes]]


class PartitionRanges:
    """The ranges of one partition. It adds itself to `dirty` when there may be something new to write."""

    def __init__(
        self, partition: TaskPartition, reading_from: int | None, ids: TopicIds, dirty: dict[PartitionRanges, None]
    ) -> None:
        self.partition = partition
        self.key = INT16.pack(0) + text_bytes(partition.topic) + INT32.pack(partition.partition)
        self.recorder: RangeRecorder | None = None
        self.caught_up = False
        self._ids_of = ids
        self._dirty = dirty
        self._reading_from = reading_from
        # Where the task begins, if no source offset told that.
        self._begins_at: int | None = None
        # Whether it has passed offsets since.
        self._passed = False
        self._known = False
        self._newest: Segment | None = None
        # (upstream, count, downstream, linked) as acknowledged; adjacent ones are joined.
        self._early: list[tuple[int, int, int, bool]] = []
        # Ends of the last acknowledged batch. The initial value is above every offset.
        self._upstream = self._downstream = sys.maxsize
        # The source's log end when this task first learned it.
        self._end: int | None = None
        self._off = False

    def stop(self) -> None:
        """Records nothing from now on, because nobody would write it."""
        self._off = True
        self.recorder = self._newest = None
        self._early.clear()

    def begins(self, upstream: int) -> None:
        """See RangeRecorder.begins."""
        if self._off:
            return
        if self._upstream < sys.maxsize:
            # The log end learned before is another topic's.
            self._end = None
        self._upstream = self._downstream = sys.maxsize
        self._passed = False
        # What waits is another topic's.
        self._early.clear()
        recorder = self._recorder_with_new_ids()
        if self._reading_from is None:
            self._begins_at = upstream
        else:
            self._reading_from = upstream
        if recorder is not None:
            recorder.begins(upstream)

    def passes(self, offset: int) -> bool:
        """A source offset is about to be committed. False if it is the one with which the task began."""
        begun = self._begins_at if self._reading_from is None else self._reading_from
        if begun is None or offset < begun:
            return False
        self._passed = True
        if self.recorder is not None:
            self.recorder.passed()
            self._dirty[self] = None
        return True

    def acked(self, upstream: int, count: int, downstream: int, *, linked: bool) -> None:
        """See RangeRecorder.acked."""
        if self._off:
            return
        recorder = self.recorder
        if upstream < self._upstream or downstream < self._downstream:
            recorder = self._recorder_with_new_ids()
            if upstream < self._upstream < sys.maxsize:
                # After a truncation, or in another topic, the log end learned before means nothing.
                self._end = None
        if recorder is not None:
            recorder.acked(upstream, count, downstream, linked=linked)
            if self.caught_up and recorder.owes:
                recorder.caught_up()
        else:
            self._wait(upstream, count, downstream, linked=linked)
        self._upstream, self._downstream = upstream + count, downstream + count
        self._dirty[self] = None

    def acked_ranges(self, ranges: Sequence[tuple[int, int]], downstream: int, *, linked: bool) -> None:
        """See RangeRecorder.acked_ranges."""
        if self._off:
            return
        upstream, count = ranges[0]
        self.acked(upstream, count, downstream, linked=linked)
        rest, downstream = ranges[1:], downstream + count
        if not rest:
            return
        if self.recorder is not None:
            downstream = self.recorder.acked_ranges(rest, downstream)
        else:
            for upstream, count in rest:
                self._wait(upstream, count, downstream, linked=True)
                downstream += count
        self._upstream, self._downstream = sum(rest[-1]), downstream

    def known(self, newest: Segment | None) -> None:
        """Takes the earlier task's newest segment, and records what was acknowledged meanwhile."""
        if self._off:
            return
        self._known, self._newest = True, newest
        early, self._early = self._early, []
        if early or newest is not None or self._begins_at is not None:
            recorder = self._create_recorder()
            for upstream, count, downstream, linked in early:
                recorder.acked(upstream, count, downstream, linked=linked)
            if self.caught_up and recorder.owes:
                recorder.caught_up()
            if self._passed:
                recorder.passed()
            self._dirty[self] = None

    def passed(self, position: int, source_end: int) -> None:
        """All up to `position` is mirrored or passed over; `source_end`: the newest log end known, -1 for none."""
        if self._end is None and source_end >= 0:
            self._end = source_end
        if self._end is None or position + 1 < self._end:
            return
        self.caught_up = True
        if self.recorder is not None and self.recorder.owes:
            self.recorder.caught_up()
            self._dirty[self] = None

    def _recorder_with_new_ids(self) -> RangeRecorder | None:
        """Called at the task's first batch, and where one of the topics may be a new one of the same name."""
        if self.recorder is None:
            return self._create_recorder() if self._known else None
        self.recorder.topics_are(*self._ids_of(self.partition))
        return self.recorder

    def _create_recorder(self) -> RangeRecorder:
        partition = self.partition
        recorder = self.recorder = RangeRecorder(
            *partition.source, *self._ids_of(partition), partition.remote_topic if partition.named else ""
        )
        recorder.resume(self._newest, self._reading_from)
        if self._begins_at is not None:
            recorder.begins(self._begins_at)
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
            # The dropped ranges were mirrored, and their place is not known any more. So this one is not linked to them.
            early.clear()
            linked = False
        early.append((upstream, count, downstream, linked))
