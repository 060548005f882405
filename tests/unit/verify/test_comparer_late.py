"""Records that come late: they are on the target, so none of them is missing."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from mirror_connect.verify import gaps, missing_ranges
from mirror_connect.verify.findings import Fault, Kind
from tests.fakes import partition_logs
from tests.fakes.encoded_batches import NOW, Plain, encode, patched, some_records
from tests.fakes.partition_logs import MemoryLog, compare, numbered, packed
from tests.seeds import numbers

RECORDS = [record._replace(key=b"%d" % record.offset) for record in some_records(1, 300)]
Run = tuple[int, int]


@pytest.fixture(params=[False, True], ids=["by_batches", "by_records"], autouse=True)
def by_records(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """The fast reader's side and librdkafka's: both have to tell the same."""
    monkeypatch.setitem(partition_logs.compare.__kwdefaults__, "by_records", request.param)
    return bool(request.param)


def copied(
    records: list[Plain], runs: list[Run], changed: Callable[[int, Plain], Plain] = lambda _number, record: record
) -> list[bytes]:
    """The target's log: each run is a start of the copier, with a producer epoch of its own."""
    log: list[bytes] = []
    at = 0
    for epoch, (begin, end) in enumerate(runs):
        run = [changed(epoch, record) for record in records[begin:end]]
        log += packed(numbered(run, at), seed=epoch, producer_id=9, producer_epoch=epoch)
        at += end - begin
    return log


@pytest.mark.parametrize(
    ("runs", "repeated"),
    [
        pytest.param([(0, 100), (200, 300), (0, 300)], 200, id="begun_anew"),
        pytest.param([(0, 100), (200, 300), (100, 300)], 100, id="set_back_to_where_it_was_skipped"),
        pytest.param([(0, 100), (200, 300), (50, 300)], 150, id="set_back_before_that"),
        pytest.param([(0, 100), (200, 250), (0, 300)], 150, id="before_it_had_copied_all"),
        pytest.param([(0, 100), (200, 300), (0, 300), (0, 300)], 500, id="begun_anew_twice"),
    ],
)
async def test_what_was_skipped_and_came_later_is_out_of_order(runs: list[Run], repeated: int) -> None:
    findings = await compare(packed(RECORDS, producer_id=1), copied(RECORDS, runs))
    assert (findings.counts[Kind.MISSING], findings.counts[Kind.REORDERED], findings.faults()) == (0, 100, 100)
    assert (findings.equal, findings.repeated) == (200, repeated)
    at = sum(end - begin for begin, end in runs[:2]) + 100 - runs[2][0]
    assert findings.listed == [Fault(Kind.REORDERED, (100, 199), (at, at + 99), 100)]


async def test_of_what_was_skipped_only_what_never_came_is_missing() -> None:
    findings = await compare(packed(RECORDS), copied(RECORDS, [(0, 100), (200, 300), (0, 120), (130, 300)]))
    assert (findings.counts[Kind.MISSING], findings.counts[Kind.REORDERED], findings.faults()) == (10, 90, 100)
    assert (findings.equal, findings.repeated) == (200, 200)
    assert Fault(Kind.MISSING, (120, 129), None, 10) in findings.listed


async def test_what_was_skipped_and_came_changed_is_changed_and_no_longer_missing() -> None:
    def flipped(run: int, record: Plain) -> Plain:
        return record._replace(value=b"another") if run == 2 and record.offset == 150 else record

    findings = await compare(packed(RECORDS), copied(RECORDS, [(0, 100), (200, 300), (0, 300)], flipped))
    found = {kind: count for kind, count in findings.counts.items() if count}
    assert found == {Kind.REORDERED: 99, Kind.CHANGED: 1}
    assert [each.source for each in findings.listed if each.kind is Kind.CHANGED] == [(150, 150)]


async def test_more_than_is_remembered_record_by_record_is_out_of_order_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gaps, "REMEMBERED", 10)
    findings = await compare(packed(RECORDS), copied(RECORDS, [(0, 100), (200, 300), (0, 300)]))
    assert (findings.counts[Kind.MISSING], findings.counts[Kind.REORDERED], findings.repeated) == (0, 100, 200)


async def test_tens_of_thousands_that_came_later_are_out_of_order() -> None:
    records = [record._replace(timestamp=NOW + i) for i, record in enumerate(some_records(7, 40_000, size=3))]
    log: list[bytes] = []
    at = 0
    for epoch, (begin, end) in enumerate([(0, 100), (35_000, 40_000), (0, 40_000)]):
        log += packed(numbered(records[begin:end], at), size=500, producer_id=9, producer_epoch=epoch)
        at += end - begin
    findings = await compare(packed(records, size=500), log)
    assert (findings.counts[Kind.MISSING], findings.counts[Kind.REORDERED], findings.repeated) == (0, 34_900, 5_100)
    assert findings.listed == [Fault(Kind.REORDERED, (100, 34_999), (5_200, 40_099), 34_900)]


