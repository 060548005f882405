"""What a fetch brought becomes the caller's, and its bytes are counted until the caller releases them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from mirror_connect.kafka_io.consumer.fetch_budget import FetchBudget
from mirror_connect.kafka_io.consumer.fetch_state import PartitionWork
from mirror_connect.kafka_io.consumer.fetched import Fetched, Share, whole_batches
from mirror_connect.kafka_io.protocol.wire import FetchedPartition


class FetchHandover:
    """`on_records` gets each piece. `stir`: a partition's position has changed; `released`: there is room again."""

    def __init__(
        self,
        budget: FetchBudget,
        on_records: Callable[[Fetched], None],
        stir: Callable[[PartitionWork], None],
        released: Callable[[], None],
    ) -> None:
        self._budget = budget
        self._on_records = on_records
        self._stir = stir
        self._released = released

    def give(self, brought: Sequence[tuple[PartitionWork, FetchedPartition]], frame_size: int) -> None:
        """Moves every partition to behind what it gets. `frame_size`: bytes of the frame that the pieces lie in."""
        budget = self._budget
        copied = budget.is_tight and len(brought) > 1
        common = Share(frame_size, len(brought), budget.free)
        if not copied:
            budget.take(frame_size)
        for work, part in brought:
            whole, next_offset, epochs = whole_batches(part.records)
            if work.without_epochs:
                epochs = []
            # Not one whole batch means a corrupt length, which asking again at once would not heal.
            size = whole or len(part.records)
            buffer, share = part.records[:size], common
            if copied:
                # A slow partition's piece must not keep the frame of all the others alive.
                buffer, share = memoryview(bytes(buffer)), Share(size, 1, budget.free)
                budget.take(size)
            budget.loaded_partitions += work.unreleased == 0
            work.unreleased += size
            position = work.position or 0  # known: the answer was to it
            fetched = Fetched(
                work.key,
                buffer,
                position,
                next_offset,
                part.high_watermark,
                part.last_stable_offset,
                part.log_start,
                part.aborted,
                work.topic_id,
                epochs,
                work.last_epoch,
                self._release_of(work, share),
            )
            work.position = max(next_offset, position)
            work.epochs.read(epochs)
            self._stir(work)
            self._on_records(fetched)

    def _release_of(self, work: PartitionWork, share: Share) -> Callable[[int], None]:
        def released(size: int) -> None:
            work.unreleased -= size
            work.released += size
            self._budget.loaded_partitions -= work.unreleased == 0
            share.part_done()
            self._released()

        return released
