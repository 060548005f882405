"""The copier's fetcher, abort filter and producing flow are broken, and verify runs in the same process, so with the same
breakage in place: it finds every fault, because it reads by other code.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import pytest
from confluent_kafka import Producer

from deploy.local import LocalCluster
from mirror_connect.kafka_io.consumer import fetch_handover
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch
from mirror_connect.kafka_io.records import aborted
from mirror_connect.kafka_io.records.record_batch import BatchReader, BatchView, ProducerBatch, as_is
from mirror_connect.spark_jobs.copy.partition_flow import PartitionFlow
from mirror_connect.verify.link import described_link
from mirror_connect.verify.run import Options, Watcher, verify
from tests.fakes.encoded_batches import Plain, decode, encode
from tests.integration.mirror_rig import fresh_topic, read, running, spec_for

pytestmark = pytest.mark.brokers

NOW = int(time.time() * 1000) - 3_600_000
# Of the source's partition 0: transactions of two batches each, a marker behind each, every other one aborted.
TRANSACTIONS, BATCH = 6, 25
COPIED = TRANSACTIONS // 2 * 2 * BATCH
# The last record of each partition.
LAST = (999, 1024)
Records = list[Plain]
# (the records of a batch, whether a marker lies before it) to those that are left of it
Spoil = Callable[[Records, bool], Records]
# (kind, source offsets, target offsets, records)
Told = tuple[str, tuple[int, int] | None, tuple[int, int] | None, int]


@pytest.fixture(scope="module")
def target() -> Iterator[LocalCluster]:
    with LocalCluster("unbroken") as cluster:
        yield cluster


def fill(cluster: LocalCluster, topic: str) -> None:
    """Record `number` of partition 0 lies at offset number + number // 50; that of partition 1 at its number.

    Batches are whole: they are sent by the flush, for which nothing lingers.
    """
    writer = Producer({**cluster.librdkafka(), "transactional.id": topic, "linger.ms": 10_000})
    writer.init_transactions(60)
    for transaction in range(TRANSACTIONS):
        writer.begin_transaction()
        for batch in range(2):
            for number in range(BATCH):
                writer.produce(topic, **one(transaction * 2 * BATCH + batch * BATCH + number))
            assert writer.flush(60) == 0
        (writer.abort_transaction if transaction % 2 else writer.commit_transaction)(30)
    plain = Producer({**cluster.librdkafka(), "linger.ms": 10_000})
    for number in (998, LAST[0]):
        plain.produce(topic, **one(number))
    for number in range(1000, LAST[1] + 1):
        plain.produce(topic, **one(number))
    assert plain.flush(60) == 0


def one(number: int) -> dict[str, Any]:
    return {
        "key": b"" if number % 10 == 7 else b"key %d" % number,
        "value": None if number % 10 == 4 else b"value %d." % number * 5,
        "timestamp": NOW + number,
        "headers": [("n", b"%d" % number), ("n", b"again"), ("none", None)],
        "partition": number // 1000,
    }


def number_of(record: Plain) -> int:
    return int(record.headers[0][1] or b"-1") if record.headers else -1


# Faults of what the fetcher hands over.


def batch_dropped(records: Records, _: bool) -> Records:
    return [] if number_of(records[0]) == 125 else records


def last_of_a_batch_dropped(records: Records, _: bool) -> Records:
    return [record for record in records if number_of(record) != 149]


def changed(number: int, **fields: Any) -> Spoil:
    return lambda records, _: [
        record._replace(**fields) if number_of(record) == number else record for record in records
    ]


def bit_flipped(records: Records, _: bool) -> Records:
    # A bit that is set stays set: what the target holds is not changed back when it is read.
    return [
        record._replace(value=bytes([*record.value[:9], record.value[9] | 0x80, *record.value[10:]]))
        if number_of(record) == 133 and record.value is not None
        else record
        for record in records
    ]


def swapped(records: Records, _: bool) -> Records:
    found = list(records)
    for at in range(len(found) - 1):
        if (number_of(found[at]), number_of(found[at + 1])) == (131, 132):
            one, other = found[at], found[at + 1]
            found[at : at + 2] = [other._replace(offset=one.offset), one._replace(offset=other.offset)]
    return found


def first_behind_a_marker_skipped(records: Records, behind: bool) -> Records:
    return records[1:] if behind else records


HEADERS = ((("n", b"133"), ("n", b"again"), ("none", b"")), (("n", b"133"), ("none", None), ("n", b"again")))
HANDED_OVER: dict[str, tuple[Spoil, list[Told]]] = {
    "a_batch_dropped": (batch_dropped, [("missing", (127, 151), None, 25)]),
    "the_last_record_of_a_batch_dropped": (last_of_a_batch_dropped, [("missing", (151, 151), None, 1)]),
    "a_record_behind_a_marker_skipped": (
        first_behind_a_marker_skipped,
        [("missing", (offset, offset), None, 1) for offset in (102, 204, 306)],
    ),
    "a_header_null_that_is_empty": (changed(133, headers=HEADERS[0]), [("changed", (135, 135), (83, 83), 1)]),
    "headers_in_another_order": (changed(133, headers=HEADERS[1]), [("changed", (135, 135), (83, 83), 1)]),
    "a_bit_of_a_value_flipped": (bit_flipped, [("changed", (135, 135), (83, 83), 1)]),
    "a_key_null_that_is_empty": (changed(137, key=None), [("changed", (139, 139), (87, 87), 1)]),
    "a_value_empty_that_is_null": (changed(134, value=b""), [("changed", (136, 136), (84, 84), 1)]),
    "a_timestamp_changed": (changed(133, timestamp=NOW), [("changed", (135, 135), (83, 83), 1)]),
    "two_records_swapped": (swapped, [("reordered", (134, 134), (81, 81), 1)]),
}


# Faults of one record are told in as many ways by tests/unit/verify/test_comparer.py.
FEW: Final = ("a_batch_dropped", "a_record_behind_a_marker_skipped", "headers_in_another_order", "two_records_swapped")


@pytest.mark.parametrize(
    "fault", [fault if fault in FEW else pytest.param(fault, marks=pytest.mark.long) for fault in HANDED_OVER]
)
async def test_what_the_copiers_fetcher_spoils_is_found(
    one_broker: LocalCluster, target: LocalCluster, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    spoil, told = HANDED_OVER[fault]
    monkeypatch.setattr(fetch_handover, "CompletedFetch", spoiled_by(spoil))
    assert await copied_and_verified(one_broker, target) == told


def spoiled_by(spoil: Spoil) -> Callable[..., CompletedFetch]:
    behind: dict[Any, bool] = {}

    def hand_over(key: Any, buffer: memoryview, *rest: Any) -> CompletedFetch:
        *fields, release = rest
        size = len(buffer)
        reader, parts = BatchReader(buffer), []
        while (view := reader.next()) is not None:
            parts.append(bytes(view.data) if view.is_control else spoiled(view, spoil, behind.get(key, False)))
            behind[key] = view.is_control
        return CompletedFetch(key, memoryview(b"".join(parts)), *fields, lambda _size: release(size))

    return hand_over


def spoiled(view: BatchView, spoil: Spoil, behind: bool) -> bytes:
    records = decode(bytes(view.data))
    left = spoil(records, behind)
    if left == records:
        return bytes(view.data)
    if not left:
        return b""
    return encode(
        left,
        base=view.base_offset,
        last=view.last_offset,
        attributes=view.attributes,
        producer_id=view.producer_id,
        producer_epoch=view.producer_epoch,
        base_sequence=view.base_sequence,
    )


# Faults of the abort filter.

BLOCK = 2 * BATCH
FILTERED: dict[str, tuple[str, Any, list[Told]]] = {
    "aborted_ones_passed_on": (
        "AbortedFilter.drops",
        lambda _self, view: view.is_control,
        [("foreign", None, (BLOCK * block, BLOCK * (block + 1) - 1), BLOCK) for block in (1, 3, 5)],
    ),
    "an_abort_that_never_ends": (
        "_is_abort_marker",
        lambda _view: False,
        [("missing", (offset, offset + BLOCK - 1), None, BLOCK) for offset in (102, 204)],
    ),
}


@pytest.mark.parametrize("fault", FILTERED)
async def test_what_the_copiers_abort_filter_takes_for_another_thing_is_found(
    one_broker: LocalCluster, target: LocalCluster, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    name, broken, told = FILTERED[fault]
    owner, _, method = f"aborted.{name}".rpartition(".")
    monkeypatch.setattr(aborted.AbortedFilter if "AbortedFilter" in owner else aborted, method, broken)
    assert await copied_and_verified(one_broker, target) == told


# Faults of what is handed on to the producer.


async def test_a_batch_that_is_written_twice_is_found(
    one_broker: LocalCluster, target: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow_with(monkeypatch, lambda flow, taken: taken if b"value 125." in taken.records else None)
    assert await copied_and_verified(one_broker, target) == [("doubled", (127, 151), (100, 124), 25)]


async def test_a_record_that_moved_to_another_partition_is_found(
    one_broker: LocalCluster, target: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = one(133)
    lost = Plain(0, moved["timestamp"], moved["key"], moved["value"], tuple(moved["headers"]))
    stray = as_is(BatchView(memoryview(encode([lost]))))
    without = lambda records, _: [record for record in records if number_of(record) != 133]  # noqa: E731
    monkeypatch.setattr(fetch_handover, "CompletedFetch", spoiled_by(without))
    follow_with(monkeypatch, lambda flow, _taken: stray if flow.partition.partition == 1 else None)
    told = [("missing", (135, 135), None, 1), ("foreign", None, (25, 25), 1)]
    assert await copied_and_verified(one_broker, target) == told


def follow_with(
    monkeypatch: pytest.MonkeyPatch, choose: Callable[[PartitionFlow, ProducerBatch], ProducerBatch | None]
) -> None:
    """Behind a batch that was taken the one is taken, once, that `choose` gives."""
    take = PartitionFlow.take
    extra: dict[PartitionFlow, ProducerBatch] = {}
    done: list[bool] = []

    def taking(self: PartitionFlow, limit: int, *, latency_bound: bool, append_time: bool) -> ProducerBatch | None:
        if self in extra:
            following = extra.pop(self)
            self._in_flight.given(following)
            return following
        taken = take(self, limit, latency_bound=latency_bound, append_time=append_time)
        chosen = None if taken is None or done else choose(self, taken)
        if taken is not None and chosen is not None:
            done.append(True)
            extra[self] = dataclasses.replace(chosen, first_offset=taken.last_offset, last_offset=taken.last_offset)
        return taken

    monkeypatch.setattr(PartitionFlow, "take", taking)


# The copy, and what is said of it.


async def test_a_copy_without_a_fault_is_equal(one_broker: LocalCluster, target: LocalCluster) -> None:
    assert await copied_and_verified(one_broker, target) == []


def times(cluster: LocalCluster, topic: str) -> set[int]:
    return {record.timestamp[1] for record in read(cluster, topic)}


async def copied_and_verified(source: LocalCluster, target: LocalCluster) -> Sequence[Told]:
    """What verify tells of a copy that the source task has made, in the order of partitions."""
    topic = fresh_topic("rests")
    source.create_topic(topic, 2)
    target.create_topic(f"A.{topic}", 2)
    fill(source, topic)
    reading = {"isolation.level": "read_committed"}
    async with running(spec_for(source, target, {topic: 2}, consumer=reading)) as task:
        async with asyncio.timeout(180):
            while not {one(last)["timestamp"] for last in LAST} <= await asyncio.to_thread(times, target, f"A.{topic}"):
                await asyncio.sleep(0.1)
        await task.finish()
    link = described_link(
        source={**source.client_properties(), **reading},
        target=target.client_properties(),
        settings={"topics": topic, "source.cluster.alias": "A"},
    )
    report = await verify(link, Options(), Watcher())
    assert not [each.findings.error for each in report.results if each.findings.error]
    assert sum(each.findings.equal for each in report.results) > COPIED // 2
    return [
        (str(fault.kind), fault.source, fault.target, fault.count)
        for each in report.results
        for fault in each.findings.listed
    ]
