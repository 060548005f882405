"""Batches are split out of a fetch, checked and stamped; aiokafka reads them back."""

from __future__ import annotations

import random
import struct

import pytest
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder

from mirror_connect.kafka_io.records.record_batch import (
    HEADER_SIZE,
    BatchView,
    CorruptBatchError,
    as_is,
    needs_rewrite,
    next_sequence,
    split_fetch,
    stamp,
    verify,
)
from tests.fakes.encoded_batches import CODECS, NOW, Plain, contents, decode, encode, patched, some_records

LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x08, 0x10, 0x20, 0x40
# Brokers write these without touching the CRC.
NOT_UNDER_THE_CRC = {*range(8), *range(12, 16)}


def only(batch: bytes) -> BatchView:
    (view,) = split_fetch(batch)
    return view


def legacy(magic: int, *values: bytes, offset: int = 0) -> bytes:
    builder = LegacyRecordBatchBuilder(magic, 0, 1 << 20)
    for number, value in enumerate(values):
        builder.append(offset + number, timestamp=NOW, key=None, value=value)
    return bytes(builder.build())


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS.keys())
@pytest.mark.parametrize("seed", range(5))
def test_a_batch_as_it_is_holds_the_same_records_and_the_same_bytes_behind_its_header(codec: int, seed: int) -> None:
    records = some_records(seed, 40, first=1_000)
    batch = encode(records, codec, leader_epoch=7, producer_id=3, producer_epoch=1, base_sequence=99)
    view = only(batch)
    verify(view)
    sent = stamp(as_is(view), 12, 5, 77)
    assert contents(decode(sent)) == contents(records)
    assert sent[HEADER_SIZE:] == batch[HEADER_SIZE:]


def test_a_stamped_batch_carries_the_new_identity_and_nothing_of_the_old_place() -> None:
    view = only(encode(some_records(1, 3, first=50), 4, leader_epoch=7, attributes=TRANSACTIONAL, producer_id=9))
    sent = only(stamp(as_is(view), 12, 5, 77))
    assert (sent.base_offset, sent.last_offset, sent.leader_epoch, sent.attributes) == (0, 2, -1, 4)
    assert (sent.producer_id, sent.producer_epoch, sent.base_sequence) == (12, 5, 77)
    assert (sent.base_timestamp, sent.max_timestamp) == (view.base_timestamp, view.max_timestamp)


def test_a_batch_is_transactional_when_it_is_stamped_so() -> None:
    view = only(encode(some_records(1, 3)))
    assert only(stamp(as_is(view), 1, 0, 0, transactional=True)).is_transactional
    assert not only(stamp(as_is(view), 1, 0, 0)).is_transactional


def test_a_view_tells_every_field_of_its_header() -> None:
    batch = encode(
        some_records(2, 4, first=10),
        3,
        attributes=LOG_APPEND_TIME | TRANSACTIONAL | CONTROL | DELETE_HORIZON,
        leader_epoch=6,
        base_timestamp=111,
        max_timestamp=222,
        producer_id=333,
        producer_epoch=44,
        base_sequence=55,
    )
    view = only(batch)
    assert (view.base_offset, view.last_offset, view.count, view.size, view.magic) == (10, 13, 4, len(batch), 2)
    assert (view.leader_epoch, view.base_timestamp, view.max_timestamp) == (6, 111, 222)
    assert (view.producer_id, view.producer_epoch, view.base_sequence, view.codec) == (333, 44, 55, 3)
    assert view.log_append_time
    assert view.is_transactional
    assert view.is_control
    assert view.has_delete_horizon


def test_a_fetch_of_many_batches_is_split_whatever_their_format() -> None:
    buffer = legacy(0, b"a") + legacy(1, b"b", b"c", offset=1) + encode(some_records(1, 3, first=3), 1)
    assert [(view.magic, view.last_offset) for view in split_fetch(memoryview(buffer))] == [
        (0, 0),
        (1, 1),
        (1, 2),
        (2, 5),
    ]


def test_wherever_a_fetch_is_cut_off_only_whole_batches_come_out() -> None:
    first, second = encode(some_records(1, 2, size=10)), encode(some_records(2, 3, first=2, size=10), 4)
    for cut in range(len(first) + len(second)):
        assert len(list(split_fetch((first + second)[:cut]))) == (cut >= len(first))


@pytest.mark.parametrize("position", [each for each in range(HEADER_SIZE) if each not in NOT_UNDER_THE_CRC])
def test_a_header_with_a_wrong_byte_anywhere_under_the_crc_is_found(position: int) -> None:
    batch = encode(some_records(3, 5), 3)
    for value in range(256):
        damaged = batch[:position] + bytes((value,)) + batch[position + 1 :]
        if value == batch[position]:
            continue
        try:
            # A length larger than the buffer looks like a batch that is cut off.
            views = list(split_fetch(damaged))
            for view in views:
                verify(view)
        except CorruptBatchError:
            continue
        assert views == []


