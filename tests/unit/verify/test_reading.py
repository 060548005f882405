"""Nothing unread is called equal, and hidden records excuse a difference only if they are gone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import cast

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.batch_heads import BatchHead, heads
from mirror_connect.kafka_io.consumer.record_reader import Found, FoundRecord, RecordReader
from mirror_connect.verify.batch_side import BatchSide
from mirror_connect.verify.cluster_logs import ClusterLogs, RecordLog
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.findings import Findings
from mirror_connect.verify.plan import Job
from mirror_connect.verify.record_side import missing
from mirror_connect.verify.run import Result, hidden, made_again, unread
from tests.fakes.encoded_batches import encode, patched, some_records
from tests.fakes.partition_logs import MemoryLog

BATCH = encode(some_records(1, 10))


@pytest.mark.parametrize(
    ("until", "target_end", "told"),
    [(10, 10, None), (11, 10, "source's log ended at offset 10"), (10, 11, "target's log ended at offset 10")],
)
async def test_a_log_that_ends_too_early_is_no_equal_copy(until: int, target_end: int, told: str | None) -> None:
    sides = [BatchSide(MemoryLog([BATCH]), lambda *_: None) for _ in range(2)]
    for side in sides:
        side.drop(len(await side.want(100)))
    found = unread(Job("t", 0, "A.t", 0, until, until, 0, target_end), *sides)
    assert found is None if told is None else told in (found or "")


@pytest.mark.parametrize(
    ("before", "now", "told"),
    [
        ({"t": "1"}, {"t": "1"}, None),
        (
            {"t": "1"},
            {"t": "2"},
            "the source's topic t was deleted and created again during the comparison: run verify again",
        ),
        pytest.param({}, {"t": "2"}, None, id="nobody_told_its_id_before"),
        pytest.param({"t": "1"}, {}, None, id="nobody_tells_its_id_now"),
    ],
)
def test_a_topic_that_was_made_again_meanwhile_is_not_compared(
    before: dict[str, str], now: dict[str, str], told: str | None
) -> None:
    result = Result(Job("t", 0, "A.t", 0, 1, 1), Findings(equal=1))
    made_again("source", before, now, [result], lambda job: job.topic)
    assert result.findings.error == told


def head(
    first: int, last: int, *, records: int | None = None, control: bool = False, aborted: bool = False
) -> BatchHead:
    count = last + 1 - first if records is None else records
    return BatchHead(first, last, count, (7, 0), control=control, aborted=aborted)


@pytest.mark.parametrize(
    ("there", "told"),
    [
        pytest.param([head(0, 9)], "no record was read on either side", id="records_that_nobody_showed"),
        pytest.param([head(0, 8, aborted=True), head(9, 9, control=True)], None, id="an_aborted_transaction"),
        pytest.param([], None, id="what_compaction_took"),
    ],
)
async def test_two_sides_that_read_nothing_are_equal_only_if_there_is_nothing(
    there: list[BatchHead], told: str | None
) -> None:
    class Log:
        async def heads(
            self, first: int, last: int, *, enough: Callable[[BatchHead], bool] | None = None
        ) -> list[BatchHead]:
            assert (first, last) == (0, 9)
            return there

    found = await hidden(Job("t", 0, "A.t", 0, 10, 10, 0, 0), Log())
    assert found is None if told is None else told in (found or "")


@pytest.mark.parametrize(
    ("there", "gone"),
    [
        pytest.param([], 10, id="nothing_is_there"),
        pytest.param([head(5, 14)], 0, id="records_of_an_aborted_transaction_or_hidden_ones"),
        pytest.param([head(0, 9, aborted=True), head(10, 10, control=True), head(11, 20)], 0, id="a_marker"),
        pytest.param([head(0, 6), head(12, 30)], 5, id="between_two_batches"),
        pytest.param([head(0, 19, records=16)], 4, id="a_batch_that_lacks_four"),
        pytest.param([head(5, 14, records=10), head(15, 20)], 0, id="nothing_else"),
    ],
)
def test_only_what_is_gone_from_the_log_is_a_hole(there: list[BatchHead], gone: int) -> None:
    assert missing(there, 5, 15, set()) == gone


def test_a_damaged_batch_is_a_hole() -> None:
    assert missing([head(0, 9), head(10, 19)], 5, 20, {10}) == 10


def test_headers_are_cut_out_of_a_fetch_whose_last_batch_is_not_whole() -> None:
    first = encode(some_records(1, 5), producer_id=3, producer_epoch=2)
    marker = patched(encode(some_records(2, 1, first=5)), attributes=0x30, producer_id=4)
    thin = encode(some_records(3, 3, first=6), last=20, attributes=0x10, producer_id=4)
    assert heads(first + marker + thin[:70], {4}) == [
        BatchHead(0, 4, 5, (3, 2), control=False, aborted=False),
        BatchHead(5, 5, 1, (4, -1), control=True, aborted=True),
        BatchHead(6, 20, 3, (4, -1), control=False, aborted=True),
    ]


class FakeReader:
    """Returns what a test gives it, one by one, and then nothing."""

    received = 0

    def __init__(self, *found: Found) -> None:
        self.found = list(found)
        self.begun: list[int] = []

    def read(self) -> Found:
        return self.found.pop(0) if self.found else Found()

    def begin(self, _topic: str, _partition: int, offset: int) -> None:
        self.begun.append(offset)

    def rest(self) -> None:
        pass


class FakeCluster:
    """The part of ClusterLogs that a RecordLog uses. `last`: the partition's end by its leader."""

    role, committed, patience_s = "source", False, 0.05

    def __init__(self, reader: FakeReader, last: int = 10, first: int = 0, there: Sequence[BatchHead] = ()) -> None:
        self.reader, self.there = reader, there
        self.ends = {-2: first, -1: last}

    async def take(self) -> RecordReader:
        return cast("RecordReader", self.reader)

    async def blocking(self, call: Callable[..., object], *arguments: object) -> object:
        await asyncio.sleep(0)
        return call(*arguments)

    async def charge(self, *_: object) -> None:
        pass

    async def offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {key: self.ends[at] for key, at in wanted.items()}

    async def heads(self, _reader: object, _key: object, first: int, last: int) -> list[BatchHead]:
        return [each for each in self.there if each.last >= first and each.first <= last]


