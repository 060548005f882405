"""What the case of long distances says: both sides at the same place, and a far target beside the near one."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.far import NEAR, SOURCE, TARGET, findings


def copied(
    side: str, far: str, away_ms: int, rate: float, cpu: float, *, partitions: int = 8, link: int = 0
) -> dict[str, Any]:
    return {
        "side": side,
        "far": far,
        "round_trip_ms": away_ms,
        "partitions": partitions,
        "link_bytes_per_second": link,
        "records": 1_000_000,
        "seconds": 7.0,
        "records_per_second": rate,
        "bytes_per_second": rate * 370,
        "cpu_seconds": 1.0,
        "microseconds_per_record": cpu,
    }


@pytest.mark.parametrize(
    ("rate", "cpu", "verdicts"),
    [
        pytest.param(300.0, 2.0, ["met", "met"], id="fast_and_cheap"),
        pytest.param(299.0, 2.0, ["MISSED", "met"], id="slower"),
        pytest.param(300.0, 2.1, ["met", "MISSED"], id="dearer"),
    ],
)
@pytest.mark.parametrize("far", [SOURCE, TARGET])
def test_the_sides_are_compared_where_a_cluster_is_100_ms_away(
    far: str, rate: float, cpu: float, verdicts: list[str]
) -> None:
    figures = [copied("mm2-tuned", far, 100, 100.0, 10.0), copied("ours", far, 100, rate, cpu)]
    assert [aim.verdict for aim in findings(figures)[1]] == verdicts


def test_a_far_target_is_compared_with_the_near_one() -> None:
    figures = [
        copied("ours", NEAR, 0, 100.0, 1.0),
        copied("ours", TARGET, 25, 100.0, 1.2),
        copied("ours", TARGET, 100, 100.0, 1.3),
    ]
    table, aims = findings(figures)
    assert [aim.verdict for aim in aims] == ["met", "MISSED"]
    assert [row[0] for row in table.rows] == [
        "near, 8 partitions: mirror-connect",
        "target 25 ms away, 8 partitions: mirror-connect",
        "target 100 ms away, 8 partitions: mirror-connect",
    ]


def test_one_partition_is_told_apart_from_many() -> None:
    table, aims = findings([copied("ours", TARGET, 100, 100.0, 1.0, partitions=1)])
    assert table.rows[0][0] == "target 100 ms away, 1 partition: mirror-connect"
    assert aims == []


def test_a_thin_link_is_named_and_is_no_far_target_to_compare_with_the_near_one() -> None:
    table, aims = findings([copied("ours", NEAR, 0, 100.0, 1.0), copied("ours", TARGET, 25, 5.0, 1.5, link=2_000_000)])
    assert table.rows[1][0] == "target 25 ms away behind 2 MB/s, 8 partitions: mirror-connect"
    assert aims == []
