"""Where records lie on the target: of one batch, or of several that follow each other there and at the source."""

from __future__ import annotations

from typing import Protocol

from mirror_connect.kafka_io.records.record_batch import ProducerBatch


class Placed(Protocol):
    """What is needed of a batch to note where its records lie: see ProducerBatch."""

    @property
    def first_offset(self) -> int:
        """The source offset of the first record."""

    @property
    def count(self) -> int:
        """The number of records."""

    @property
    def upstream_offsets(self) -> tuple[tuple[int, int], ...] | None:
        """The source offsets of its records if there are gaps between them."""


class PlacedRecords:
    """Records of batches that follow each other on both sides. `base_offset`: see Feed.acked."""

    __slots__ = ("base_offset", "count", "first_offset", "upstream_offsets")

    def __init__(self, batch: ProducerBatch, base_offset: int) -> None:
        self.first_offset = batch.first_offset
        self.count = batch.count
        self.upstream_offsets = batch.upstream_offsets
        self.base_offset = base_offset

    def takes(self, batch: ProducerBatch, base_offset: int) -> bool:
        """Adds the batch; False if it doesn't follow the records here."""
        count = self.count
        if (
            base_offset != self.base_offset + count
            or batch.first_offset != self.first_offset + count
            or self.base_offset < 0
            or batch.upstream_offsets is not None
            or self.upstream_offsets is not None
        ):
            return False
        self.count = count + batch.count
        return True
