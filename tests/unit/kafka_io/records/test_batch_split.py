"""A batch that is too large is split into pieces that hold the same records; aiokafka reads them back."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest

from mirror_connect.kafka_io.records import batch_split, compiled
from mirror_connect.kafka_io.records.batch_builder import pack
from mirror_connect.kafka_io.records.batch_merge import merge
from mirror_connect.kafka_io.records.batch_split import TooMuchToSplitError, split
from mirror_connect.kafka_io.records.compression import GZIP, decompress
from mirror_connect.kafka_io.records.record_batch import ProducerBatch, as_is, stamp
from mirror_connect.kafka_io.records.unpacked_records import Record, read_records
from tests.fakes.encoded_batches import NOW, Plain, contents, encode, some_records
from tests.fakes.rewritten_batches import encoded_record, every_codec, offsets_of, only, records_of, rewritten, seeds

pytestmark = pytest.mark.usefixtures("each_way")


@every_codec
@seeds
def test_a_split_batch_holds_every_record_in_pieces_below_the_limit(codec: int, seed: int) -> None:
    records = some_records(seed, 60, first=700, gaps=True)
    whole = rewritten(encode(records, codec, base=690, last=950), 695)
    pieces = split(whole, 2_000)
    assert len(pieces) > 1
    assert all(len(stamp(piece, 1, 0, 0)) == piece.size <= 2_000 for piece in pieces)
    assert contents([record for piece in pieces for record in records_of(piece)]) == contents(records)
    assert [offset for piece in pieces for offset in offsets_of(piece)] == [record.offset for record in records]


def test_the_pieces_cover_the_offsets_of_the_whole_in_order() -> None:
    whole = rewritten(encode(some_records(1, 60, first=700, gaps=True), base=690, last=950), 695)
    pieces = split(whole, 2_000)
    assert (pieces[0].first_offset, pieces[-1].last_offset) == (695, 950)
    assert all(earlier.last_offset < later.first_offset for earlier, later in pairwise(pieces))


def test_a_batch_that_fits_is_one_piece() -> None:
    assert len(split(as_is(only(encode(some_records(1, 5)))), 1 << 20)) == 1


def test_a_record_too_large_alone_has_a_piece_of_its_own_and_the_others_fit() -> None:
    big = Plain(12, NOW, None, random.Random(1).randbytes(5_000), ())
    records = [*some_records(1, 2, first=10, size=10), big, *some_records(2, 2, first=13, size=10)]
    pieces = split(as_is(only(encode(records))), 2_000)
    assert [(piece.first_offset, piece.count) for piece in pieces if piece.size > 2_000] == [(12, 1)]
    assert [offset for piece in pieces for offset in offsets_of(piece)] == [10, 11, 12, 13, 14]


def test_a_split_makes_hardly_more_pieces_than_the_limit_asks_for() -> None:
    whole = as_is(only(encode([Plain(n, NOW, None, bytes(1_000), ()) for n in range(900)])))
    assert len(split(whole, 150_000)) == 7


def test_no_piece_has_more_records_than_are_held_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "functions", None)  # what is compiled holds no records
    read: list[int] = []
    packed: list[tuple[int, int]] = []

    def reading(*given: Any) -> Iterator[Record]:
        for record in read_records(*given):
            read.append(record[0])
            yield record

    def packing(group: Sequence[Record], *given: Any) -> ProducerBatch:
        packed.append((len(read), len(group)))
        return pack(group, *given)

    whole = as_is(only(encode([Plain(n, NOW, None, b"", ()) for n in range(100)])))
    monkeypatch.setattr(batch_split, "REWRITTEN_RECORDS", 10)
    monkeypatch.setattr(batch_split, "read_records", reading)
    monkeypatch.setattr(batch_split, "pack", packing)
    pieces = split(whole, whole.size - 1)
    assert [offset for piece in pieces for offset in offsets_of(piece)] == list(range(100))
    assert packed == [(min(n + 11, 100), 10) for n in range(0, 100, 10)]


@pytest.mark.parametrize("bound", ["SPLIT_RECORDS", "SPLIT_DECOMPRESSED"])
def test_a_batch_that_would_take_long_to_split_is_left_whole(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = as_is(only(encode([Plain(n, NOW, None, b"", ()) for n in range(100)], GZIP)))
    decompressed = len(decompress(whole.codec, whole.records))
    exact = 100 if bound == "SPLIT_RECORDS" else decompressed
    monkeypatch.setattr(batch_split, bound, exact)
    assert sum(piece.count for piece in split(whole, whole.size - 1)) == 100
    monkeypatch.setattr(batch_split, bound, exact - 1)
    with pytest.raises(TooMuchToSplitError, match=str(exact - 1)):
        split(whole, whole.size - 1)


def test_records_of_nothing_at_all_are_split_too() -> None:
    nothing = b"".join(encoded_record(offset=n, rest=b"", timestamp=1 << 10) for n in range(500))
    whole = ProducerBatch(nothing, 500, 0, 499, 0, NOW, NOW)
    pieces = split(whole, 500)
    assert sum(piece.count for piece in pieces) == 500
    assert max(piece.size for piece in pieces) <= 500


@every_codec
def test_a_batch_with_a_900_kb_value_survives_rewriting_merging_and_splitting(codec: int) -> None:
    big = Plain(0, NOW, b"k", random.Random(1).randbytes(450_000) + bytes(450_000), (("h", None),))
    small = some_records(1, 3, first=2)
    producer_batch, _ = merge([rewritten(encode([big], codec, last=1), 0), as_is(only(encode(small, codec)))])
    assert contents(
        [r for piece in split(producer_batch, producer_batch.size - 1) for r in records_of(piece)]
    ) == contents([big, *small])