async def test_what_came_late_beside_what_compaction_took_is_not_taken_for_that() -> None:
    source = [record._replace(offset=record.offset + 2 * (record.offset >= 290)) for record in RECORDS]
    copy = numbered(RECORDS[280:290] + RECORDS[270:])
    findings = await compare(packed(source), packed(copy))
    assert (findings.counts[Kind.MISSING], findings.counts[Kind.REORDERED]) == (270, 10)
    assert (findings.equal, findings.faults()) == (20, 280)


async def test_where_timestamps_lead_nowhere_a_beginning_anew_is_known_by_where_it_begins() -> None:
    records = [record._replace(key=b"%d" % i) for i, record in enumerate(some_records(7, 9_000, size=3))]
    log: list[bytes] = []
    at = 0
    for epoch, (begin, end) in enumerate([(0, 1_000), (2_000, 9_000), (0, 9_000), (1_000, 9_000)]):
        run = numbered(records[begin:end], at)
        # LogAppendTime: the records have the target's time.
        log += packed(run, size=100, producer_id=9, producer_epoch=epoch, attributes=0x08, max_timestamp=NOW + at)
        at += end - begin
    findings = await compare(packed(records, size=100), log)
    assert (findings.counts[Kind.MISSING], findings.counts[Kind.REORDERED], findings.faults()) == (0, 1_000, 1_000)
    assert findings.repeated == 16_000


def with_markers(rng: random.Random, count: int) -> tuple[list[Plain], list[bytes]]:
    """The source: batches of any size, with transactions' markers between."""
    records: list[Plain] = []
    batches: list[bytes] = []
    offset, waiting = 0, list(some_records(rng.randrange(1 << 30), count, size=20))
    while waiting:
        size = rng.randint(1, 40)
        taken, waiting = waiting[:size], waiting[size:]
        batch = [r._replace(offset=offset + n, key=b"%d" % r.offset) for n, r in enumerate(taken)]
        batches.append(encode(batch, producer_id=5))
        records += batch
        offset += len(batch)
        if rng.random() < 0.3:
            marker = encode([Plain(offset, NOW, b"\x00\x00\x00\x01", None, ())])
            batches.append(patched(marker, attributes=0x30, producer_id=5))
            offset += 1
    return records, batches


@pytest.mark.parametrize("seed", numbers(15, 120))
async def test_however_positions_are_set_what_is_on_the_target_is_not_missing(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.choice([20, 60, 400, 1500])
    records, source = with_markers(rng, count)
    # Forward, over what is then missing; at last back to where all of it comes again, or most of it. A stretch has four
    # records, as fewer are not enough to tell where a copier went on.
    runs: list[Run] = []
    at = 0
    while at <= count - 8 and len(runs) < 4:
        end = rng.randint(at + 4, count - 4)
        runs.append((at, end))
        at = rng.randint(end, count - 4)
    back = rng.choice([0, 0, rng.randrange(count)])
    runs += [(at, count), (back, count)]

    times: Counter[int] = Counter()
    late, front = 0, 0
    for begin, end in runs:
        for place in range(begin, end):
            late += times[place] == 0 and place < front
            times[place] += 1
            front = max(front, place + 1)
    missing = sum(times[place] == 0 for place in range(count))
    repeated = sum(each - 1 for each in times.values() if each > 1)

    log = copied(records, runs)
    findings = await compare(MemoryLog(source, at_once=rng.randint(1, 20)), MemoryLog(log, at_once=rng.randint(1, 20)))
    assert (findings.counts[Kind.MISSING], findings.counts[Kind.REORDERED]) == (missing, late)
    assert (findings.faults(), findings.repeated) == (missing + late, repeated)
    assert findings.equal == count - missing - late


async def test_one_record_that_came_early_and_in_its_place_is_there_twice_and_nobody_elses() -> None:
    findings = await compare(packed(RECORDS), copied(RECORDS, [(0, 100), (200, 201), (100, 300)]))
    assert findings.listed == [Fault(Kind.DOUBLED, (200, 200), (100, 100))]
    assert (findings.equal, findings.repeated) == (300, 0)


async def test_a_position_set_back_and_then_forward_again_makes_repeats_alone() -> None:
    findings = await compare(packed(RECORDS), copied(RECORDS, [(0, 200), (0, 100), (200, 300)]))
    assert (findings.listed, findings.equal, findings.repeated) == ([], 300, 100)


async def test_where_too_many_places_lack_records_a_note_says_that_late_ones_are_not_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(missing_ranges, "MOST", 10)
    runs = [(at, at + 4) for at in range(0, 200, 8)]
    findings = await compare(packed(RECORDS), copied(RECORDS, [*runs, (200, 300), (0, 300)]))
    assert (findings.counts[Kind.REORDERED], findings.counts[Kind.MISSING]) == (40, 60)
    (note,) = findings.notes
    assert "from source offset 84 on" in note
