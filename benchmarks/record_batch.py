"""What a batch costs between fetch and produce, without any network: `python -m benchmarks.record_batch`.

As it is: split, verified, stamped. Merged: single-record batches made into one of a megabyte, all included. Re-encoded: the
first record of a batch is not wanted, or broker time becomes record time. Fastest of several rounds, in one process.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from mirror_connect.kafka_io.records.compression import LZ4, NONE, ZSTD, compress
from mirror_connect.kafka_io.records.record_batch import (
    NewRecord,
    ProducerBatch,
    as_is,
    needs_rewrite,
    split_fetch,
    stamp,
    verify,
)
from mirror_connect.kafka_io.records.record_rewrite import build, merge, rewrite

ROUNDS = 7
NOW = 1_790_000_000_000


def fetch_of(batches: int, records: int, size: int, codec: int) -> bytes:
    """Batches as a broker sends them, offsets one after the other; values half noise, half text."""
    rng = random.Random(records)
    parts = []
    for number in range(batches):
        values = [rng.randbytes(size // 2) + b"text" * (size // 8) for _ in range(records)]
        batch = build([NewRecord(b"key %d" % place, value, NOW + place) for place, value in enumerate(values)])
        batch.records, batch.codec = compress(codec, batch.records), codec
        content = stamp(batch, -1, -1, -1)
        parts.append((number * records).to_bytes(8, "big") + content[8:])
    return b"".join(parts)


def copy_as_is(buffer: bytes) -> None:
    for view in split_fetch(memoryview(buffer)):
        verify(view)
        if needs_rewrite(view, 0):
            raise AssertionError("this batch was meant to be copied as it is")
        stamp(as_is(view), 1, 0, 0)


def copy_merged(buffer: bytes) -> None:
    group: list[ProducerBatch] = []
    for view in split_fetch(memoryview(buffer)):
        verify(view)
        if not needs_rewrite(view, 0):
            group.append(as_is(view))
    stamp(merge(group)[0], 1, 0, 0)


def copy_rewritten(buffer: bytes) -> None:
    for view in split_fetch(memoryview(buffer)):
        verify(view)
        for batch in rewrite(view, view.base_offset + 1):
            stamp(batch, 1, 0, 0)


def fastest(work: Callable[[bytes], None], buffer: bytes, repeats: int) -> float:
    """Microseconds of CPU for one call."""
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(repeats):
            work(buffer)
        best = min(best, time.process_time() - begun)
    return best / repeats * 1e6


def main() -> None:
    """Prints one line for each kind of work."""
    for name, records, size in (("1 KiB", 150, 1024), ("100 B", 1_500, 100)):
        buffer = fetch_of(20, records, size, LZ4)
        per_batch = fastest(copy_as_is, buffer, 50) / 20
        print(f"as it is, {records} x {name}, lz4, {len(buffer) // 20:,} bytes: {per_batch:.1f} µs a batch")
        for codec, label in ((LZ4, "lz4"), (ZSTD, "zstd"), (NONE, "none")):
            buffer = fetch_of(5, records, size, codec)
            spent = fastest(copy_rewritten, buffer, 4) / 5
            print(f"re-encoded, {records} x {name}, {label}: {spent:.0f} µs a batch, {spent / records:.2f} µs a record")
    for codec, label in ((NONE, "none"), (LZ4, "lz4"), (ZSTD, "zstd")):
        for size in (100, 1_024):
            buffer = fetch_of(1_000, 1, size, codec)
            spent = fastest(copy_merged, buffer, 5) / 1_000
            print(f"merged, single records of {size} B, {label}: {spent:.2f} µs a record")


if __name__ == "__main__":
    main()