def test_a_wrong_byte_among_the_records_is_found() -> None:
    batch = encode(some_records(4, 5, size=20))
    for position in range(HEADER_SIZE, len(batch)):
        damaged = batch[:position] + bytes((batch[position] ^ 1,)) + batch[position + 1 :]
        with pytest.raises(CorruptBatchError, match="CRC"):
            verify(only(damaged))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrong_byte_in_an_old_message_is_found(magic: int) -> None:
    message = legacy(magic, b"some value")
    verify(only(message))
    for position in range(12, len(message)):
        damaged = message[:position] + bytes((message[position] ^ 1,)) + message[position + 1 :]
        with pytest.raises(CorruptBatchError):
            verify(only(damaged))


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"count": -1}, id="fewer_than_no_records"),
        pytest.param({"count": 0x7FFFFFFF}, id="two_billion_records"),
        pytest.param({"count": 6}, id="more_records_than_offsets"),
        pytest.param({"last_delta": -1}, id="ends_before_it_begins"),
        pytest.param({"base": -5}, id="negative_offset"),
        pytest.param({"base": (1 << 63) - 5}, id="no_offset_can_follow"),
        pytest.param({"base": (1 << 63) - 1}, id="offsets_of_more_than_64_bits"),
        pytest.param({"attributes": 7}, id="codec_that_does_not_exist"),
    ],
)
def test_a_header_that_makes_no_sense_is_corrupt_although_its_crc_fits(fields: dict[str, int]) -> None:
    with pytest.raises(CorruptBatchError):
        verify(only(patched(encode(some_records(1, 5)), **fields)))


def test_a_crc_that_is_not_to_be_checked_may_be_wrong_but_numbers_must_make_sense() -> None:
    batch = patched(encode(some_records(1, 5)), count=6)
    verify(only(batch[:17] + bytes(4) + patched(batch, count=5)[21:]), check_crc=False)
    with pytest.raises(CorruptBatchError, match="6 records"):
        verify(only(batch[:17] + bytes(4) + batch[21:]), check_crc=False)


def test_a_cut_off_end_is_corruption_where_only_whole_batches_are() -> None:
    whole = encode(some_records(1, 2, size=10))
    assert len(list(split_fetch(whole + whole, whole=True))) == 2
    for cut in range(1, len(whole)):
        with pytest.raises(CorruptBatchError):
            list(split_fetch(whole + whole[:cut], whole=True))


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 13, 48])
def test_a_length_too_small_for_any_batch_is_corrupt(length: int) -> None:
    batch = bytearray(encode(some_records(1, 5)))
    struct.pack_into(">i", batch, 8, length)
    with pytest.raises(CorruptBatchError, match="format"):
        list(split_fetch(batch))


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_never_give_anything_but_views_or_corruption(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(200):
        noise = bytearray(rng.randbytes(rng.randint(0, 300)))
        if len(noise) > 16:
            struct.pack_into(">ib", noise, 8, rng.randint(0, 100), 0) if rng.random() < 0.5 else None
            noise[16] = rng.randint(0, 2)
        try:
            views = list(split_fetch(noise))
            for view in views:
                verify(view)
        except CorruptBatchError:
            continue
        assert views == []


@pytest.mark.parametrize(
    ("fields", "from_offset"),
    [
        pytest.param({"last_delta": 9}, 10, id="its_end_was_compacted_away"),
        pytest.param({}, 11, id="it_begins_before_the_wanted_offset"),
        pytest.param({"attributes": LOG_APPEND_TIME}, 10, id="the_broker_dated_it"),
        pytest.param({"attributes": DELETE_HORIZON}, 10, id="it_has_a_delete_horizon"),
    ],
)
def test_a_batch_that_the_target_would_refuse_or_misread_needs_a_rewrite(
    fields: dict[str, int], from_offset: int
) -> None:
    assert needs_rewrite(only(encode(some_records(1, 3, first=10), **fields)), from_offset)


def test_an_old_message_needs_a_rewrite_and_a_usual_batch_does_not() -> None:
    assert needs_rewrite(only(legacy(1, b"v")), 0)
    assert not needs_rewrite(only(encode(some_records(1, 3, first=10), 4, attributes=TRANSACTIONAL)), 10)


def test_sequences_wrap_at_two_to_the_31() -> None:
    assert next_sequence(0, 5) == 5
    assert next_sequence((1 << 31) - 3, 5) == 2


def test_a_big_value_passes_as_it_is() -> None:
    record = Plain(0, NOW, b"k", random.Random(1).randbytes(900_000), ())
    view = only(encode([record], 4))
    verify(view)
    assert contents(decode(stamp(as_is(view), -1, -1, -1))) == contents([record])
