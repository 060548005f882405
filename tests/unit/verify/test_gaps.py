"""Records before a meeting get an explanation: missing, foreign, late, repeated, or gone from one of the logs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from mirror_connect.verify.batch_side import BatchSide
from mirror_connect.verify.comparison import Comparison
from mirror_connect.verify.findings import Fault, Findings, Kind
from mirror_connect.verify.gaps import Gaps
from mirror_connect.verify.lookup import Lookup
from tests.fakes.encoded_batches import Plain, some_records
from tests.fakes.partition_logs import MemoryLog, numbered, packed

RECORDS = [record._replace(key=b"%d" % record.offset) for record in some_records(1, 10)]
STRANGER = RECORDS[0]._replace(key=b"stranger", value=b"stranger")
LOST_SINCE = "the producer that copied the record before wrote it: the source has lost it"


class Compared:
    """Two logs, of which both windows hold everything. `runs`: target records by producer epoch."""

    def __init__(self, source: Sequence[Plain], *runs: Sequence[Plain]) -> None:
        self.findings = Findings()
        target: list[bytes] = []
        at = 0
        for epoch, run in enumerate(runs):
            target += packed(numbered(run, at), producer_id=9, producer_epoch=epoch)
            at += len(run)
        self.sides = tuple(BatchSide(MemoryLog(log), _damaged) for log in (packed(source), target))
        self.comparison = Comparison(
            *self.sides, self.findings, start=0, done=None, producer=None, progress=lambda _offset: None
        )
        self.gaps = Gaps(self.comparison, Lookup(self.comparison))

    async def pass_over(self, ours: int, theirs: int) -> None:
        for side in self.sides:
            await side.want(100)
        await self.gaps.pass_over(ours, theirs)


def _damaged(offset: int, reason: str) -> None:
    raise AssertionError(f"{offset}: {reason}")


def fault(kind: Kind, source: int | None, target: int | None, detail: str = "") -> Fault:
    return Fault(
        kind,
        None if source is None else (source, source),
        None if target is None else (target, target),
        detail=detail,
    )


async def test_records_that_only_the_source_has_are_missing_and_explained() -> None:
    compared = Compared(RECORDS, RECORDS[:3] + RECORDS[5:])
    await compared.pass_over(5, 3)
    assert compared.findings.listed == [Fault(Kind.MISSING, (3, 4), None, 2)]
    assert (compared.findings.equal, compared.comparison.done_to) == (3, 5)
    assert (3 in compared.comparison.missing, 5 in compared.comparison.missing) == (True, False)


@pytest.mark.parametrize(
    ("runs", "detail"),
    [
        pytest.param([RECORDS[:2], [STRANGER]], "", id="another_producer"),
        pytest.param([[*RECORDS[:2], STRANGER]], LOST_SINCE, id="the_copier_itself"),
    ],
)
async def test_a_record_that_only_the_target_has_is_foreign(runs: list[list[Plain]], detail: str) -> None:
    compared = Compared(RECORDS, *runs)
    await compared.pass_over(2, 2)
    await compared.pass_over(0, 1)
    assert compared.findings.listed == [fault(Kind.FOREIGN, None, 2, detail)]


async def test_a_foreign_record_that_is_missing_later_has_moved() -> None:
    compared = Compared(RECORDS, [RECORDS[4], *RECORDS[:4], *RECORDS[5:]])
    await compared.pass_over(0, 1)
    assert compared.findings.listed == [fault(Kind.FOREIGN, None, 0)]
    await compared.pass_over(4, 4)
    await compared.pass_over(1, 0)
    assert compared.findings.listed == [fault(Kind.REORDERED, 4, 0)]
    assert (compared.findings.counts[Kind.FOREIGN], compared.findings.counts[Kind.MISSING]) == (0, 0)


async def test_a_missing_record_that_comes_later_has_moved() -> None:
    compared = Compared(RECORDS, [*RECORDS[1:3], RECORDS[0]])
    await compared.pass_over(1, 0)
    assert compared.findings.listed == [fault(Kind.MISSING, 0, None)]
    await compared.pass_over(2, 3)
    assert compared.findings.listed == [fault(Kind.REORDERED, 0, 2)]
    assert compared.findings.counts[Kind.MISSING] == 0


@pytest.mark.parametrize(
    ("runs", "repeated", "kinds"),
    [
        pytest.param([RECORDS, RECORDS[5:]], 5, [], id="by_a_producer_that_has_just_begun"),
        pytest.param([[*RECORDS, *RECORDS[5:]]], 0, [Kind.DOUBLED], id="by_the_same_producer"),
    ],
)
async def test_records_that_come_again_are_repeated_only_after_a_restart(
    runs: list[list[Plain]], repeated: int, kinds: list[Kind]
) -> None:
    compared = Compared(RECORDS, *runs)
    await compared.pass_over(10, 10)
    await compared.pass_over(0, 5)
    assert (compared.findings.repeated, [each.kind for each in compared.findings.listed]) == (repeated, kinds)


def compacted(records: Sequence[Plain], first: int, last: int) -> list[Plain]:
    return [record for record in records if not first <= record.offset <= last]


async def test_copies_of_records_that_compaction_took_are_gone_and_no_faults() -> None:
    compared = Compared(compacted(RECORDS, 2, 4), RECORDS)
    await compared.pass_over(3, 6)
    assert (compared.findings.faults(), compared.findings.equal) == (0, 3)
    assert (compared.findings.gone_from_source, compared.findings.before_source_start) == (3, 0)


async def test_copies_before_the_first_source_record_are_before_its_start() -> None:
    compared = Compared(compacted(RECORDS, 0, 2), RECORDS)
    await compared.pass_over(0, 3)
    assert (compared.findings.gone_from_source, compared.findings.before_source_start) == (3, 3)


@pytest.mark.parametrize(
    ("runs", "gone", "foreign"),
    [
        pytest.param([[*RECORDS[:4], *[STRANGER] * 5]], 2, 5, id="by_the_same_producer"),
        pytest.param([RECORDS[:2], [*RECORDS[2:4], *[STRANGER] * 5]], 4, 3, id="or_twice_as_many_after_a_restart"),
    ],
)
async def test_no_more_copies_are_excused_than_offsets_are_missing(
    runs: list[list[Plain]], gone: int, foreign: int
) -> None:
    compared = Compared(compacted(RECORDS, 2, 3), *runs)
    await compared.pass_over(2, 2)
    compared.comparison.wrote(1, 1)
    await compared.pass_over(0, 7)
    assert (compared.findings.gone_from_source, compared.findings.counts[Kind.FOREIGN]) == (gone, foreign)
