"""The timeline of a start, out of logs of both forms."""

from __future__ import annotations

import pytest

from benchmarks.timeline import timeline

OURS = """[2026-01-02 12:00:01,250] DEBUG Start: the settings are read (mirror_connect.app)
[2026-01-02 12:00:02,000] INFO something else (mirror_connect.app)
Traceback (most recent call last):
[2026-01-02 12:00:03,500] INFO Task c-0 is RUNNING with 1 partition (mirror_connect.app.supervisor.task_reports)
"""
JAVA = """12:00:02.500 INFO Kafka cluster ID: abc (org.apache.kafka.connect.runtime.WorkerConfig)
12:00:04.125 INFO [Worker clientId=x, groupId=g] Successfully joined group with generation 1 (WorkerCoordinator)
"""


@pytest.mark.parametrize(
    ("log", "found"),
    [
        pytest.param(
            OURS, [(1.25, "the settings are read"), (3.5, "Task c-0 is RUNNING with 1 partition")], id="this_product"
        ),
        pytest.param(
            JAVA,
            [(2.5, "Kafka cluster ID: abc"), (4.125, "Successfully joined group with generation 1")],
            id="kafka_connect",
        ),
    ],
)
def test_milestones_have_the_seconds_since_the_process_was_started(log: str, found: list[tuple[float, str]]) -> None:
    assert list(timeline(log, 12 * 3600.0)) == found


def test_a_start_over_midnight_goes_on_counting() -> None:
    log = "[2026-01-03 00:00:01,000] DEBUG Start: the group is joined (mirror_connect.app.worker)"
    assert list(timeline(log, 86_399.0)) == [(2.0, "the group is joined")]
