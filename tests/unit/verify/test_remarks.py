"""Lines about records that one side no longer has, and about duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.record_reader import ListedOffset
from mirror_connect.verify.cluster_logs import ClusterLogs
from mirror_connect.verify.clusters import EARLIEST, LATEST
from mirror_connect.verify.findings import Findings
from mirror_connect.verify.link import described_link
from mirror_connect.verify.plan import Job, Topics, plan
from mirror_connect.verify.remarks import remarks
from mirror_connect.verify.run import before_the_logs
from tests.fakes.encoded_batches import some_records
from tests.fakes.partition_logs import MemoryLog, compare, packed

RECORDS = some_records(1, 300)


def cut_job(*, target_start: int = 0, asked_from: int = 0, cut: bool = True) -> Job:
    """The source's log begins at 190, its 101 first records were copied."""
    return Job("t", 0, "A.t", 190, 202, 202, target_start, 113, cut=cut, asked_from=asked_from or target_start)


def test_what_the_target_has_of_before_the_sources_log_is_counted_and_told() -> None:
    found = Findings(equal=12)
    before_the_logs(cut_job(), found, 101)
    assert (found.gone_from_source, found.before_source_start) == (101, 101)
    assert found.notes == [
        "not comparable: 101 target records from source offsets below 190, where the source's log now begins; "
        "at least 89 of those source offsets were never copied or held no record"
    ]


def test_what_was_read_of_before_the_sources_log_is_counted_once() -> None:
    found = Findings(equal=12, gone_from_source=21, before_source_start=21)
    before_the_logs(cut_job(), found, 80)
    assert (found.gone_from_source, found.before_source_start) == (101, 101)


def test_where_everything_was_copied_nothing_is_said_to_be_lost() -> None:
    found = Findings(equal=12)
    before_the_logs(cut_job(target_start=150), found, 190)
    assert found.notes == [
        "not comparable: 40 target records from source offsets below 190, where the source's log now begins"
    ]


def test_what_was_not_asked_for_is_not_gone() -> None:
    found = Findings(equal=12, gone_from_source=3, before_source_start=3)
    before_the_logs(cut_job(cut=False), found, 101)
    assert (found.gone_from_source, found.before_source_start, found.notes) == (0, 0, [])


def test_of_what_was_asked_for_only_that_is_counted() -> None:
    found = Findings(equal=12)
    before_the_logs(cut_job(asked_from=91), found, 101)
    assert found.before_source_start == 10


async def test_what_the_targets_retention_took_is_told() -> None:
    found = await compare(packed(RECORDS), MemoryLog(packed(RECORDS[100:]), start=100), start=(0, 100), holes=(0, 100))
    before_the_logs(Job("t", 0, "A.t", 0, 300, 300, 100, 300, asked_from=100), found, 100)
    assert (found.gone_from_target, found.before_target_start) == (100, 100)
    assert found.notes == [
        "not comparable: 100 source records without copies: the target's log now begins at offset 100"
    ]


async def test_what_compaction_took_behind_the_first_equal_record_is_of_no_beginning() -> None:
    left = [record for record in RECORDS if record.offset % 7 == 0 or record.offset == 299]
    for found in (await compare(packed(RECORDS), packed(left)), await compare(packed(left), packed(RECORDS))):
        assert found.gone_from_source + found.gone_from_target == 300 - len(left)
        assert (found.before_source_start, found.before_target_start) == (0, 0)


SOME = "(a restart repeats some records, as does another connector to the same topic)"


@pytest.mark.parametrize(
    ("repeated", "told"),
    [
        pytest.param(
            1,
            f"1 duplicate on the target {SOME}",
            id="one",
        ),
        pytest.param(
            49,
            f"49 duplicates on the target {SOME}",
            id="less_than_half",
        ),
        pytest.param(
            50,
            "50 duplicates on the target "
            "(too many for a restart: another connector copies the same topic there, or the link started over)",
            id="half",
        ),
    ],
)
def test_repeats_are_told_by_how_many_they_are(repeated: int, told: str) -> None:
    assert remarks(Job("t", 0, "A.t", 0, 100, 100), Findings(equal=100, repeated=repeated)) == [told]


class _Reader:
    """Tells offsets, and for times those of logs whose record n is of the time n."""

    def __init__(self, begin: int, end: int) -> None:
        self._begin, self._end = begin, end

    async def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int | None]:
        return dict.fromkeys(wanted, self._at(next(iter(wanted.values()))))

    async def ends(self, keys: Iterable[TopicPartition]) -> dict[TopicPartition, ListedOffset]:
        return dict.fromkeys(keys, ListedOffset(self._end, 0))

    def _at(self, time: int) -> int | None:
        if time in (EARLIEST, LATEST):
            return self._begin if time == EARLIEST else self._end
        return max(self._begin, time) if time < self._end else None


@pytest.mark.parametrize(
    ("begin", "from_ms", "planned"),
    [
        pytest.param(0, None, (0, False, 5), id="whole_log"),
        pytest.param(190, None, (190, True, 5), id="retention_took_the_beginning"),
        pytest.param(190, 100, (190, True, 100), id="and_some_of_what_was_asked_for"),
        pytest.param(190, 195, (195, False, 195), id="asked_for_is_only_what_is_there"),
        pytest.param(190, 999, (202, False, 202), id="asked_for_is_nothing_that_is_there"),
    ],
)
async def test_a_beginning_that_is_gone_is_told_from_one_that_was_not_asked_for(
    begin: int, from_ms: int | None, planned: tuple[int, bool, int]
) -> None:
    address = {"bootstrap.servers": "elsewhere:9092"}
    link = described_link(source=address, target=address, settings={"topics": "t", "source.cluster.alias": "A"})
    readers = (cast("ClusterLogs", _Reader(*place)) for place in ((begin, 202), (5, 202)))
    (job,) = await plan(link, *readers, Topics({"t": 1}, {"A.t": 1}, []), from_ms)
    assert (job.start, job.cut, job.asked_from) == planned
