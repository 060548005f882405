"""Sampling of one partition finds every fault between two samples, and nothing else."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable

import pytest

from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.findings import Fault, Kind
from mirror_connect.verify.sampled_partition import SampledPartition
from tests.fakes.encoded_batches import NOW, Plain, encode, patched, some_records
from tests.fakes.partition_logs import numbered, packed
from tests.fakes.peeked_logs import MemoryPeek, followed

WHOLE = float("inf")
Stream = list[Plain]


def records(seed: int, count: int, *, rising: bool = True) -> Stream:
    made = some_records(seed, count, size=20)
    return [each._replace(timestamp=NOW + number) for number, each in enumerate(made)] if rising else made


def settled(partition: SampledPartition) -> int:
    tally = partition.tally
    return tally.compared + tally.counted + tally.passed + tally.gone


@pytest.mark.parametrize("samples", [1, 3, WHOLE])
@pytest.mark.parametrize("seed", range(8))
async def test_a_true_copy_has_no_fault_however_it_was_batched_and_sampled(seed: int, samples: float) -> None:
    rng = random.Random(seed)
    stream = records(seed, 600, rising=seed % 2 == 0)
    copy = packed(stream, seed=seed + seed % 3, producer_id=5, producer_epoch=1)
    steps = [*sorted(rng.sample(range(1, 600), 4)), 600]
    partition = await followed(packed(stream, seed=seed), copy, samples=samples, seed=seed, steps=steps)
    assert (partition.tally.findings.faults(), partition.tally.findings.repeated) == (0, 0)
    assert partition.tally.compared > 0


async def test_everything_is_compared_where_there_is_room_for_everything() -> None:
    stream = records(1, 500)
    partition = await followed(packed(stream), packed(stream, seed=4), steps=[1, 120, 121, 400, 500])
    assert (partition.tally.compared, partition.tally.findings.equal, settled(partition)) == (500, 500, 500)


@pytest.mark.parametrize("seed", range(4))
async def test_between_samples_everything_is_counted(seed: int) -> None:
    stream = records(seed, 3000)
    partition = await followed(packed(stream), packed(stream), samples=2, seed=seed, steps=[1000, 2000, 3000])
    tally = partition.tally
    assert (tally.passed, tally.gone) == (0, 0)
    assert tally.counted > 2 * tally.compared


FAULTS: dict[Kind, Callable[[Stream], Stream]] = {
    Kind.MISSING: lambda stream: stream[:1500] + stream[1501:],
    Kind.DOUBLED: lambda stream: stream[:1501] + stream[1500:],
    Kind.FOREIGN: lambda stream: [*stream[:1500], stream[1500]._replace(value=b"stranger"), *stream[1500:]],
    Kind.CHANGED: lambda stream: [*stream[:1500], stream[1500]._replace(value=b"another"), *stream[1501:]],
    Kind.REORDERED: lambda stream: [*stream[:1500], *stream[1501:1505], stream[1500], *stream[1505:]],
}


@pytest.mark.parametrize("kind", FAULTS)
@pytest.mark.parametrize("same_batches", [True, False])
async def test_compared_whole_each_kind_of_fault_is_named(kind: Kind, same_batches: bool) -> None:
    stream = records(2, 3000)
    copy = packed(numbered(FAULTS[kind](stream)), seed=0 if same_batches else 9, producer_id=5, producer_epoch=1)
    partition = await followed(packed(stream), copy, steps=[1400, 3000])
    (fault,) = partition.tally.findings.listed
    assert (fault.kind, fault.source) == (kind, None if kind is Kind.FOREIGN else (1500, 1500))


@pytest.mark.parametrize("kind", [Kind.MISSING, Kind.DOUBLED, Kind.FOREIGN])
@pytest.mark.parametrize("seed", range(6))
async def test_what_is_too_few_or_too_many_is_found_without_being_sampled(kind: Kind, seed: int) -> None:
    stream = records(2, 3000)
    target = MemoryPeek("target", packed(numbered(FAULTS[kind](stream)), producer_id=5, producer_epoch=1))
    partition = await followed(packed(stream), target, samples=1, seed=seed, steps=[1000, 2000, 3000])
    (fault,) = partition.tally.findings.listed
    assert (fault.kind, fault.source) == (kind, None if kind is Kind.FOREIGN else (1500, 1500))
    # Searched by halves: a small part of it was read.
    assert target.fetches < 80


async def test_faults_in_a_row_are_found_one_after_the_other() -> None:
    stream = records(3, 4000)
    wrong = [each for each in stream if each.offset not in (700, 1900, 1901, 3100)]
    partition = await followed(packed(stream), packed(numbered(wrong)), samples=2, steps=range(500, 4001, 500))
    places = [fault.source for fault in partition.tally.findings.listed]
    assert places == [(700, 700), (1900, 1901), (3100, 3100)]


@pytest.mark.parametrize("samples", [1, 2, WHOLE])
async def test_what_a_restart_repeated_is_no_fault(samples: float) -> None:
    stream = records(4, 3000)
    before = packed(stream[:1500], producer_id=5, producer_epoch=1)
    after = packed(numbered(stream[1400:], 1500), seed=1, producer_id=5, producer_epoch=2)
    partition = await followed(packed(stream), before + after, samples=samples, steps=[1000, 2000, 3000])
    assert (partition.tally.findings.faults(), partition.tally.findings.repeated) == (0, 100)


@pytest.mark.parametrize("samples", [1, 2, WHOLE])
@pytest.mark.parametrize("seed", range(4))
async def test_a_source_of_transactions_has_no_fault_and_is_not_counted(samples: float, seed: int) -> None:
    rng, source, plain, offset = random.Random(seed), list[bytes](), list[Plain](), 0
    for each in records(5, 1500):
        plain.append(each._replace(offset=offset))
        source.append(encode(plain[-1:]))
        offset += 1
        if rng.random() < 0.2:
            marker = each._replace(offset=offset, key=b"\0\0\0\1", value=b"\0" * 6)
            source.append(patched(encode([marker]), attributes=0x30, producer_id=7, producer_epoch=0))
            offset += 1
    copy = packed(numbered(plain), seed=seed)
    steps = range(offset // 8, offset, offset // 8)
    partition = await followed(
        MemoryPeek("source", source, at_once=20), copy, samples=samples, seed=seed, steps=[*steps]
    )
    assert partition.tally.findings.faults() == 0
    assert partition.tally.findings.equal > 0
    if samples != WHOLE:
        assert partition.thin


@pytest.mark.parametrize("samples", [1, 2, WHOLE])
async def test_a_copier_that_writes_transactions_is_sampled_without_a_fault(samples: float) -> None:
    stream = records(5, 1500)
    copy: list[bytes] = []
    for first in range(0, 1500, 10):
        at = first + first // 10
        batch = numbered(stream[first : first + 10], at)
        marker = batch[0]._replace(offset=at + 10, key=b"\0\0\0\1", value=b"\0" * 6)
        copy.append(encode(batch, attributes=0x10, producer_id=7, producer_epoch=0))
        copy.append(patched(encode([marker]), attributes=0x30, producer_id=7, producer_epoch=0))
    target = MemoryPeek("target", copy, at_once=20, committed=True)
    partition = await followed(packed(stream), target, samples=samples, steps=range(150, 1501, 150))
    assert (partition.tally.findings.faults(), partition.tally.findings.repeated) == (0, 0)
    assert partition.tally.compared > 0


async def test_what_retention_took_from_either_side_is_gone_and_no_fault() -> None:
    stream = records(6, 1000)
    source, target = MemoryPeek("source", packed(stream)), MemoryPeek("target", packed(stream))
    partition = await followed(source, target, steps=[300])
    source.gone, target.gone = 400, 450
    partition.until = 1000
    partition.plan(WHOLE)
    while await partition.step():
        pass
    tally = partition.tally
    # The last batch before the step was compared to its end.
    assert (tally.findings.faults(), tally.passed, tally.compared + tally.gone) == (0, 0, 1000)
    assert 100 < tally.gone <= 150


async def test_everything_gone_ends_the_round() -> None:
    source, target = MemoryPeek("source", packed(records(6, 1000))), MemoryPeek("target", [])
    source.gone = 1000
    partition = await followed(source, target)
    assert (partition.tally.gone, partition.tally.compared, partition.pending) == (1000, 0, 0)


async def test_only_what_a_second_look_confirms_is_told() -> None:
    stream = records(7, 300)
    whole = packed(stream)
    source, target = MemoryPeek("source", whole), MemoryPeek("target", whole[:-5])
    told: list[Fault] = []

    async def it_was_late() -> bool:
        target.log.batches = list(whole)
        return True

    partition = SampledPartition(source, target, 0, rng=random.Random(1), doubt=it_was_late, on_fault=told.append)
    partition.guesses, partition.until = (0,), 300
    partition.plan(WHOLE)
    while await partition.step():
        pass
    assert (told, partition.tally.findings.faults(), partition.tally.compared) == ([], 0, 300)


async def test_of_a_topic_that_is_another_by_now_nothing_is_told() -> None:
    source, target = MemoryPeek("source", packed(records(8, 300))), MemoryPeek("target", packed(records(9, 300)))
    told: list[Fault] = []

    async def another() -> bool:
        partition.restart(0)
        return False

    partition = SampledPartition(source, target, 0, rng=random.Random(1), doubt=another, on_fault=told.append)
    partition.guesses, partition.until = (0,), 300
    source.log.batches[:5] = target.log.batches[:5] = packed(records(8, 300))[:5]
    partition.plan(WHOLE)
    while await partition.step():
        pass
    assert (told, partition.tally.findings.faults()) == ([], 0)
    assert partition.copied == 300


async def test_timestamps_lead_to_the_copy_where_nothing_else_does() -> None:
    stream = records(10, 900)
    strangers = [each._replace(timestamp=NOW - 1, value=b"before") for each in records(11, 400)]
    copy = packed(numbered(strangers) + numbered(stream, 400))
    partition = await followed(packed(stream), copy, guesses=(), steps=[300, 900])
    assert (partition.tally.findings.faults(), partition.tally.compared) == (0, 900)


async def test_a_damaged_batch_of_the_target_is_a_fault() -> None:
    stream = records(12, 300)
    copy = packed(stream)
    damaged = bytearray(copy[10])
    damaged[-1] ^= 1
    partition = await followed(packed(stream), [*copy[:10], bytes(damaged), *copy[11:]])
    assert partition.tally.findings.counts[Kind.UNREADABLE] == 1


async def test_a_damaged_batch_of_the_source_is_no_fault_of_the_copy_and_no_success() -> None:
    stream = records(12, 300)
    source = packed(stream)
    damaged = bytearray(source[10])
    damaged[-1] ^= 1
    partition = await followed([*source[:10], bytes(damaged), *source[11:]], packed(stream))
    assert partition.tally.findings.counts.total() == partition.tally.findings.counts[Kind.FOREIGN]
    assert "the source's batch" in (partition.tally.findings.error or "")


@pytest.mark.parametrize("samples", [1, 3, WHOLE])
async def test_what_is_looked_at_again_after_trouble_is_counted_once(samples: float) -> None:
    stream = records(13, 2000)
    source, target = MemoryPeek("source", packed(stream)), Unreliable("target", packed(stream, seed=2))

    async def still_the_same() -> bool:
        return True

    partition = SampledPartition(source, target, 0, rng=random.Random(1), doubt=still_the_same)
    partition.guesses = (0,)
    for until in range(100, 2001, 100):
        partition.until = until
        for _ in range(3):
            partition.plan(samples)
            with contextlib.suppress(CannotCompareError):
                while await partition.step():
                    pass
    # The last batch may reach beyond.
    assert settled(partition) <= partition.copied + 10
    assert (partition.tally.findings.faults(), partition.tally.compared > 0) == (0, True)


class Unreliable(MemoryPeek):
    """Every fifth fetch fails."""

    async def fetch(self, offset: int) -> CompletedFetch | None:
        found = await super().fetch(offset)
        if self.fetches % 5 == 0:
            raise CannotCompareError("away")
        return found
