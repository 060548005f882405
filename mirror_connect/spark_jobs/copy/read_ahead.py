"""Gives batches of one partition to Spark before their turn, so that several are on their way at once.

What comes back waits here, beside the flow. The flow decides on its batches one after the other as ever, and alone moves the
source offset. So whatever it drops, or reads again, is only work that was done in vain.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.connectors.record_steps import Steps
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.records.record_batch import BatchReader, BatchView, CorruptBatchError, verify
from mirror_connect.spark_jobs.copy.computed_batch import ComputedBatch, Computing

# How much of a partition is on its way or waits, as it was fetched. It is part of what the fetch buffer counts.
AHEAD_BYTES: Final = 1 << 20
AHEAD_BATCHES: Final = 100


class _Ahead(NamedTuple):
    """`end`: where the batch ends in the fetch."""

    fetched: CompletedFetch
    end: int
    batch: ComputedBatch


class ReadAhead:
    """Of one partition. `on_made(batch)`, `letters`: see ComputedBatch."""

    def __init__(
        self,
        computing: Computing,
        partition: TopicPartition,
        steps: Steps,
        on_made: Callable[[ComputedBatch], None],
        *,
        check_crcs: bool,
        read_committed: bool,
        letters: bool = False,
    ) -> None:
        self._computing = computing
        self._letters = letters
        self._partition = partition
        self._steps = steps
        self._on_made = on_made
        self._check_crcs = check_crcs
        self._read_committed = read_committed
        self._ahead: deque[_Ahead] = deque()
        self._bytes = 0
        # Up to where batches were looked at; None: nowhere.
        self._fetched: CompletedFetch | None = None
        self._reader = BatchReader(b"")

    def begin(
        self,
        fetched: CompletedFetch,
        end: int,
        view: BatchView,
        wanted: int,
        following: Iterable[CompletedFetch] = (),
    ) -> ComputedBatch:
        """The batch that the flow decides on now, which ends there. `wanted`: the lowest offset that is not copied.

        `following`: the fetches that the flow has not begun.
        """
        from_offset = _from(view, wanted)
        while self._ahead:
            found = self._ahead[0]
            later = found.end > end if found.fetched is fetched else any(found.fetched is each for each in following)
            if later:
                # This one was not clear when it was looked at, and those behind it were.
                break
            self._ahead.popleft()
            self._bytes -= found.batch.view.size
            if found.fetched is fetched and found.end == end and found.batch.from_offset == from_offset:
                return found.batch
            # The flow has dropped it, as a part of an aborted transaction or as copied already.
            found.batch.drop()
        return self._submitted(view, from_offset)

    def look(self, current: CompletedFetch, at: int, following: Iterable[CompletedFetch]) -> None:
        """Submits what comes behind the batch that ends `at` in the current fetch, as far as there is room."""
        if self._bytes >= AHEAD_BYTES // 2:
            return
        fetches = [current, *following]
        if not any(each is self._fetched for each in fetches):
            self._open(current)
        if self._fetched is current:
            self._reader.at = max(at, self._reader.at)
        for fetched in fetches[next(n for n, each in enumerate(fetches) if each is self._fetched) :]:
            if fetched is not self._fetched:
                self._open(fetched)
            if not self._look_into(fetched):
                return

    def clear(self) -> None:
        """The flow drops all that it has not taken."""
        for each in self._ahead:
            each.batch.drop()
        self._ahead.clear()
        self._bytes = 0
        self._fetched, self._reader = None, BatchReader(b"")

    def _open(self, fetched: CompletedFetch) -> None:
        self._fetched, self._reader = fetched, BatchReader(fetched.buffer, whole=True)

    def _look_into(self, fetched: CompletedFetch) -> bool:
        """Whether to go on behind it."""
        while self._bytes < AHEAD_BYTES and len(self._ahead) < AHEAD_BATCHES and self._computing.has_room():
            before = self._reader.at
            try:
                view = self._reader.next()
                if view is None:
                    return True
                verify(view, check_crc=self._check_crcs)
            except CorruptBatchError:
                # The flow says so when it comes here.
                self._reader.at = before
                return False
            # It is not known here which transactions are aborted, nor where old message sets begin.
            unclear = self._read_committed and fetched.aborted and view.is_transactional
            if view.magic < 2 or view.is_control or unclear or view.last_offset < fetched.fetch_offset:
                continue
            batch = self._submitted(view, _from(view, fetched.fetch_offset))
            self._ahead.append(_Ahead(fetched, self._reader.at, batch))
            self._bytes += view.size
        return False

    def _submitted(self, view: BatchView, from_offset: int) -> ComputedBatch:
        batch = ComputedBatch(view, from_offset, self._partition, self._steps, self._on_made, letters=self._letters)
        self._computing.submit(batch)
        return batch


def _from(view: BatchView, wanted: int) -> int:
    return wanted if view.magic < 2 else max(wanted, view.base_offset)
