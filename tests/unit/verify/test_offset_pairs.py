"""The copy of some records is found on the target, by fetched batches of each log."""

from __future__ import annotations

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.kafka_io.consumer.completed_fetch import CompletedFetch, whole_batches
from mirror_connect.verify.offset_pairs import (
    FetchedBatches,
    OffsetPair,
    earliest_timestamp,
    pair_anywhere,
    pair_at_delta,
)
from tests.fakes.encoded_batches import Plain, encode, patched

CONTROL = 0x20
APPEND_TIME = 0x08


def records(letters: str, first: int = 0) -> list[Plain]:
    """A record for each letter; equal letters are equal records."""
    return [Plain(first + at, 1_000 + ord(letter), None, letter.encode(), ()) for at, letter in enumerate(letters)]


def piece(*batches: bytes, start: int = 0) -> FetchedBatches:
    buffer = memoryview(b"".join(batches))
    following = whole_batches(buffer)[1]
    fetched = CompletedFetch(TopicPartition("t", 0), buffer, start, following, following, following, 0, ())
    return FetchedBatches(fetched, start, committed=False)


def log(letters: str, first: int = 0, *, start: int | None = None, size: int = 100, **header: int) -> FetchedBatches:
    each = records(letters, first)
    batches = [encode(each[at : at + size], **header) for at in range(0, len(each), size)]
    return piece(*batches, start=first if start is None else start)


def test_a_piece_begins_where_it_was_asked_for_within_a_batch() -> None:
    found = log("abcdef", 10, start=12)
    assert found.first == 12
    assert [record[0] for record in found.records()] == [12, 13, 14, 15]


def test_control_batches_and_batches_in_front_are_no_data() -> None:
    marker = patched(encode(records("m", 2)), attributes=CONTROL)
    found = piece(encode(records("ab")), marker, encode(records("c", 3)), start=2)
    assert found.first == 3
    assert [record[0] for record in found.records()] == [3]


def test_a_piece_without_data_has_no_first_offset() -> None:
    assert piece(patched(encode(records("m")), attributes=CONTROL)).first is None


def test_damage_ends_a_piece() -> None:
    broken = bytearray(encode(records("cd", 2)))
    broken[-1] ^= 1
    found = piece(encode(records("ab")), bytes(broken), encode(records("ef", 4)))
    assert [record[0] for record in found.records()] == [0, 1]


@pytest.mark.parametrize(
    ("source", "target", "delta", "found"),
    [
        pytest.param(log("abcdef"), log("abcdef", 7), 7, OffsetPair(0, 7), id="the_same_batches"),
        pytest.param(log("abcdef"), log("abcdef", 7, size=4), 7, OffsetPair(0, 7), id="split_anew"),
        pytest.param(log("xxabcd"), log("yyabcd", 7), 7, OffsetPair(2, 9), id="behind_what_differs"),
        pytest.param(log("ab"), log("ab", 7, size=1), 7, OffsetPair(0, 7), id="few_records_that_all_agree"),
        pytest.param(log("abcx"), log("abcy", 7), 7, None, id="too_few_agree"),
        pytest.param(log("abcdef"), log("abcdef", 7), 6, None, id="another_distance"),
    ],
)
def test_a_copy_is_found_at_its_distance(
    source: FetchedBatches, target: FetchedBatches, delta: int, found: OffsetPair | None
) -> None:
    assert pair_at_delta(delta, source, target) == found


@pytest.mark.parametrize(
    ("source", "target", "found"),
    [
        pytest.param(log("abcdef"), log("xyzabcdef", 50), OffsetPair(0, 53), id="behind_others"),
        pytest.param(log("zzabcd"), log("abcd", 50), OffsetPair(2, 50), id="the_first_records_are_missing"),
        pytest.param(log("abcd"), log("abxabcd", 50), OffsetPair(0, 53), id="not_where_only_some_agree"),
        pytest.param(log("ab"), log("xab", 50), OffsetPair(0, 51), id="few_records_from_the_first_on"),
        pytest.param(log("zab"), log("xab", 50), None, id="few_records_that_are_not_the_first"),
        pytest.param(log("abcd"), log("dcba", 50), None, id="in_another_order"),
    ],
)
def test_a_copy_is_found_anywhere_by_records_in_a_row(
    source: FetchedBatches, target: FetchedBatches, found: OffsetPair | None
) -> None:
    assert pair_anywhere(source, target) == found


def test_the_brokers_timestamps_do_not_count() -> None:
    stamped = [each._replace(timestamp=9_000) for each in records("abcd", 50)]
    kept = piece(encode(stamped), start=50)
    by_broker = piece(patched(encode(stamped), attributes=APPEND_TIME), start=50)
    assert (pair_anywhere(log("abcd"), kept), pair_anywhere(log("abcd"), by_broker)) == (None, OffsetPair(0, 50))


def test_a_pair_tells_how_far_the_copy_lies_behind() -> None:
    assert OffsetPair(3, 10).delta == 7


def test_the_earliest_timestamp_is_the_lowest_and_none_without_any() -> None:
    assert earliest_timestamp(log("cab")) == 1_000 + ord("a")
    assert earliest_timestamp(piece(encode([Plain(0, -1, None, b"x", ())]))) is None
