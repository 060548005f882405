"""Real text as record batches, built once and sent again and again: Python's own library, cut to size."""

from __future__ import annotations

import itertools
import json
import os
import sysconfig
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.plan import Profile
from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.compression import compress
from mirror_connect.kafka_io.records.record_batch import NewRecord, stamp

# Enough that neither side's caches live on repetition, few enough to be built in seconds.
POOL_BYTES = 24 << 20
SINGLES = 8_000
FILLED_MS = 5
# The header of records that are to be filtered.
MARK = "internal"


@dataclass(frozen=True, slots=True)
class Batch:
    """A finished batch without a producer id: it may be sent to any partition, any number of times."""

    data: bytes
    records: int
    # Without compression.
    raw_bytes: int


def library_text() -> Iterator[bytes]:
    """Every module of the standard library, in the same order on every machine."""
    home = Path(sysconfig.get_paths()["stdlib"])
    for directory, folders, files in os.walk(home):
        folders[:] = sorted(name for name in folders if name not in ("site-packages", "__pycache__"))
        for name in sorted(files):
            if name.endswith(".py"):
                yield (Path(directory) / name).read_bytes()


def values(size: int) -> Iterator[bytes]:
    """That text in pieces of exactly `size` bytes, for ever."""
    rest = b""
    for text in itertools.cycle(library_text()):
        rest += text
        pieces = len(rest) // size
        for number in range(pieces):
            yield rest[number * size : (number + 1) * size]
        rest = rest[pieces * size :]


def json_values(size: int) -> Iterator[bytes]:
    """Customers as JSON objects of `size` bytes, every other one in another country, for ever."""
    for number, text in enumerate(values(size)):
        customer = {
            "id": number,
            "country": ("EU", "US")[number % 2],
            "email": f"customer{number % 10_000_000:07d}@example.org",
            "card": f"4111{number % 10**12:012d}",
            "note": "",
        }
        # Of that text what needs no escapes, so that all have one size.
        plain = "".join(each for each in text.decode("ascii", "ignore") if each.isalnum() or each in " .,:;()_=")
        room = size - len(json.dumps(customer))
        yield json.dumps({**customer, "note": plain.ljust(room, "x")[:room]}).encode()


def batches(profile: Profile, now_ms: int | None = None) -> list[Batch]:
    """The pool of a profile: batches of `batch_bytes` on average, or single records.

    The batches of one that is to be compacted are as many as the topic has: every other key is there once.
    """
    stamp_ms = int(time.time() * 1000) if now_ms is None else now_ms
    source = (json_values if profile.json else values)(profile.record_bytes)
    if not profile.batch_bytes:
        return [_batch(source, 1, profile.codec, stamp_ms) for _ in range(SINGLES)]
    # How many records make a batch of the wanted size is seen from a sample.
    trial = _batch(source, max(1, 4 * profile.batch_bytes // profile.record_bytes), profile.codec, stamp_ms)
    count = max(1, round(profile.batch_bytes * trial.records / len(trial.data)))
    if profile.json:
        # Every other one, in each batch.
        count += count % 2
    if profile.marked:
        # As many that are dropped as stay, in each batch.
        count += count % 2
        return [
            _batch(source, count, profile.codec, stamp_ms, marked=itertools.cycle((False, True)))
            for _ in range(POOL_BYTES // profile.batch_bytes)
        ]
    if profile.compacted:
        keys = (b"once-%d" % number if number % 2 else b"again" for number in itertools.count())
        return [_batch(source, count, profile.codec, stamp_ms, keys) for _ in range(profile.records // count)]
    # Making JSON takes its time.
    pool_bytes = POOL_BYTES // 4 if profile.json else POOL_BYTES
    return [_batch(source, count, profile.codec, stamp_ms) for _ in range(pool_bytes // profile.batch_bytes)]


def _batch(
    source: Iterator[bytes],
    count: int,
    codec: int,
    now_ms: int,
    keys: Iterable[bytes | None] = itertools.repeat(None),
    *,
    marked: Iterable[bool] = itertools.repeat(False),
) -> Batch:
    # A producer fills a batch in some milliseconds: equal timestamps would be a short cut for whoever rewrites it.
    plain = build(
        NewRecord(key, value, now_ms + number % FILLED_MS, ((MARK, b"1"),) if mark else ())
        for number, (value, key, mark) in enumerate(zip(itertools.islice(source, count), keys, marked, strict=False))
    )
    packed = replace(plain, records=compress(codec, plain.records), codec=codec)
    return Batch(stamp(packed, -1, -1, -1), count, len(plain.records))
