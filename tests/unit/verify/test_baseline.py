"""Where sampling may begin to count: only where the ends of both logs certainly belong together."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.verify import baseline
from mirror_connect.verify.baseline import Baselines, TargetEnd, Untouched
from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.link import Link, described_link
from mirror_connect.verify.rate import Rate
from tests.fakes.encoded_batches import encode, patched, some_records
from tests.fakes.partition_logs import packed
from tests.fakes.peeked_logs import MemoryPeek
from tests.fakes.sampling_rig import MemoryCluster, Rig, link

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
TEN = packed(some_records(1, 10))
MARKER = patched(encode(some_records(2, 1, first=10)), attributes=0x30, producer_id=4)


@pytest.fixture(autouse=True)
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    return Rig(monkeypatch)


def logs(source: list[bytes], target: list[bytes], topic: str = "a") -> None:
    MemoryCluster.logs["source"][topic, 0] = MemoryPeek("source", source)
    MemoryCluster.logs["target"][f"A.{topic}", 0] = MemoryPeek("target", target)


def baselines(of: Link | None = None) -> Baselines:
    source = MemoryCluster("source", {}, committed=True, rate=Rate(None))
    return Baselines(of or link(), source, MemoryCluster("target", {}, committed=True, rate=Rate(None)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("source", "hidden", "end"),
    [
        pytest.param(TEN, 0, TargetEnd(10, at_rest=True), id="all_is_copied"),
        pytest.param([*TEN, MARKER], 0, TargetEnd(10, at_rest=True), id="only_a_marker_follows"),
        pytest.param(packed(some_records(1, 11)), 0, TargetEnd(10, at_rest=False), id="a_record_follows"),
        pytest.param(packed(some_records(1, 90)), 0, TargetEnd(10, at_rest=False), id="many_records_follow"),
        pytest.param(TEN, 3, TargetEnd(7, at_rest=False), id="an_open_transaction_hides_copies"),
    ],
)
async def test_a_partition_is_at_rest_if_both_logs_end_with_the_last_copy(
    source: list[bytes], hidden: int, end: TargetEnd
) -> None:
    logs(source, TEN)
    MemoryCluster.hidden = hidden
    assert await baselines().target_ends({A: 10}) == {A: end}


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        pytest.param(TEN, [], Untouched(0, 0, certain=True), id="an_empty_copy"),
        pytest.param([], TEN, Untouched(0, 10, certain=True), id="an_empty_source"),
        pytest.param(TEN, TEN, Untouched(0, 10, certain=False), id="records_on_both_sides"),
    ],
)
async def test_a_partition_without_source_offset_is_certain_if_one_side_is_empty(
    source: list[bytes], target: list[bytes], found: Untouched
) -> None:
    logs(source, target)
    wanted = baselines()
    await wanted.read_untouched({B})
    assert wanted.untouched(A) == found


async def test_an_open_transaction_on_the_target_makes_its_end_uncertain() -> None:
    logs([], TEN)
    MemoryCluster.hidden = 10
    wanted = baselines()
    await wanted.read_untouched({B})
    assert wanted.untouched(A) == Untouched(0, 0, certain=False)


async def test_a_log_that_retention_has_cut_begins_where_it_begins_now() -> None:
    logs(TEN, [])
    MemoryCluster.logs["source"]["a", 0].gone = 4
    wanted = baselines()
    await wanted.read_untouched({B})
    assert wanted.untouched(A) == Untouched(4, 0, certain=True)


async def test_a_link_that_begins_at_the_end_makes_nothing_certain() -> None:
    cluster = {"bootstrap.servers": "nowhere:1"}
    settings = {"topics": "[ab]", "source.cluster.alias": "A"}
    latest = described_link(source={**cluster, "auto.offset.reset": "latest"}, target=cluster, settings=settings)
    logs(TEN, [])
    wanted = baselines(latest)
    await wanted.read_untouched({B})
    found = wanted.untouched(A), wanted.untouched(TopicPartition("new", 0))
    assert found == (Untouched(0, 0, certain=False), Untouched(0, 0, certain=False))


async def test_a_partition_with_a_source_offset_is_not_read() -> None:
    wanted = baselines()
    await wanted.read_untouched({A, B})
    assert wanted.untouched(A) is None


async def test_a_partition_that_was_created_later_begins_at_zero_on_both_sides() -> None:
    wanted = baselines()
    await wanted.read_untouched({A, B})
    assert wanted.untouched(TopicPartition("a", 1)) == Untouched(0, 0, certain=True)


async def test_where_topics_are_unknown_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(_link: Link) -> None:
        raise CannotCompareError("no right to list topics")

    monkeypatch.setattr(baseline, "topics_of", refused)
    wanted = baselines()
    await wanted.read_untouched(set())
    assert (wanted.untouched(A), wanted.untouched(TopicPartition("new", 0))) == (None, None)
