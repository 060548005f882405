"""How long the commits of a source task may wait, so that a kill repeats what its users are told."""

from __future__ import annotations

import asyncio
import itertools
from unittest import mock

from mirror_connect.spark_jobs.mapping.offset_ranges_writer import WRITE_WAIT_S
from mirror_connect.spark_jobs.tasks.source_commits import COMMIT_S, SourceCommits
from tests.fakes.simulated_time import run_simulated


def test_ranges_that_are_not_written_leave_no_more_than_a_second_uncommitted() -> None:
    # docs/compatibility.md, "Source offsets". The rest of the second is for the write itself.
    assert COMMIT_S + WRITE_WAIT_S <= 0.75


def test_a_commit_that_waits_for_ranges_makes_the_next_one_no_later() -> None:
    times: list[float] = []

    async def slow() -> None:
        await asyncio.sleep(WRITE_WAIT_S)

    async def live() -> None:
        parts = mock.Mock(transactions=None)
        parts.spec.commit_interval_ms = 60_000
        parts.link.counters = {}
        parts.mapping.before_commit = slow
        parts.mapping.committed = mock.AsyncMock()
        parts.note_source_offsets = parts.report_passed = mock.AsyncMock()
        parts.source_offsets.commit = lambda: times.append(asyncio.get_running_loop().time())
        committing = asyncio.create_task(SourceCommits(parts).works()["commit"])
        await asyncio.sleep(10 * COMMIT_S)
        committing.cancel()

    run_simulated(live())
    assert len(times) >= 9
    assert {round(after - before, 3) for before, after in itertools.pairwise(times)} == {COMMIT_S}
