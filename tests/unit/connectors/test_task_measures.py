"""What a task measured comes out of JSON as it went in, and a report of the most rows takes little time."""

from __future__ import annotations

import json

import pytest

from mirror_connect.connectors.task_measures import (
    BUCKETS,
    COPIED,
    SOURCE,
    GroupMeasures,
    GroupPartition,
    PartitionMeasures,
    RequestMeasures,
    TaskMeasures,
    Window,
)
from mirror_connect.connectors.task_protocol import RUNNING, TaskReport

WINDOW = Window(1, 9, 12, 3)
ROW = PartitionMeasures("t", 0, "A.t", 41, 50, 8, 1_700_000_000_000, 4, 42, 4_200, WINDOW, WINDOW, (3, 2, 4, 1))
MEASURES = TaskMeasures(
    1_700_000_001_000,
    partitions=(ROW, PartitionMeasures("t", 1, "A.t", None, None, None, None, 0, 0, 0)),
    more_partitions=7,
    gone=(("u", 3),),
    latency_counts=(0,) * BUCKETS,
    latency_total_ms=12,
    batches={COPIED: (2, 300)},
    compressed_bytes=1_000,
    sampled=(100, 350),
    requests=(RequestMeasures(SOURCE, "Fetch", 3, 1, 1.5, 0.7, 100, 2_000, 0),),
    connections=(2, 3),
    lease_ms=9_000,
    buffered_bytes=5,
    buffer_bytes=10,
    commits=2,
    failed_commits=1,
    commit=WINDOW,
    committed_ms=1_700_000_000_900,
    groups=(
        GroupMeasures("g", 1, None, (GroupPartition("t", 0, "A.t", 0, 0, WINDOW),)),
        GroupMeasures("h", 1, 2, (GroupPartition("t", 0, "A.t", None, None),)),
    ),
    more_groups=1,
)


def test_measures_are_the_same_behind_the_wire() -> None:
    assert TaskMeasures.from_json(json.loads(json.dumps(MEASURES.to_json()))) == MEASURES


@pytest.mark.parametrize("measures", [pytest.param(None, id="none"), pytest.param(MEASURES, id="some")])
def test_a_report_carries_measures(measures: TaskMeasures | None) -> None:
    report = TaskReport("one", 1, RUNNING, settled=False, measures=measures)
    assert TaskReport.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_a_report_of_an_older_task_has_no_measures() -> None:
    said = TaskReport("one", 1, RUNNING, settled=False).to_json()
    del said["measures"]
    assert TaskReport.from_json(said).measures is None


def test_windows_add_up() -> None:
    assert WINDOW.plus(Window(0, 5, 5, 1)) == Window(0, 9, 17, 4)
    assert WINDOW.plus(None) == WINDOW


@pytest.mark.parametrize(
    ("sampled", "saved"),
    [
        pytest.param((100, 350), 2_500, id="by_the_ratio_of_the_samples"),
        pytest.param((0, 0), 0, id="nothing_without_a_sample"),
        pytest.param((100, 90), 0, id="never_less_than_nothing"),
    ],
)
def test_saved_bytes_follow_from_samples(sampled: tuple[int, int], saved: int) -> None:
    assert TaskMeasures(0, compressed_bytes=1_000, sampled=sampled).saved_bytes == saved
