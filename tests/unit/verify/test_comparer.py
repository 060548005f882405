"""Every kind of fault in a copy is found with its offsets, and nothing else is called a fault."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from mirror_connect.verify.findings import Fault, Findings, Kind
from tests.fakes import partition_logs
from tests.fakes.encoded_batches import Plain, encode, patched, some_records
from tests.fakes.partition_logs import MemoryLog, compare, numbered, packed
from tests.seeds import numbers

RECORDS = some_records(1, 300)
Stream = list[Plain]


@pytest.fixture(params=[False, True], ids=["by_batches", "by_records"], autouse=True)
def by_records(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """The fast reader's side and librdkafka's: both have to tell the same."""
    monkeypatch.setitem(partition_logs.compare.__kwdefaults__, "by_records", request.param)
    return bool(request.param)


def only(findings: Findings) -> Fault:
    (fault,) = findings.listed
    return fault


def flipped(record: Plain, at: int = 0) -> Plain:
    value = bytearray(record.value or b"x")
    value[at % len(value)] ^= 1
    return record._replace(value=bytes(value) if record.value else b"y")


async def test_the_same_batches_are_equal_without_being_unpacked(by_records: bool) -> None:
    batches = packed(RECORDS, codec=3)
    findings = await compare(batches, [patched(each, producer_id=9, producer_epoch=1) for each in batches])
    assert (findings.equal, findings.by_batch, findings.faults()) == (300, 0 if by_records else 300, 0)


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
async def test_batches_that_were_merged_split_or_encoded_anew_are_equal(codec: int) -> None:
    source = packed(RECORDS, seed=1, codec=codec)
    for seed, size in ((2, 50), (3, 1), (4, 5)):
        findings = await compare(source, packed(RECORDS, seed=seed, size=size, codec=(codec + 1) % 5))
        assert (findings.equal, findings.faults(), findings.repeated) == (300, 0, 0)


@pytest.mark.parametrize("at", [0, 1, 150, 298, 299])
async def test_one_missing_record_is_named(at: int) -> None:
    copy = numbered(RECORDS[:at] + RECORDS[at + 1 :])
    fault = only(await compare(packed(RECORDS), packed(copy)))
    assert (fault.kind, fault.source, fault.target, fault.count) == (Kind.MISSING, (at, at), None, 1)


@pytest.mark.parametrize("at", [0, 1, 150, 298, 299])
async def test_one_flipped_bit_is_named(at: int) -> None:
    copy = [*RECORDS[:at], flipped(RECORDS[at]), *RECORDS[at + 1 :]]
    fault = only(await compare(packed(RECORDS), packed(copy)))
    assert (fault.kind, fault.source, fault.target) == (Kind.CHANGED, (at, at), (at, at))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        pytest.param(lambda r: r._replace(key=b"other"), "key", id="key"),
        pytest.param(lambda r: r._replace(headers=(("a", b"2"),)), "headers", id="headers"),
        pytest.param(lambda r: r._replace(timestamp=r.timestamp + 1), "timestamp", id="timestamp"),
        pytest.param(lambda r: r._replace(value=None), "value null", id="tombstone"),
    ],
)
async def test_what_changed_in_a_record_is_told(change: Callable[[Plain], Plain], told: str) -> None:
    records = [record._replace(value=b"value", key=b"key", headers=(("a", b"1"),)) for record in RECORDS]
    copy = [*records[:7], change(records[7]), *records[8:]]
    fault = only(await compare(packed(records), packed(copy)))
    assert fault.kind is Kind.CHANGED
    assert fault.detail.startswith(told)


async def test_the_place_of_a_flipped_byte_is_told_without_showing_the_value() -> None:
    records = [record._replace(value=b"secret value %03d" % record.offset) for record in RECORDS]
    changed = bytearray(records[7].value or b"")
    changed[7] ^= 0x20
    copy = [*records[:7], records[7]._replace(value=bytes(changed)), *records[8:]]
    detail = only(await compare(packed(records), packed(copy))).detail
    assert detail == "value differs in 1 of 16 bytes, the first is byte 7"


@pytest.mark.parametrize("at", [0, 1, 150, 298, 299])
@pytest.mark.parametrize("apart", [0, 1, 40, 200])
async def test_one_doubled_record_is_named(at: int, apart: int) -> None:
    again = min(at + 1 + apart, 300)
    copy = numbered([*RECORDS[:again], RECORDS[at], *RECORDS[again:]])
    fault = only(await compare(packed(RECORDS, producer_id=1), packed(copy, seed=5, producer_id=1)))
    assert (fault.kind, fault.source, fault.target, fault.count) == (Kind.DOUBLED, (at, at), (again, again), 1)


@pytest.mark.parametrize(("here", "there"), [(0, 1), (10, 11), (10, 60), (60, 10), (0, 299), (298, 299), (100, 297)])
async def test_one_record_out_of_order_is_named(here: int, there: int) -> None:
    rest = RECORDS[:here] + RECORDS[here + 1 :]
    copy = numbered([*rest[:there], RECORDS[here], *rest[there:]])
    fault = only(await compare(packed(RECORDS), packed(copy)))
    assert fault.kind is Kind.REORDERED
    # Of two neighbours either may be called the one that moved.
    assert (fault.source, fault.target) == ((here, here), (there, there)) or abs(here - there) == 1


async def test_two_blocks_that_changed_places_are_reordered_records() -> None:
    copy = numbered(RECORDS[:50] + RECORDS[100:150] + RECORDS[50:100] + RECORDS[150:])
    findings = await compare(packed(RECORDS), packed(copy))
    assert findings.counts == {Kind.REORDERED: 50, **dict.fromkeys(set(findings.counts) - {Kind.REORDERED}, 0)}


@pytest.mark.parametrize("at", [0, 150, 300])
async def test_a_record_of_somebody_else_is_named(at: int) -> None:
    stranger = some_records(99, 1)[0]._replace(value=b"not from the source")
    copy = numbered([*RECORDS[:at], stranger, *RECORDS[at:]])
    fault = only(await compare(packed(RECORDS), packed(copy)))
    assert (fault.kind, fault.source, fault.target) == (Kind.FOREIGN, None, (at, at))


@pytest.mark.parametrize(
    ("writer", "detail"), [(5, "the producer that copied the record before wrote it: the source has lost it"), (6, "")]
)
async def test_what_a_truncated_source_has_lost_is_told_from_what_somebody_else_wrote(writer: int, detail: str) -> None:
    lost = some_records(99, 40)
    copy = numbered([*RECORDS[:150], *lost, *RECORDS[150:]])
    target = [
        batch
        for first, last, producer in ((0, 150, 5), (150, 190, writer), (190, 340, 7))
        for batch in packed(copy[first:last], producer_id=producer, producer_epoch=0)
    ]
    fault = only(await compare(packed(RECORDS), target))
    assert (fault.kind, fault.source, fault.target, fault.count) == (Kind.FOREIGN, None, (150, 189), 40)
    assert fault.detail == detail


@pytest.mark.parametrize(("first", "last"), [(0, 99), (100, 150), (250, 299)])
async def test_missing_neighbours_are_one_range(first: int, last: int) -> None:
    copy = numbered(RECORDS[:first] + RECORDS[last + 1 :])
    fault = only(await compare(packed(RECORDS), packed(copy)))
    assert (fault.kind, fault.source, fault.count) == (Kind.MISSING, (first, last), last - first + 1)


async def test_tens_of_thousands_missing_are_one_range() -> None:
    records = [record._replace(timestamp=i) for i, record in enumerate(some_records(7, 40_000, size=3))]
    copy = numbered(records[:100] + records[35_000:])
    fault = only(await compare(packed(records, size=500), packed(copy, size=500)))
    assert (fault.kind, fault.source, fault.count) == (Kind.MISSING, (100, 34_999), 34_900)


@pytest.mark.parametrize("back", [1, 5, 31, 40, 200])
async def test_what_a_restarted_copier_repeats_is_no_fault(back: int) -> None:
    first = packed(RECORDS[:220], producer_id=1)
    second = packed(numbered(RECORDS[220 - back :], 220), producer_id=1, producer_epoch=1, seed=3)
    findings = await compare(packed(RECORDS), first + second)
    assert (findings.faults(), findings.repeated, findings.equal) == (0, back, 300)
    assert findings.faults(strict=True) == back


async def test_a_batch_may_end_a_repeat_and_go_on_with_what_is_new() -> None:
    source = [encode(RECORDS[:100]), encode(RECORDS[100:110]), encode(RECORDS[110:])]
    first = packed(RECORDS[:104], producer_id=1)
    again = [numbered(RECORDS[90:100], 104), numbered(RECORDS[100:110], 114), numbered(RECORDS[110:], 124)]
    findings = await compare(source, first + [encode(each, producer_id=1, producer_epoch=1) for each in again])
    assert (findings.faults(), findings.repeated, findings.equal) == (0, 14, 300)


async def test_a_copier_that_is_ended_while_it_repeats_makes_no_faults() -> None:
    parts = [(0, 200), (100, 180), (120, 150), (130, 300)]
    copy, at = [], 0
    for epoch, (begin, end) in enumerate(parts):
        copy += packed(numbered(RECORDS[begin:end], at), producer_id=1, producer_epoch=epoch, seed=epoch)
        at += end - begin
    findings = await compare(packed(RECORDS), copy)
    assert (findings.faults(), findings.repeated, findings.equal) == (0, at - 300, 300)


@pytest.mark.parametrize("back", [5, 100])
async def test_what_one_producer_wrote_twice_is_doubled(back: int) -> None:
    copy = numbered(RECORDS[:220] + RECORDS[220 - back :])
    fault = only(await compare(packed(RECORDS, producer_id=1), packed(copy, producer_id=1)))
    assert (fault.kind, fault.source, fault.count) == (Kind.DOUBLED, (220 - back, 219), back)


async def test_records_that_are_not_there_yet_are_no_fault_behind_the_position() -> None:
    assert (await compare(packed(RECORDS), packed(RECORDS[:200]), until=200)).faults() == 0
    fault = only(await compare(packed(RECORDS), packed(RECORDS[:200]), until=201))
    assert (fault.kind, fault.source) == (Kind.MISSING, (200, 200))


async def test_a_record_missing_behind_the_position_is_one_if_later_ones_are_there() -> None:
    copy = numbered(RECORDS[:250] + RECORDS[251:290])
    fault = only(await compare(packed(RECORDS), packed(copy), until=200))
    assert (fault.kind, fault.source) == (Kind.MISSING, (250, 250))


async def test_what_compaction_took_from_the_target_is_not_missing() -> None:
    left = [record for record in RECORDS if record.offset % 7 == 0 or record.offset == 299]
    findings = await compare(packed(RECORDS), packed(left))
    assert (findings.faults(), findings.gone_from_target, findings.equal) == (0, 300 - len(left), len(left))


async def test_what_compaction_took_from_the_source_is_not_foreign() -> None:
    left = [record for record in RECORDS if record.offset % 7 == 6 or record.offset == 299]
    findings = await compare(packed(left), packed(RECORDS))
    assert (findings.faults(), findings.gone_from_source, findings.equal) == (0, 300 - len(left), len(left))


async def test_a_changed_record_is_found_among_what_compaction_left() -> None:
    left = [record for record in RECORDS if record.offset % 7 == 6]
    copy = [flipped(r) if r.offset == 48 else r for r in RECORDS[:294]]
    findings = await compare(packed(left), packed(copy))
    assert findings.faults() == 1


async def test_what_retention_took_from_the_front_of_the_target_is_not_missing() -> None:
    findings = await compare(
        packed(RECORDS), MemoryLog(packed(RECORDS[100:]), start=100), start=(0, 100), holes=(0, 100)
    )
    assert (findings.faults(), findings.gone_from_target, findings.equal) == (0, 100, 200)


async def test_what_retention_took_from_the_front_of_the_source_is_not_foreign() -> None:
    findings = await compare(
        MemoryLog(packed(RECORDS[100:]), start=100), packed(RECORDS), start=(100, 0), holes=(100, 0)
    )
    assert (findings.faults(), findings.gone_from_source, findings.equal) == (0, 100, 200)


async def test_transactions_are_compared_as_a_reader_of_committed_records_sees_them() -> None:
    transactional = {"attributes": 0x10, "producer_id": 7}
    marker = b"\x10\x00\x00\x00\x08\x00\x00\x00\x00\x02\x00"  # an abort marker: key (0, 0), value null
    source = [
        encode(RECORDS[:10]),
        encode(RECORDS[10:20], **transactional),
        _control(20, marker, producer_id=7),
        encode(numbered(RECORDS[20:30], 21)),
    ]
    copy = packed(numbered(RECORDS[:10] + RECORDS[20:30]))
    findings = await compare(MemoryLog(source, aborted=[(7, 10)]), copy, source_committed=True)
    assert (findings.faults(), findings.equal) == (0, 20)
    # A link that reads uncommitted copies them all.
    everything = await compare(source, packed(numbered(RECORDS[:30])))
    assert (everything.faults(), everything.equal) == (0, 30)


def _control(offset: int, record: bytes, **header: int) -> bytes:
    whole = encode([Plain(offset, 0, b"\x00\x00\x00\x00", None, ())])
    return patched(whole, attributes=0x30, **header)


async def test_timestamps_of_a_log_append_time_target_are_not_compared() -> None:
    copy = packed(RECORDS, attributes=0x08, max_timestamp=1_800_000_000_000)
    findings = await compare(packed(RECORDS), copy)
    assert (findings.faults(), findings.equal) == (0, 300)
    assert "LogAppendTime" in findings.notes[0]


async def test_batches_with_append_times_on_both_sides_are_compared_as_a_whole() -> None:
    source, copy = (packed(RECORDS, attributes=0x08, max_timestamp=at) for at in (1_700_000_000_000, 1_800_000_000_000))
    findings = await compare(source, copy)
    assert (findings.faults(), findings.equal) == (0, 300)
    assert "LogAppendTime" in findings.notes[0]


async def test_a_log_append_time_source_gives_its_batches_time_to_the_records() -> None:
    stamped = packed(RECORDS[:10], size=1, attributes=0x08, max_timestamp=77)
    assert (await compare(stamped, packed([r._replace(timestamp=77) for r in RECORDS[:10]]))).faults() == 0
    assert (await compare(stamped, packed(RECORDS[:10]))).faults() == 10


async def test_a_damaged_batch_of_the_target_is_told_and_its_records_are_not_called_missing() -> None:
    batches = packed(RECORDS, size=5)
    broken = bytearray(batches[20])
    broken[-1] ^= 1
    findings = await compare(batches, [*batches[:20], bytes(broken), *batches[21:]])
    assert len(findings.notes) == 1
    assert findings.faults() == 0
    assert findings.equal + findings.gone_from_target == 300


async def test_what_lies_in_a_damaged_last_batch_is_not_called_missing() -> None:
    batches = packed(RECORDS, size=5)
    broken = bytearray(batches[-1])
    broken[-1] ^= 1
    findings = await compare(batches, [*batches[:-1], bytes(broken)])
    assert findings.faults() == 0
    assert findings.equal + findings.gone_from_target == 300


async def test_counting_goes_on_when_no_more_is_listed() -> None:
    copy = [flipped(r) if r.offset % 10 == 0 else r for r in RECORDS]
    findings = await compare(packed(RECORDS), packed(copy), most_listed=5)
    assert (len(findings.listed), findings.counts[Kind.CHANGED]) == (5, 30)


async def test_an_empty_copy_lacks_everything() -> None:
    findings = await compare(packed(RECORDS), [])
    assert only(findings).source == (0, 299)


async def test_a_copy_of_nothing_is_equal() -> None:
    assert (await compare([], [])).faults() == 0


MUTATIONS = [Kind.MISSING, Kind.DOUBLED, Kind.REORDERED, Kind.CHANGED, Kind.FOREIGN]


@pytest.mark.parametrize("seed", numbers(25, 150))
async def test_any_single_fault_in_any_stream_is_found_in_its_place(seed: int) -> None:
    rng = random.Random(seed)
    records = some_records(seed, rng.randint(2, 120))
    # Two equal records can't be distinguished, so a fault could be of either.
    records = [r._replace(key=b"%d" % r.offset) for r in records]
    kind, at = rng.choice(MUTATIONS), rng.randrange(len(records))
    copy = list(records)
    expected: tuple[tuple[int, int] | None, ...]
    if kind is Kind.MISSING:
        del copy[at]
        expected = ((at, at),)
    elif kind is Kind.DOUBLED:
        copy.insert(rng.randint(at + 1, len(copy)), copy[at])
        expected = ((at, at),)
    elif kind is Kind.CHANGED:
        copy[at] = flipped(copy[at], rng.randrange(100))
        expected = ((at, at),)
    elif kind is Kind.FOREIGN:
        copy.insert(at, some_records(seed + 10_000, 1)[0]._replace(key=b"stranger"))
        expected = (None,)
    else:
        to = rng.choice([place for place in range(len(records)) if place != at])
        copy.insert(to, copy.pop(at))
        expected = ((at, at), (to, to)) if abs(to - at) == 1 else ((at, at),)
    layout = {"seed": seed + 1, "size": rng.randint(1, 30), "codec": rng.choice([0, 1, 2, 3, 4]), "producer_id": 1}
    source = MemoryLog(packed(records, seed=seed, size=rng.randint(1, 30)), at_once=rng.randint(1, 9))
    findings = await compare(source, MemoryLog(packed(numbered(copy), **layout), at_once=rng.randint(1, 9)))
    fault = only(findings)
    assert (fault.kind, fault.count) == (kind, 1)
    assert fault.source in expected
    # And the other way round: without the fault there is nothing.
    assert (await compare(packed(records, seed=seed), packed(records, **layout))).faults(strict=True) == 0


@pytest.mark.parametrize("seed", numbers(20, 40))
async def test_several_faults_are_all_counted(seed: int) -> None:
    rng = random.Random(seed)
    records = [r._replace(key=b"%d" % r.offset) for r in some_records(seed, 400)]
    places = sorted(rng.sample(range(5, 395, 10), 8), reverse=True)
    copy, expected = list(records), dict.fromkeys(Kind, 0)
    for at in places:
        kind = rng.choice([Kind.MISSING, Kind.CHANGED, Kind.DOUBLED])
        expected[kind] += 1
        if kind is Kind.MISSING:
            del copy[at]
        elif kind is Kind.CHANGED:
            copy[at] = flipped(copy[at])
        else:
            copy.insert(at, copy[at])
    findings = await compare(packed(records, seed=seed), packed(numbered(copy), seed=seed + 1, producer_id=1))
    assert {kind: findings.counts[kind] for kind in Kind} == expected
