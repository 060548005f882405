"""What a batch costs between fetch and produce, without any network: `python -m benchmarks.record_batch`.

As it is: split, verified, stamped. The other kinds change records, and are measured twice: by Python alone, and with what is
compiled (docs/decisions/0024). Both take turns in one process: µs of CPU a record, medians, and the ratio with the least and
the most of one round.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Final

from mirror_connect.kafka_io.records import compiled
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.batch_merge import merge
from mirror_connect.kafka_io.records.batch_split import split
from mirror_connect.kafka_io.records.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD, compress
from mirror_connect.kafka_io.records.record_batch import (
    LOG_APPEND_TIME,
    BatchReader,
    NewRecord,
    ProducerBatch,
    as_is,
    needs_rewrite,
    split_fetch,
    stamp,
    stamped_header,
    verify,
)
from mirror_connect.kafka_io.records.record_rewrite import rewrite
from mirror_connect.kafka_io.records.single_records import merge_singles
from mirror_connect.kafka_io.records.unpacked_records import unpack
from mirror_connect.spark_jobs.copy.partition_flow import SMALL_BYTES

ROUNDS: Final = 9
NOW: Final = 1_790_000_000_000
LIMIT: Final = 1_000_000
COUNT_AT: Final = 57
CODECS: Final = {"none": NONE, "lz4": LZ4, "snappy": SNAPPY, "zstd": ZSTD, "gzip": GZIP}
# Seconds of CPU of one side in one round.
ENOUGH: Final = 0.04


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
    reader = BatchReader(buffer)
    while True:
        batch = compiled.take(reader, 0, check_crcs=True, append_time=False)
        if batch is None:
            view = reader.next()
            if view is None:
                return
            verify(view)
            if needs_rewrite(view, 0):
                raise AssertionError("this batch was meant to be copied as it is")
            batch = as_is(view)
        # Not `stamp`: the records are not joined to the header.
        stamped_header(batch, 1, 0, 0)


def copy_merged(buffer: bytes) -> None:
    group: list[ProducerBatch] = []
    for view in split_fetch(memoryview(buffer)):
        verify(view)
        group.append(as_is(view))
    stamp(merge(group)[0], 1, 0, 0)


def copy_plain(buffer: bytes) -> None:
    """As a partition with a backlog does: merged where that is a short way, else one by one."""
    reader, done, of_one = BatchReader(buffer), 0, buffer[COUNT_AT : COUNT_AT + 4] == b"\0\0\0\1"
    while True:
        if compiled.merges_plain(check_crcs=True):
            found = compiled.merge_plain(reader, done, LIMIT, SMALL_BYTES, check_crcs=True)
            merged = None if found is None else found[0]
        else:
            merged = merge_singles(reader, done, LIMIT, check_crcs=True) if of_one else None
        if merged is None:
            view = reader.next()
            if view is None:
                return
            verify(view)
            merged = as_is(view)
        stamp(merged, 1, 0, 0)
        done = merged.last_offset + 1


def copy_beginning_later(buffer: bytes) -> None:
    for view in split_fetch(memoryview(buffer)):
        verify(view)
        for batch in rewrite(view, view.base_offset + 1):
            stamp(batch, 1, 0, 0)


def copy_log_append_time(buffer: bytes) -> None:
    for view in split_fetch(memoryview(buffer)):
        verify(view)
        view.attributes |= LOG_APPEND_TIME
        for batch in rewrite(view, 0):
            stamp(batch, 1, 0, 0)


def copy_split(buffer: bytes) -> None:
    for view in split_fetch(memoryview(buffer)):
        verify(view)
        for batch in split(as_is(view), view.size // 3):
            stamp(batch, 1, 0, 0)


def read_records(buffer: bytes) -> None:
    for view in split_fetch(memoryview(buffer)):
        verify(view)
        unpack(view, 0)


@contextmanager
def python_alone() -> Iterator[None]:
    """Without what is compiled."""
    functions, compiled.functions = compiled.functions, None  # type: ignore[assignment]
    try:
        yield
    finally:
        compiled.functions = functions


def spent(work: Callable[[bytes], None], buffer: bytes) -> float:
    """Microseconds of CPU for one call."""
    calls, begun = 0, time.process_time()
    while (passed := time.process_time() - begun) < ENOUGH:
        work(buffer)
        calls += 1
    return passed / calls * 1e6


def compare(label: str, work: Callable[[bytes], None], buffer: bytes, records: int) -> None:
    """Prints the line of one kind of work."""
    before, after = [], []
    for _ in range(ROUNDS):
        with python_alone():
            before.append(spent(work, buffer) / records)
        after.append(spent(work, buffer) / records)
    ratios = sorted(one / other for one, other in zip(before, after, strict=True))
    print(
        f"| {label} | {median(before):.2f} | {median(after):.2f} "
        f"| {median(ratios):.1f} × ({ratios[0]:.1f} to {ratios[-1]:.1f}) |",
        flush=True,
    )


def main() -> None:
    """Prints one line for each kind of work."""
    sizes = (("1 KiB", 150, 1024), ("100 B", 1_500, 100))
    print("" if compiled.functions else "Nothing is compiled here: both columns are Python.")
    print("| µs CPU a batch | Python | compiled | ratio |\n| --- | ---: | ---: | ---: |")
    for name, records, size in sizes:
        buffer = fetch_of(20, records, size, LZ4)
        compare(f"as it is, {records} × {name}, lz4, {len(buffer) // 20:,} bytes", copy_as_is, buffer, 20)
    print("\n| µs CPU a record | Python | compiled | ratio |\n| --- | ---: | ---: | ---: |")
    for codec, number in CODECS.items():
        for name, records, size in sizes:
            buffer = fetch_of(3, records, size, number)
            what = f"{records} × {name}, {codec}"
            compare(f"LogAppendTime, {what}", copy_log_append_time, buffer, 3 * records)
            compare(f"first record not wanted, {what}", copy_beginning_later, buffer, 3 * records)
            compare(f"split in three, {what}", copy_split, buffer, 3 * records)
            compare(f"records read by verify, {what}", read_records, buffer, 3 * records)
    for name, size in (("1 KiB", 1024), ("100 B", 100)):
        buffer = fetch_of(1_000, 1, size, NONE)
        compare(f"one a batch, {name}, none", copy_plain, buffer, 1_000)
        records = 16_000 // (size + 10)
        compare(f"16 KB batches, {name}, none", copy_plain, fetch_of(60, records, size, NONE), 60 * records)
        for codec, number in CODECS.items():
            compare(f"merged one by one, {name}, {codec}", copy_merged, fetch_of(1_000, 1, size, number), 1_000)


if __name__ == "__main__":
    main()
