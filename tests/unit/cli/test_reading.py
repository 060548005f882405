"""Nothing is called equal that was not read."""

from __future__ import annotations

import pytest

from mirror_connect.cli.verify.batch_side import BatchSide
from mirror_connect.cli.verify.plan import Job
from mirror_connect.cli.verify.run import unread
from tests.fakes.encoded_batches import encode, some_records
from tests.fakes.partition_logs import MemoryLog

BATCH = encode(some_records(1, 10))


@pytest.mark.parametrize(
    ("until", "target_end", "told"),
    [(10, 10, None), (11, 10, "source's log ended at offset 10"), (10, 11, "target's log ended at offset 10")],
)
async def test_a_log_that_ends_too_early_is_no_equal_copy(until: int, target_end: int, told: str | None) -> None:
    sides = [BatchSide(MemoryLog([BATCH]), lambda *_: None) for _ in range(2)]
    for side in sides:
        side.drop(len(await side.want(100)))
    found = unread(Job("t", 0, "A.t", 0, until, until, 0, target_end), *sides)
    assert found is None if told is None else told in (found or "")
