"""What is set for each boundary of transactions, and what is aimed at beside copying without them."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks.comparison import rows
from benchmarks.exactly_once import SETTINGS, Setting
from benchmarks.exactly_once_findings import findings_of_copying, findings_of_latency, interval_ms
from benchmarks.plan import OTHERS
from benchmarks.report import NAMES


def test_a_setting_says_what_the_worker_and_the_connector_are_given() -> None:
    interval = Setting("ours", "interval", 100)
    assert interval.properties == {"exactly.once.source.support": "enabled"}
    assert interval.connector == {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "100"}
    assert Setting("ours", "poll").connector == {"transaction.boundary": "poll"}
    off = Setting("ours", "off")
    assert (off.properties, off.connector, off.worker) == ({}, {}, "")
    assert (off.isolation, interval.isolation) == ("read_uncommitted", "read_committed")


def test_each_setting_has_a_name_of_its_own_that_tells_its_interval() -> None:
    assert len({(each.side, each.name) for each in SETTINGS}) == len(SETTINGS)
    assert all(interval_ms(each.name) == each.interval_ms for each in SETTINGS)


def copied(setting: str, rates: list[float], *, side: str = "ours", seconds: float = 20.0) -> dict[str, Any]:
    return {
        "profile": "1k",
        "label": "1 KiB",
        "side": side,
        "setting": setting,
        "records": 1000,
        "seconds": seconds,
        "records_per_second": rates[0],
        "records_per_cpu_second": rates[0],
        "by_round": rates,
        "by_round_per_second": rates,
        "target_broker_cpu": 1.0,
    }


def met(*figures: dict[str, Any]) -> list[bool | None]:
    return [aim.met for aim in findings_of_copying({"copying": figures})[1]]


def test_the_aim_is_a_share_of_the_same_side_without_it_in_the_same_run() -> None:
    plain = copied("off", [100.0, 110.0, 105.0])
    assert met(plain, copied("interval-1000", [84.0, 85.0, 86.0])) == [True, True]
    assert met(plain, copied("interval-1000", [83.0, 83.0, 83.0])) == [False, False]


def test_short_intervals_and_the_other_side_have_no_aim() -> None:
    plain = copied("off", [100.0])
    assert met(plain, copied("interval-100", [10.0]), copied("poll", [10.0])) == []
    assert met(copied("off", [100.0], side="mm2"), copied("interval-1000", [10.0], side="mm2")) == []


@pytest.mark.parametrize("figures", [copied("off", [100.0], seconds=5.0), copied("off", [100.0, 160.0])])
def test_a_short_or_an_unsteady_run_does_not_count(figures: dict[str, Any]) -> None:
    rounds = [100.0] * len(figures["by_round"])
    assert met(figures, copied("interval-1000", rounds)) == [None, None]


def test_the_share_of_each_round_is_shown() -> None:
    table, _ = findings_of_copying({"copying": [copied("off", [100.0, 200.0]), copied("poll", [50.0, 160.0])]})
    assert table.rows[1][4] == "50 (70%: 50% to 80%)"
    assert table.rows[0][4] == "100"


def test_latency_is_told_with_who_reads_and_stands_beside_the_other_side() -> None:
    late = {"p50": 2.0, "p99": 9.0, "over_p50": 1.0, "over_p99": 8.0}
    told = {"setting": "poll", "isolation": "read_committed", "rate": 100, "sent": 10, "received": 10}
    both = [{"side": side, **told, **late, "rounds": [late], "cpu_percent": 3.0} for side in ("ours", "mm2")]
    table, aims = findings_of_latency({"latency": both})
    assert table.rows[0][:2] == ("100 records/s: mirror-connect, exactly once, boundary poll", "read_committed")
    assert aims == []
    assert [row.what.rpartition(": ")[2] for row in rows({"copying": [], "latency": both})] == [
        "p50 over consuming directly",
        "p99 over consuming directly",
    ]


def test_it_is_a_case_of_the_whole_run() -> None:
    assert "exactly-once" in OTHERS
    assert "exactly-once" in NAMES
