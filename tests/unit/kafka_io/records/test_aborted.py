"""The batches that a consumer of committed records gets, in the cases of Kafka's CompletedFetch."""

from __future__ import annotations

import random
import struct

import pytest

from mirror_connect.kafka_io.records.aborted import AbortedFilter
from mirror_connect.kafka_io.records.record_batch import split_fetch
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


@pytest.mark.parametrize("seed", range(40))
def test_from_any_offset_of_a_random_log_exactly_the_aborted_batches_are_dropped(seed: int) -> None:
    rng = random.Random(seed)
    # What is open: producer → offset of its first batch; those whose end decides over them are in `pending`.
    opened: dict[int, int] = {}
    pending: dict[int, list[int]] = {}
    log: list[tuple[int, int, bytes]] = []
    index: list[tuple[int, int, int]] = []
    wanted: set[int] = set()
    offset = 0
    while len(log) < 60 or opened:
        producer, size = rng.randint(1, 4), rng.randint(1, 3)
        if producer in opened and (len(log) >= 60 or rng.random() < 0.3):
            kind, size = rng.choice([ABORT, COMMIT]), 1
            content = marker(offset, producer, kind, horizon_after=rng.choice([0, 0, 9_999]))
            first, batches = opened.pop(producer), pending.pop(producer)
            if kind == ABORT:
                index.append((producer, first, offset))
            else:
                wanted.update(batches)
        elif len(log) >= 60:
            continue
        elif producer == 4:
            content = data(offset, -1, size, transactional=False)
            wanted.add(offset)
        else:
            content = data(offset, producer, size)
            opened.setdefault(producer, offset)
            pending.setdefault(producer, []).append(offset)
        log.append((offset, offset + size - 1, content))
        offset += size
    for _ in range(10):
        start = rng.randrange(offset)
        end = rng.randrange(start, offset) + 1
        shown = [each for each in log if each[1] >= start and each[0] < end]
        # The broker's answer: aborted transactions that overlap with what it sends, by their last offset.
        aborted = [(producer, first) for producer, first, last in index if last >= start and first < end]
        assert kept(aborted, *(content for _, _, content in shown)) == [each[0] for each in shown if each[0] in wanted]
