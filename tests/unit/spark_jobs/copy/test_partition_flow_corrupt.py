"""What a flow does with batches that are corrupt or cannot be read."""

from __future__ import annotations

import struct

import pytest

from mirror_connect.kafka_io.records.batch_builder import build
from mirror_connect.kafka_io.records.compression import GZIP, compress
from mirror_connect.kafka_io.records.record_batch import NewRecord
from tests.fakes.encoded_batches import patched
from tests.fakes.partition_flows import (
    Heard,
    as_gzip,
    batch,
    corrupt,
    fetched,
    flow,
    take,
    unreadable,
)


def test_a_corrupt_batch_stops_the_flow_in_front_of_it() -> None:
    heard = Heard()
    broken = flow(heard)
    broken.put(fetched(0, 300, batch(0, 100), corrupt(batch(100, 100)), batch(200, 100)))
    taken = [take(broken), take(broken), take(broken)]
    assert [each.count for each in taken if each is not None] == [100]
    assert [error.offset for error in heard.corrupt] == [100]
    assert broken.restart() == 100


@pytest.mark.parametrize(
    ("contents", "lost", "next_offset"),
    [
        pytest.param([corrupt(batch(100, 100)), batch(200, 100)], 100, 200, id="an_intact_batch_follows"),
        pytest.param([corrupt(batch(100, 100))], None, 100, id="nothing_follows"),
        pytest.param([corrupt(batch(100, 100)), corrupt(batch(200, 100))], None, 100, id="another_corrupt_one_follows"),
    ],
)
def test_a_corrupt_batch_is_skipped_up_to_the_next_intact_one(
    contents: list[bytes], lost: int | None, next_offset: int
) -> None:
    broken = flow(Heard(), 100)
    broken.put(fetched(100, 300, *contents))
    assert take(broken) is None
    assert (broken.skip_corrupt(), broken.restart()) == (lost, next_offset)


def test_a_corrupt_header_that_makes_a_batch_look_copied_already_does_not_lose_it() -> None:
    heard = Heard()
    broken = flow(heard)
    content = bytearray(batch(100, 100))
    content[23] ^= 0x80  # the sign of its last offset delta
    broken.put(fetched(0, 200, batch(0, 100), bytes(content)))
    taken = [take(broken), take(broken)]
    assert [each.count for each in taken if each is not None] == [100]
    assert broken.restart() == 100
    assert len(heard.corrupt) == 1


@pytest.mark.parametrize("offset", [(1 << 63) - 3, (1 << 63) - 1])
def test_a_batch_that_no_offset_can_follow_stops_the_flow_in_front_of_it(offset: int) -> None:
    heard = Heard()
    broken = flow(heard)
    broken.put(fetched(0, 400, batch(0, 100), batch(offset, 3), batch(200, 3), batch(203, 3)))
    taken = [take(broken), take(broken)]
    assert [each.count for each in taken if each is not None] == [100]
    assert [error.offset for error in heard.corrupt] == [offset]
    assert broken.restart() == 100


@pytest.mark.parametrize("damage", [0x01000000, 0x7FFFFF00], ids=["longer_than_what_came", "two_gigabytes"])
def test_a_batch_with_a_wrong_length_stops_the_flow_in_front_of_it(damage: int) -> None:
    heard = Heard()
    broken = flow(heard)
    content = bytearray(batch(100, 100))
    struct.pack_into(">i", content, 8, damage)
    broken.put(fetched(0, 200, batch(0, 100), bytes(content)))
    taken = [take(broken), take(broken)]
    assert [each.count for each in taken if each is not None] == [100]
    assert [error.offset for error in heard.corrupt] == [100]
    assert broken.restart() == 100


def test_small_batches_in_front_of_a_corrupt_one_are_copied() -> None:
    heard = Heard()
    broken = flow(heard)
    broken.put(fetched(0, 3, batch(0, 1), batch(1, 1), corrupt(batch(2, 1))))
    producer_batch = take(broken)
    assert producer_batch is not None
    assert (producer_batch.count, broken.restart()) == (2, 2)


def test_small_batches_around_one_that_cannot_be_read_are_merged_and_it_goes_alone_as_it_is() -> None:
    heard = Heard()
    odd = flow(heard)
    parts = [batch(offset, 1) for offset in range(10)]
    parts[4] = unreadable(4)
    odd.put(fetched(0, 10, *parts))
    taken = [take(odd) for _ in range(4)]
    assert [(each.first_offset, each.count) for each in taken if each is not None] == [(0, 4), (4, 1), (5, 5)]
    assert heard.corrupt == []
    assert heard.counters["merged"] == 9


def test_two_neighbours_that_cannot_be_read_go_alone_as_they_are_and_in_order() -> None:
    records = build([NewRecord(b"k", b"v", 1_000)] * 2).records
    good, too_many_bytes = compress(GZIP, records), compress(GZIP, records + b"junk")
    contents = [good, too_many_bytes, b"no gzip", good, good]
    heard = Heard()
    odd = flow(heard)
    odd.put(fetched(0, 10, *(as_gzip(2 * n, content) for n, content in enumerate(contents))))
    taken = []
    while (producer_batch := take(odd)) is not None:
        taken.append(producer_batch)
    assert [(each.first_offset, each.count) for each in taken] == [(0, 2), (2, 2), (4, 2), (6, 4)]
    assert [each.records for each in taken[:3]] == contents[:3]
    assert (heard.corrupt, heard.counters["merged"]) == ([], 2)


def test_a_batch_that_must_be_rewritten_and_cannot_be_read_stops_the_flow_in_front_of_it() -> None:
    heard = Heard()
    odd = flow(heard)
    odd.put(fetched(0, 9, batch(0, 2), patched(unreadable(2), last_delta=6)))
    taken = [take(odd), take(odd)]
    assert [each.count for each in taken if each is not None] == [2]
    assert [str(error) for error in heard.corrupt] == ["offset 2: a record in it has an impossible length"]
    assert odd.restart() == 2


def test_a_header_that_makes_no_sense_stops_the_flow_also_when_crcs_are_not_checked() -> None:
    heard = Heard()
    careless = flow(heard, check_crcs=False)
    careless.put(fetched(0, 300, batch(0, 100), patched(batch(100, 100), count=0, last_delta=-1), batch(200, 100)))
    taken = [take(careless), take(careless), take(careless)]
    assert [each.count for each in taken if each is not None] == [100]
    assert [error.offset for error in heard.corrupt] == [100]


def test_without_checking_crcs_a_wrong_one_passes() -> None:
    careless = flow(Heard(), check_crcs=False)
    careless.put(fetched(0, 100, corrupt(batch(0, 100))))
    producer_batch = take(careless)
    assert producer_batch is not None
    assert producer_batch.count == 100
