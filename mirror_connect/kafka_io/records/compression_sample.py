"""Measures, on a batch now and then, how much larger it would be without its compression."""

from __future__ import annotations

from typing import Final

from mirror_connect.kafka_io.records.compression import GZIP, NONE, CodecError, decompress
from mirror_connect.kafka_io.records.record_batch import ProducerBatch

EVERY_S: Final = 1.0
# Decompressing one of these takes less than a millisecond. gzip is the slowest codec.
_LARGEST: Final = 128 << 10
_LARGEST_GZIP: Final = 32 << 10
_MOST_DECOMPRESSED: Final = 1 << 20


class CompressionSample:
    """`compressed`, `uncompressed`: bytes of the records in all samples, as they came and decompressed."""

    def __init__(self) -> None:
        self.compressed = self.uncompressed = 0
        self._next = 0.0

    def take(self, batch: ProducerBatch, now: float) -> None:
        """Takes a sample of this batch, if one is due (`now`: seconds). One that can't be decompressed is no sample."""
        size = len(batch.records)
        if now < self._next or size > (_LARGEST_GZIP if batch.codec == GZIP else _LARGEST) or batch.codec == NONE:
            return
        self._next = now + EVERY_S
        try:
            uncompressed = len(decompress(batch.codec, batch.records, _MOST_DECOMPRESSED))
        except CodecError:
            return
        self.compressed += size
        self.uncompressed += uncompressed
