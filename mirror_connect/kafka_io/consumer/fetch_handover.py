"""Passes the records of a fetch to the caller, and counts their bytes until the caller releases them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch, Share, whole_batches
from mirror_connect.kafka_io.consumer.fetch_budget import FetchBudget
from mirror_connect.kafka_io.consumer.fetch_state import PartitionFetchState
from mirror_connect.kafka_io.protocol.fetch import FetchedPartition
from mirror_connect.kafka_io.records.record_batch import NO_TIMESTAMP, first_timestamp


class FetchHandover:
    """Passes on what fetches brought. `on_records` gets a CompletedFetch for each partition.

    `mark_dirty` is called when a partition's position has changed, or it has released bytes; `released` when there is room
    again.
    """

    def __init__(
        self,
        budget: FetchBudget,
        on_records: Callable[[CompletedFetch], None],
        mark_dirty: Callable[[PartitionFetchState], None],
        released: Callable[[], None],
    ) -> None:
        self._budget = budget
        self._on_records = on_records
        self._mark_dirty = mark_dirty
        self._released = released

    def give(self, brought: Sequence[tuple[PartitionFetchState, FetchedPartition]], frame_size: int) -> None:
        """Passes on each piece and advances its partition. `frame_size`: bytes of the frame that holds the pieces."""
        budget = self._budget
        copied = budget.is_tight and len(brought) > 1
        common = Share(frame_size, len(brought), budget.free)
        if not copied:
            budget.take(frame_size)
        for state, part in brought:
            whole, next_offset, epochs, newest_ms = whole_batches(part.records)
            if state.without_epochs:
                epochs = []
            # Without one whole batch the length is corrupt: the reader must see it, as another fetch would bring the same.
            size = whole or len(part.records)
            buffer, share = part.records[:size], common
            if copied:
                # A slow partition's piece must not keep the frame of all the others alive.
                buffer, share = memoryview(bytes(buffer)), Share(size, 1, budget.free)
                budget.take(size)
            budget.loaded_partitions += state.unreleased == 0
            state.unreleased += size
            position = state.position or 0  # it is known: the fetch was sent for it
            fetched = CompletedFetch(
                state.key,
                buffer,
                position,
                next_offset,
                part.high_watermark,
                part.last_stable_offset,
                part.log_start,
                part.aborted,
                state.topic_id,
                epochs,
                state.last_epoch,
                self._release_of(state, share),
                newest_ms,
                first_timestamp(part.records, size) if size < len(part.records) else NO_TIMESTAMP,
            )
            state.position = max(next_offset, position)
            state.epochs.read(epochs)
            self._mark_dirty(state)
            self._on_records(fetched)

    def _release_of(self, state: PartitionFetchState, share: Share) -> Callable[[int], None]:
        def released(size: int) -> None:
            state.unreleased -= size
            state.released += size
            self._budget.loaded_partitions -= state.unreleased == 0
            share.part_done()
            self._mark_dirty(state)
            self._released()

        return released
