"""Which batches a reader of committed records gets, in the cases of Kafka's CompletedFetch."""

from __future__ import annotations

import struct

import pytest

from mirror_connect.spark_jobs.aborted import AbortedFilter
from mirror_connect.spark_jobs.record_batch import split_fetch
from tests.fakes.encoded_batches import HEADER, NOW, Plain, encode, some_records, with_records

TRANSACTIONAL, CONTROL, DELETE_HORIZON = 0x10, 0x20, 0x40
ABORT, COMMIT = 0, 1


def data(offset: int, producer: int, count: int = 2, *, transactional: bool = True) -> bytes:
    return encode(
        some_records(offset, count, first=offset), attributes=TRANSACTIONAL * transactional, producer_id=producer
    )


def marker(offset: int, producer: int, kind: int, *, horizon_after: int = 0) -> bytes:
    record = Plain(offset, NOW, struct.pack(">hh", 0, kind), bytes(6), ())
    if not horizon_after:
        return encode([record], attributes=TRANSACTIONAL | CONTROL, producer_id=producer)
    # Compaction puts the horizon where the base timestamp was: the first delta isn't 0 any more.
    earlier = encode([record._replace(timestamp=NOW + horizon_after), record], base=offset)
    first_length = (earlier[HEADER.size] >> 1) + 1
    return with_records(
        earlier,
        earlier[HEADER.size + first_length :],
        count=1,
        attributes=TRANSACTIONAL | CONTROL | DELETE_HORIZON,
        producer_id=producer,
    )


def kept(aborted: list[tuple[int, int]], *batches: bytes) -> list[int]:
    judge = AbortedFilter(aborted)
    return [view.base_offset for view in split_fetch(b"".join(batches)) if not judge.drops(view)]


def test_control_batches_are_never_copied() -> None:
    assert kept([], data(0, 1), marker(2, 1, COMMIT), data(3, -1, transactional=False)) == [0, 3]


def test_an_aborted_transaction_is_dropped_and_the_one_around_it_kept() -> None:
    batches = (data(0, 1), data(2, 2), data(4, 1), marker(6, 2, ABORT), data(7, 1), marker(9, 1, COMMIT))
    assert kept([(2, 2)], *batches) == [0, 4, 7]


@pytest.mark.parametrize("horizon_after", [0, 1_000, 86_400_000])
def test_what_a_producer_commits_after_an_abort_is_kept(horizon_after: int) -> None:
    batches = (data(0, 1), marker(2, 1, ABORT, horizon_after=horizon_after), data(3, 1), marker(5, 1, COMMIT))
    assert kept([(1, 0)], *batches) == [3]


def test_a_second_abort_of_the_same_producer_is_dropped_too() -> None:
    batches = (data(0, 1), marker(2, 1, ABORT), data(3, 1), marker(5, 1, ABORT), data(6, 1))
    assert kept([(1, 3), (1, 0)], *batches) == [6]


def test_a_commit_marker_ends_no_abort() -> None:
    assert kept([(1, 3)], data(0, 1), marker(2, 1, COMMIT), data(3, 1), marker(5, 1, ABORT)) == [0]


def test_records_outside_of_transactions_are_kept_although_their_producer_aborts() -> None:
    assert kept([(1, 0)], data(0, 1), data(2, 1, transactional=False)) == [2]


def test_a_fetch_that_starts_within_an_aborted_transaction_drops_the_rest_of_it() -> None:
    assert kept([(1, 0)], data(10, 1), marker(12, 1, ABORT), data(13, 1)) == [13]


def test_an_emptied_control_batch_ends_nothing() -> None:
    emptied = with_records(marker(2, 1, ABORT), b"", count=0)
    assert kept([(1, 0)], data(0, 1), emptied, data(3, 1)) == []
