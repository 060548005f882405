"""What the target has acknowledged of one partition in a transaction, and nobody may be told before its commit.

The bytes of a batch are not kept, as a transaction may hold gigabytes: only sums, and where the records lie on the target.
"""

from __future__ import annotations

from mirror_connect.kafka_io.records.placed_records import PlacedRecords
from mirror_connect.kafka_io.records.record_batch import NO_TIMESTAMP, ProducerBatch


class Acknowledged:
    """The sums of one transaction. `newest_ms`, `first_ms`: timestamps of the last batch, and of the first one."""

    __slots__ = (
        "batches",
        "bytes",
        "first_ms",
        "newest_ms",
        "placed",
        "plain_bytes",
        "records",
        "rewritten",
        "rewritten_bytes",
    )

    def __init__(self) -> None:
        self.records = self.bytes = self.batches = 0
        self.rewritten = self.rewritten_bytes = self.plain_bytes = 0
        self.newest_ms = self.first_ms = NO_TIMESTAMP
        self.placed: list[PlacedRecords] = []

    def add(self, batch: ProducerBatch, base_offset: int) -> None:
        """The target has this batch at this offset."""
        size = batch.size
        if not self.batches:
            self.first_ms = batch.first_ms
        self.newest_ms = batch.max_timestamp
        self.records += batch.count
        self.bytes += size
        self.batches += 1
        if batch.rewritten:
            self.rewritten += 1
            self.rewritten_bytes += size
        elif not batch.codec:
            self.plain_bytes += size
        placed = self.placed
        if not placed or not placed[-1].takes(batch, base_offset):
            placed.append(PlacedRecords(batch, base_offset))
