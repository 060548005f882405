"""The ranges of one partition: what is recorded of its batches, and when these records are complete."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from mirror_connect.connectors.problems import Problems
from mirror_connect.connectors.rights import SOURCE_USER
from mirror_connect.connectors.task_protocol import TaskPartition
from mirror_connect.connectors.translation.offset_range_index import Kind, RangeIndex
from mirror_connect.connectors.translation.offset_ranges import Segment
from mirror_connect.kafka_io.records.record_batch import NewRecord, ProducerBatch
from mirror_connect.spark_jobs.mapping import offset_ranges_writer, offset_syncs_writer
from mirror_connect.spark_jobs.mapping.offset_mapping import OffsetMapping
from mirror_connect.spark_jobs.mapping.offset_ranges_writer import OffsetRangesWriter
from mirror_connect.spark_jobs.mapping.partition_ranges import MOST_EARLY, PartitionRanges
from tests.fakes.whole_cluster import FakeBroker, FakeClusters

SYNCS, RANGES = "mm2-offset-syncs.B.internal", "mm2-offset-runs.A.internal"


class Parts:
    """An OffsetMapping whose topic is never read: what it would write is taken out."""

    def __init__(self, reading_from: int | None = None) -> None:
        self.ids = [b"s" * 16, b"t" * 16]
        self.ranges = OffsetRangesWriter(
            RANGES,
            None,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            lambda _topic: self.ids[0],
            lambda _topic: self.ids[1],
            problems=Problems(print),
            counters={},
        )
        self.partition = self.ranges.add(TaskPartition("orders", 0, "A.orders"), reading_from)

    def index(self) -> RangeIndex:
        made = RangeIndex()
        assert self.partition.recorder is not None
        for key, value in self.partition.recorder.changed():
            made.add(Segment.decode(key, value))
        return made


@pytest.fixture
def parts() -> Parts:
    return Parts()


def batch(first: int, last: int, ranges: tuple[tuple[int, int], ...] | None = None) -> ProducerBatch:
    count = last - first + 1 if ranges is None else sum(count for _, count in ranges)
    return ProducerBatch(b"", count, first, last, 0, 0, 0, upstream_offsets=ranges)


@pytest.mark.kafka_test("MirrorSourceTaskTest.testCommitRecordWithNullMetadata")
async def test_a_batch_of_unknown_place_makes_no_sync_and_leaves_a_gap_of_unknown_content(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_syncs_writer, "Cluster", FakeClusters({"a": FakeBroker()}))
    syncs = offset_syncs_writer.OffsetSyncs(
        {"bootstrap.servers": "a"},
        "id",
        SYNCS,
        "source cluster A",
        0,
        user=SOURCE_USER,
        lease=bool,
        problems=Problems(print),
        counters={},
    )
    parts.partition.known(None)
    mapping = OffsetMapping(syncs, parts.ranges, print)
    placed = mapping.on_placed(TaskPartition("orders", 0, "A.orders"), None)
    ranges = next(iter(parts.ranges.behind()[1:]))
    ranges.known(None)
    placed(batch(0, 9), 0)
    placed(batch(10, 19), -1)
    placed(batch(20, 29), 25)
    made = RangeIndex()
    assert ranges.recorder is not None
    for key, value in ranges.recorder.changed():
        made.add(Segment.decode(key, value))
    found = made.translate(15)
    assert found is not None
    assert (found.offset, found.kind) == (10, Kind.FLOOR)
    assert [(sync.upstream, sync.downstream) for sync in syncs.queue.take()][-1] == (29, 34)


def test_gaps_inside_a_batch_are_known_to_hold_nothing(parts: Parts) -> None:
    parts.partition.known(None)
    parts.partition.acked_ranges(((0, 2), (3, 1), (7, 3)), 0, linked=True)
    found = parts.index()
    assert [found.translate(at).offset for at in (0, 2, 3, 5, 8, 10)] == [0, 2, 2, 3, 4, 6]  # type: ignore[union-attr]


def _acked_alone(parts: Parts, count: int, upstream: int = 0, downstream: int = 0) -> None:
    for number in range(count):
        parts.partition.acked(upstream + 2 * number, 1, downstream + number, linked=True)


def test_of_too_much_before_former_ranges_are_known_only_the_newest_is_recorded(parts: Parts) -> None:
    _acked_alone(parts, MOST_EARLY + 10)
    parts.partition.passed(2 * (MOST_EARLY + 10), 2 * (MOST_EARLY + 10))
    parts.partition.known(None)
    found = parts.index()
    first = 2 * MOST_EARLY
    assert found.translate(first).offset == MOST_EARLY  # type: ignore[union-attr]
    assert found.translate(first - 2) is None


def test_too_much_before_former_ranges_are_known_hides_no_copy_that_a_crash_has_left(parts: Parts) -> None:
    # A process that has died has copied all that, and the record at 2 * (MOST_EARLY + 1), to the beginning of the remote
    # topic, and committed nothing.
    _acked_alone(parts, MOST_EARLY + 1, downstream=MOST_EARLY + 2)
    parts.partition.known(None)
    translated = parts.index().translate(2 * MOST_EARLY)
    # That last record lies at MOST_EARLY + 1 alone, until it is copied again.
    assert translated is None or translated.offset <= MOST_EARLY + 1


def test_owed_copies_are_settled_when_the_source_as_it_was_is_passed(parts: Parts) -> None:
    former = Parts()
    former.partition.known(None)
    former.partition.acked(0, 10, 0, linked=True)
    newest = former.index().newest
    later = Parts(reading_from=10)
    later.partition.known(newest)
    later.partition.acked(10, 2, 30, linked=True)
    recorder = later.partition.recorder
    assert recorder is not None
    assert recorder.owes
    later.partition.passed(11, 20)
    assert (recorder.owes, later.partition.caught_up) == (True, False)
    later.partition.passed(19, 50)
    assert (recorder.owes, later.partition.caught_up, later.ranges.behind()) == (False, True, [])


def test_owed_copies_are_settled_also_if_the_former_ranges_are_known_only_when_all_is_passed() -> None:
    former = Parts()
    former.partition.known(None)
    former.partition.acked(0, 10, 0, linked=True)
    later = Parts(reading_from=10)
    later.partition.acked(10, 2, 30, linked=True)
    later.partition.passed(11, 12)
    later.partition.known(former.index().newest)
    found = later.index()
    each = found.translate(10), found.translate(12)
    assert [(it.offset, it.exact) for it in each if it] == [(30, True), (32, True)]


def test_owed_copies_are_settled_when_a_source_that_was_truncated_since_is_passed() -> None:
    former = Parts()
    former.partition.known(None)
    former.partition.acked(0, 10, 0, linked=True)
    later = Parts(reading_from=10)
    later.partition.known(former.index().newest)
    later.partition.acked(10, 2, 30, linked=True)
    later.partition.passed(11, 20)
    recorder = later.partition.recorder
    assert recorder is not None
    assert recorder.owes
    # It ended at 20; now it is another log, which ends at 8.
    later.partition.acked(5, 3, 32, linked=True)
    later.partition.passed(7, -1)
    assert recorder.owes
    later.partition.passed(7, 8)
    assert (recorder.owes, later.partition.caught_up) == (False, True)


def test_another_target_topic_of_the_same_name_begins_a_new_incarnation(parts: Parts) -> None:
    parts.partition.known(None)
    parts.partition.acked(0, 10, 0, linked=True)
    parts.ids[1] = b"u" * 16
    parts.partition.acked(10, 5, 0, linked=True)
    found = parts.index()
    assert (found.belongs_to(b"s" * 16, b"u" * 16), found.translate(12).offset) == (True, 2)  # type: ignore[union-attr]


async def test_a_partition_given_away_leaves_nothing_to_write(parts: Parts) -> None:
    parts.partition.known(None)
    parts.partition.acked(0, 10, 0, linked=True)
    parts.ranges.forget(TaskPartition("orders", 0, "A.orders"))
    # There is no producer: to write would raise.
    assert (await parts.ranges.write(1.0), parts.ranges.behind()) == (True, [])


async def test_the_last_write_waits_though_an_earlier_one_was_late(
    parts: Parts, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, written = asyncio.Event(), []

    class SlowRecords:
        def __init__(self, *_: object) -> None: ...

        async def write(self, records: Sequence[NewRecord]) -> None:
            await slow.wait()
            written.extend(records)

    monkeypatch.setattr(offset_ranges_writer, "OwnRecords", SlowRecords)
    add_known(parts)
    parts.partition.acked(0, 10, 0, linked=True)
    assert not await parts.ranges.write(0.0)
    parts.partition.acked(10, 10, 10, linked=True)
    asyncio.get_running_loop().call_later(0.05, slow.set)
    assert await parts.ranges.write(60.0, last=True)
    parts.ranges.forget(TaskPartition("orders", 0, "A.orders"))
    found = RangeIndex()
    for record in written:
        found.add(Segment.decode(record.key or b"", record.value or b""))
    assert found.translate(20).offset == 20  # type: ignore[union-attr]


def add_known(parts: Parts) -> None:
    """The topic was read, and has nothing of the partition."""
    parts.partition.known(None)
    parts.ranges._unknown.clear()


def test_ends_of_partitions_are_asked_for_only_while_they_matter(parts: Parts) -> None:
    waiting: list[PartitionRanges] = parts.ranges.behind()
    parts.partition.known(None)
    parts.partition.passed(-1, 0)
    assert (waiting, parts.ranges.behind()) == ([parts.partition], [])


def both(monkeypatch: pytest.MonkeyPatch, parts: Parts) -> OffsetMapping:
    """Both writers; the topic of ranges was read, and held nothing."""
    monkeypatch.setattr(offset_syncs_writer, "Cluster", FakeClusters({"a": FakeBroker()}))
    syncs = offset_syncs_writer.OffsetSyncs(
        {"bootstrap.servers": "a"},
        "id",
        SYNCS,
        "source cluster A",
        6,
        user=SOURCE_USER,
        lease=lambda: True,
        problems=Problems(print),
        counters={},
    )
    return OffsetMapping(syncs, parts.ranges, print)


@pytest.mark.parametrize("seed", range(40))
async def test_the_writers_get_of_many_batches_what_they_would_get_of_each_one(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, worlds = random.Random(seed), [Parts(), Parts()]
    mappings = [both(monkeypatch, parts) for parts in worlds]
    placed = mappings[0].on_placed(TaskPartition("orders", 0, "A.orders"), None)
    ranges = [next(iter(worlds[0].ranges.behind()[1:])), worlds[1].partition]
    queues = [mapping._syncs.queue for mapping in mappings if mapping._syncs is not None]
    for each in ranges:
        each.known(None)
    upstream = downstream = 0
    linked = True
    for _ in range(60):
        kind, count = rng.random(), rng.randint(1, 9)
        if kind < 0.05:
            upstream = rng.randint(0, upstream)
        elif kind < 0.1:
            downstream = rng.randint(0, downstream)
        elif kind < 0.3:
            upstream, downstream = upstream + rng.randint(0, 3), downstream + rng.randint(0, 2)
        if kind < 0.03:
            worlds[0].ids[0] = worlds[1].ids[0] = rng.randbytes(16)
        gaps = ((upstream, count), (upstream + count + 1, 1)) if rng.random() < 0.1 else None
        made = batch(upstream, upstream + count + (2 if gaps else -1), gaps)
        known = rng.random() > 0.05
        placed(made, downstream if known else -1)
        if known and gaps:
            queues[1].acked_ranges(worlds[1].partition.partition.source, gaps, downstream)
            ranges[1].acked_ranges(gaps, downstream, linked=linked)
        elif known:
            queues[1].acked(worlds[1].partition.partition.source, upstream, downstream, count)
            ranges[1].acked(upstream, count, downstream, linked=linked)
        linked = known
        upstream, downstream = made.last_offset + 1, downstream + made.count
        if rng.random() < 0.1:
            for mapping in mappings:
                await mapping.committed()
            assert queues[0].take() == queues[1].take()
    await mappings[0].committed()
    assert ranges[0].recorder is not None
    assert ranges[1].recorder is not None
    assert ranges[0].recorder.changed() == ranges[1].recorder.changed()


async def test_two_commits_may_wait_for_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    """With transactions the last commit of an epoch comes while the ranges of the one before are being written."""
    ranges, durable, writes = Parts(0).ranges, asyncio.Event(), 0

    async def write_waiting(self: OffsetRangesWriter) -> None:
        nonlocal writes
        writes += 1
        await durable.wait()
        self._waiting.clear()

    monkeypatch.setattr(OffsetRangesWriter, "_write_waiting", write_waiting)
    monkeypatch.setattr(OffsetRangesWriter, "_collect", lambda _self: None)
    ranges._unknown.clear()
    ranges._waiting[b"key"] = b"value"
    both = [asyncio.create_task(ranges.write(10.0)), asyncio.create_task(ranges.write(10.0, last=True))]
    await asyncio.sleep(0.01)
    durable.set()
    assert await asyncio.gather(*both) == [True, True]
    assert writes == 1