def records(*offsets: int) -> list[FoundRecord]:
    return [(offset, 1, (b"k", b"v", ())) for offset in offsets]


def log(cluster: FakeCluster, end: int = 10) -> RecordLog:
    return RecordLog(cast("ClusterLogs", cluster), TopicPartition("t", 0), 0, end)


async def test_what_came_since_the_comparison_began_is_not_read() -> None:
    found = log(FakeCluster(FakeReader(Found(records(*range(7, 13))))))
    piece = await found.read()
    assert piece is not None
    assert ([each[0] for each in piece.records], piece.end) == ([7, 8, 9], 10)
    assert await found.read() is None


async def test_an_end_that_a_leader_shows_too_early_is_not_the_end() -> None:
    found = log(FakeCluster(FakeReader(Found(records(0, 1), end=2), Found(records(*range(2, 10)))), last=10))
    assert [(await found.read() or pytest.fail("it ended")).end for _ in range(2)] == [2, 10]


async def test_a_log_that_has_become_shorter_ends_there() -> None:
    found = log(FakeCluster(FakeReader(Found(records(0, 1), end=2)), last=2))
    piece = await found.read()
    assert piece is not None
    assert (piece.end, await found.read()) == (2, None)


async def test_a_position_that_retention_took_is_left_for_the_logs_beginning() -> None:
    reader = FakeReader(Found(lost=True), Found(records(6, 7, 8, 9)))
    piece = await log(FakeCluster(reader, first=6)).read()
    assert piece is not None
    assert (reader.begun, [each[0] for each in piece.records]) == ([0, 6], [6, 7, 8, 9])


async def test_behind_a_damaged_batch_it_is_gone_on_where_its_header_says() -> None:
    # librdkafka goes on anywhere: what it gives from there on is not used.
    reader = FakeReader(Found(records(0, 1, 7), damaged=[(2, "wrong"), (1 << 60, "nonsense")]), Found(records(5, 6)))
    found = log(FakeCluster(reader, there=[head(0, 1), head(2, 4), head(5, 9)]))
    piece = await found.read()
    assert piece is not None
    assert ([each[0] for each in piece.records], piece.damaged, piece.end) == ([0, 1], ((2, "wrong"),), 5)
    assert reader.begun == [0, 5]


async def test_a_partition_of_which_nothing_comes_is_no_empty_one() -> None:
    with pytest.raises(CannotCompareError, match="source partition t-0 can't be read: no broker"):
        await log(FakeCluster(FakeReader(*[Found(problem="no broker")] * 100_000))).read()
    with pytest.raises(CannotCompareError, match="nothing came"):
        await log(FakeCluster(FakeReader())).read()
