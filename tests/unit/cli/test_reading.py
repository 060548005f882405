"""Reading a partition between fixed ends: nothing that came is lost, and nothing is called equal that was not read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mirror_connect.cli.verify import reading
from mirror_connect.cli.verify.plan import Job
from mirror_connect.cli.verify.rate import Rate
from mirror_connect.cli.verify.reading import CannotCompareError, PartitionLog
from mirror_connect.cli.verify.run import unread
from mirror_connect.cli.verify.side import Side
from mirror_connect.spark_jobs.fetch_state import PartitionState
from mirror_connect.spark_jobs.fetched import Fetched, SourcePartition
from tests.fakes.encoded_batches import encode, some_records
from tests.fakes.partition_logs import MemoryLog

KEY = SourcePartition("t", 0)
BATCH = encode(some_records(1, 10))


class FakeFetcher:
    def add(self, *_: Any) -> None:
        pass

    remove = add

    def state(self, _: SourcePartition) -> PartitionState:
        return PartitionState(10, 10, 0, "", False)


class FakeReader:
    """Has handed over all there is, so its position is the end."""

    place = "source"

    def __init__(self) -> None:
        self.fetcher = FakeFetcher()
        self.rate = Rate(None)

    def forget(self, _: SourcePartition) -> None:
        pass


class LateTimeout:
    """A wait that ends by its time in the same moment in which `log` gets what it waits for."""

    def __init__(self, log: list[PartitionLog]) -> None:
        self._log = log

    async def __aenter__(self) -> None:
        self._log[0].put(Fetched(KEY, memoryview(BATCH), 0, 10, 10, 10, 0, ()))

    async def __aexit__(self, *_: object) -> None:
        raise TimeoutError


async def test_what_comes_when_the_wait_ends_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[PartitionLog] = []
    monkeypatch.setattr(reading.asyncio, "timeout", lambda _seconds: LateTimeout(log))
    log.append(PartitionLog(FakeReader(), KEY, 0, 10))  # type: ignore[arg-type]
    fetched = await log[0].read()
    assert fetched is not None
    assert bytes(fetched.buffer) == BATCH
    assert await log[0].read() is None
    await asyncio.sleep(0)


async def test_a_log_that_is_truncated_while_it_is_read_can_not_be_compared() -> None:
    log = PartitionLog(FakeReader(), KEY, 0, 20)  # type: ignore[arg-type]
    log.put(Fetched(KEY, memoryview(BATCH), 0, 10, 20, 20, 0, ()))
    log.put(Fetched(KEY, memoryview(BATCH), 0, 10, 20, 20, 0, ()))
    assert await log.read() is not None
    with pytest.raises(CannotCompareError, match=r"^source partition .*: its log was truncated at offset 0 meanwhile$"):
        await log.read()


@pytest.mark.parametrize(
    ("until", "target_end", "told"),
    [(10, 10, None), (11, 10, "source's log ended at offset 10"), (10, 11, "target's log ended at offset 10")],
)
async def test_a_log_that_ends_too_early_is_no_equal_copy(until: int, target_end: int, told: str | None) -> None:
    sides = [Side(MemoryLog([BATCH]), lambda *_: None) for _ in range(2)]
    for side in sides:
        side.drop(len(await side.want(100)))
    found = unread(Job("t", 0, "A.t", 0, until, until, 0, target_end), *sides)
    assert found is None if told is None else told in (found or "")
