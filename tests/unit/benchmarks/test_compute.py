"""What the report says of records with a statement beside those without one."""

from __future__ import annotations

from typing import Any

from benchmarks.compute import FIRST_SECONDS, WARM, findings_of_latency


def later(moment: str, rate: int, over: float, floor: float, received: int = 500) -> dict[str, Any]:
    return {
        "moment": moment,
        "rate": rate,
        "sent": 500,
        "received": received,
        "floor_p50": floor / 10,
        "floor_p99": floor,
        "over_p50": over / 10,
        "over_p99": over,
        "over_p999": over * 2,
    }


def test_how_late_records_are_without_a_statement_stands_beside_what_one_adds() -> None:
    table, _ = findings_of_latency({"latency": [later(WARM, 2_000, 331.0, 201.0)]})
    row = dict(zip(table.head, table.rows[0], strict=True))
    assert row["over p99"] == "+331.0"
    assert row["without a statement: p50 / p99"] == "20.1 / 201.0"


def test_each_moment_has_its_aim_and_lost_records_do_not_meet_it() -> None:
    figures = [
        later(FIRST_SECONDS, 100, 99.0, 5.0),
        later(WARM, 100, 99.0, 5.0),
        later(WARM, 1_000, 24.0, 5.0),
        later(WARM, 2_000, 24.0, 5.0, received=499),
    ]
    _, aims = findings_of_latency({"latency": figures})
    assert [each.met for each in aims] == [True, False, True, None]
