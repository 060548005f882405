"""Copiers restart often and at any moment: their repeats are no faults, and hide none."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from mirror_connect.verify.findings import Kind
from tests.fakes import partition_logs
from tests.fakes.encoded_batches import NOW, Plain, encode, patched, some_records
from tests.fakes.partition_logs import MemoryLog, compare
from tests.seeds import numbers

STRANGER = Plain(0, NOW, b"stranger", b"of nobody", ())
Run = tuple[int, int]


@pytest.fixture(params=[False, True], ids=["by_batches", "by_records"], autouse=True)
def by_records(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """The fast reader's side and librdkafka's: both have to tell the same."""
    monkeypatch.setitem(partition_logs.compare.__kwdefaults__, "by_records", request.param)
    return bool(request.param)


def source_of(rng: random.Random, count: int) -> tuple[list[Plain], list[bytes]]:
    """Records with keys of their own, and their log: batches of any size with transactions' markers between."""
    clock = rng.choice([lambda r: r.timestamp, lambda r: NOW + r.offset, lambda _r: NOW])
    records: list[Plain] = []
    batches: list[bytes] = []
    offset, waiting = 0, list(some_records(rng.randrange(1 << 30), count, size=20))
    while waiting:
        size = rng.randint(1, 40)
        taken, waiting = waiting[:size], waiting[size:]
        batch = [r._replace(offset=offset + n, key=b"%d" % r.offset, timestamp=clock(r)) for n, r in enumerate(taken)]
        batches.append(encode(batch, rng.choice([0, 3]), producer_id=5))
        records += batch
        offset += len(batch)
        if rng.random() < 0.2:
            marker = encode([Plain(offset, NOW, b"\x00\x00\x00\x01", None, ())])
            batches.append(patched(marker, attributes=0x30, producer_id=5))
            offset += 1
    return records, batches


def runs_of(rng: random.Random, count: int) -> list[Run]:
    """What each start of the copier copied, as a range of records: it begins at or before where the last one ended."""
    runs: list[Run] = []
    done = at = 0
    while done < count:
        end = min(count, at + rng.randint(1, max(2, count // rng.randint(1, 4))))
        runs.append((at, end))
        done = max(done, end)
        at = end if rng.random() < 0.2 else min(end, max(0, done - rng.choice([0, 1, 3, 20, 33, 50, 300, 1000])))
    return runs


def log_of(rng: random.Random, stream: list[tuple[Plain, int]]) -> list[bytes]:
    """The target's log of (record, number of the run); each run has a producer epoch of its own."""
    batches: list[bytes] = []
    waiting: list[Plain] = []
    size = rng.randint(1, 60)
    for offset, (record, run) in enumerate(stream):
        waiting.append(record._replace(offset=offset))
        if offset + 1 == len(stream) or stream[offset + 1][1] != run or len(waiting) >= size:
            batches.append(encode(waiting, rng.choice([0, 1, 3]), producer_id=9, producer_epoch=run))
            waiting, size = [], rng.randint(1, 60)
    return batches


@pytest.mark.parametrize("seed", numbers(15, 120))
async def test_repeats_are_no_faults_and_hide_none(seed: int) -> None:
    rng = random.Random(seed)
    records, source = source_of(rng, rng.choice([5, 60, 400, 1500]))
    runs = runs_of(rng, len(records))
    copied = [(at, number) for number, (begin, end) in enumerate(runs) for at in range(begin, end)]
    stream = [(records[at], number) for at, number in copied]
    # A fault of a record that was copied again right would be a matter of opinion.
    times = Counter(at for at, _ in copied)
    once = [place for place, (at, _) in enumerate(copied) if times[at] == 1]
    kind = rng.choice([None, Kind.MISSING, Kind.CHANGED, Kind.FOREIGN]) if once else None
    place = rng.choice(once) if once else 0
    offset = records[copied[place][0]].offset
    if kind is Kind.MISSING:
        del stream[place]
    elif kind is Kind.CHANGED:
        stream[place] = stream[place][0]._replace(value=b"another"), stream[place][1]
    elif kind is Kind.FOREIGN:
        stream.insert(place, (STRANGER, stream[place][1]))

    reading = [rng.randint(1, 20), rng.randint(1, 20)]
    findings = await compare(MemoryLog(source, at_once=reading[0]), MemoryLog(log_of(rng, stream), at_once=reading[1]))
    assert [(fault.kind, fault.count) for fault in findings.listed] == ([] if kind is None else [(kind, 1)])
    assert findings.repeated == len(copied) - len(records)
    assert findings.equal == len(records) - (kind in (Kind.MISSING, Kind.CHANGED))
    if kind in (Kind.MISSING, Kind.CHANGED):
        assert findings.listed[0].source == (offset, offset)


@pytest.mark.parametrize("restarts", [0, 1])
@pytest.mark.parametrize("seed", numbers(15, 60))
async def test_compaction_of_either_side_makes_no_faults(seed: int, restarts: int) -> None:
    rng = random.Random(seed)
    records, source = source_of(rng, 300)
    end = rng.randint(100, 300)
    runs = [(0, end), (end - rng.choice([0, 1, 20, 40, 100]), 300)] if restarts else [(0, 300)]
    stream = [(records[at], number) for number, (begin, end) in enumerate(runs) for at in range(begin, end)]
    target = log_of(rng, stream)
    # Whole batches go, as the cleaner takes them when nothing in them is the last of its key; the newest stays.
    if seed % 2:
        target = [batch for batch in target[:-1] if rng.random() < 0.7] + target[-1:]
    else:
        source = [batch for batch in source[:-1] if rng.random() < 0.7] + source[-1:]
    findings = await compare(MemoryLog(source), MemoryLog(target))
    assert findings.listed == []
