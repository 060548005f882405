"""How long the commits of a source task may wait, so that a kill repeats what its users are told."""

from __future__ import annotations

from mirror_connect.spark_jobs.mapping.offset_ranges_writer import WRITE_WAIT_S
from mirror_connect.spark_jobs.tasks.mirror_source import COMMIT_S


def test_ranges_that_are_not_written_leave_no_more_than_a_second_uncommitted() -> None:
    # docs/compatibility.md, "Source offsets".
    assert COMMIT_S + WRITE_WAIT_S < 1.0
