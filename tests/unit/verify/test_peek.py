"""A partition's log by single fetches: its end, a later beginning and damage have different errors."""

from __future__ import annotations

import pytest

from mirror_connect.verify.errors import CannotCompareError
from mirror_connect.verify.peek import GoneError, PeekedLog, ReadingPrice
from mirror_connect.verify.reading import FETCH_BYTES
from tests.fakes.encoded_batches import encode, some_records
from tests.fakes.peeked_logs import MemoryPeek

BATCHES = [encode(some_records(seed, 10, first=10 * seed)) for seed in range(4)]


async def test_a_log_is_read_look_by_look_to_its_end() -> None:
    log = PeekedLog(MemoryPeek("source", BATCHES, at_once=2), 0)
    ends = []
    while (chunk := await log.read()) is not None:
        ends.append(chunk.next_offset)
    assert ends == [20, 40]


async def test_what_was_read_already_is_not_looked_at_again() -> None:
    peek = MemoryPeek("source", BATCHES, at_once=2)
    chunk = await peek.fetch(0)
    log = PeekedLog(peek, 0, chunk)
    assert await log.read() is chunk
    assert peek.fetches == 1
    following = await log.read()
    assert following is not None
    assert following.next_offset == 40


async def test_a_log_that_begins_later_now_says_where() -> None:
    peek = MemoryPeek("target", BATCHES)
    peek.gone = 20
    with pytest.raises(GoneError, match=r"^target partition t-0 begins at offset 20 now$") as raised:
        await PeekedLog(peek, 5).read()
    assert (raised.value.role, raised.value.first) == ("target", 20)


async def test_an_end_before_what_was_written_is_no_end() -> None:
    peek = MemoryPeek("target", BATCHES)
    assert await PeekedLog(peek, 40, there=40).read() is None
    with pytest.raises(CannotCompareError, match="shows nothing from offset 40 on, and was known to reach 41"):
        await PeekedLog(peek, 40, there=41).read()


async def test_a_log_that_cannot_be_passed_is_damaged() -> None:
    peek = MemoryPeek("source", BATCHES, at_once=1)
    log = PeekedLog(peek, 10, await peek.fetch(0))
    with pytest.raises(CannotCompareError, match="can't be read beyond offset 10: its next batch is damaged"):
        await log.read()


async def test_who_seeks_forgets_what_was_read() -> None:
    peek = MemoryPeek("source", BATCHES, at_once=1)
    log = PeekedLog(peek, 0, await peek.fetch(0))
    await log.seek(30)
    chunk = await log.read()
    assert chunk is not None
    assert chunk.next_offset == 40


def test_looks_become_smaller_while_they_cost_much_and_larger_again() -> None:
    price = ReadingPrice()
    price.adapt(1.0)
    assert price.fetch_bytes == FETCH_BYTES // 2
    price.adapt(0.005)
    assert price.fetch_bytes == FETCH_BYTES // 2
    price.adapt(0.0)
    price.adapt(0.0)
    assert price.fetch_bytes == FETCH_BYTES


def test_a_look_never_becomes_too_small() -> None:
    price = ReadingPrice()
    for _ in range(40):
        price.adapt(1.0)
    assert price.fetch_bytes == 16 << 10


def test_bytes_cost_nothing_while_nothing_is_known() -> None:
    assert (ReadingPrice().per_byte, ReadingPrice(seconds=2.0, size=4).per_byte) == (0.0, 0.5)
