from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.findings import Aim
from benchmarks.memory import Idle, median_idle
from benchmarks.picture import bars
from benchmarks.provenance import History
from benchmarks.report import HOW, NAMES, how, marks, render, throughput_figures, verdicts, warnings
from benchmarks.store import Part, load, save


def copied(side: str, per_cpu_second: float, *, profile: str = "1k", long_enough: bool = True) -> dict[str, Any]:
    return {
        "profile": profile,
        "label": "1 KiB records",
        "side": side,
        "wire_bytes_per_record": 370.0,
        "raw_bytes_per_record": 1033.0,
        "records_per_batch": 243.0,
        "rounds": 2,
        "records": 1_000_000,
        "seconds": 61.0,
        "records_per_second": 1_000_000 / 61,
        "cpu_seconds": 60.0,
        "cpu_by_kind": {"Connect's JVM": 60.0},
        "microseconds_per_record": 1e6 / per_cpu_second,
        "records_per_cpu_second": per_cpu_second,
        "source_broker_cpu": 1.0,
        "target_broker_cpu": 2.0,
        "long_enough": long_enough,
    }


def delay(side: str, p50: float, p99: float, received: int = 100, *, p999: float = 110.0) -> dict[str, Any]:
    floor = {"floor_p50": 2.0, "floor_p99": 10.0, "cpu_percent": 5.0}
    return {
        "side": side,
        "rate": 100,
        "sent": 100,
        "received": received,
        "p50": p50,
        "p99": p99,
        "over_p50": p50 - 2.0,
        "over_p99": p99 - 10.0,
        "over_p999": p999 - 10.0,
        "cpu_percent": 5.0,
        **floor,
    }


def part(figures: Any) -> Part:
    return Part("2026-01-02 03:04", "python -m benchmarks", "abc1234", {"Processor": "2 cores"}, figures, 0.3)


def aims(name: str, figures: Any) -> dict[str, Aim]:
    return {aim.what: aim for aim, _ in verdicts({name: part(figures)})}


def test_twenty_times_the_records_meet_the_aim() -> None:
    assert [aim.verdict for aim in aims("throughput 1k", [copied("mm2", 10.0), copied("ours", 200.0)]).values()] == [
        "met"
    ]


def test_less_than_that_is_missed() -> None:
    found = aims("throughput 1k", [copied("mm2", 10.0), copied("ours", 199.0)])
    assert [aim.verdict for aim in found.values()] == ["MISSED"]


def test_a_side_that_copied_too_shortly_proves_nothing() -> None:
    found = aims("throughput 1k", [copied("mm2", 10.0, long_enough=False), copied("ours", 1000.0)])
    assert [aim.verdict for aim in found.values()] == ["does not count"]


def test_single_records_are_measured_by_another_aim() -> None:
    figures = [copied("mm2", 10.0, profile="single"), copied("ours", 30.0, profile="single")]
    assert [aim.met for aim in aims("throughput 1k", figures).values()] == [True]


def test_both_ways_of_mirror_maker_are_compared() -> None:
    figures = [copied("mm2", 10.0), copied("mm2-no-syncs", 20.0), copied("ours", 100.0)]
    assert [aim.measured for aim in aims("throughput 1k", figures).values()] == ["10.0 ×", "5.0 ×"]


@pytest.mark.parametrize(
    ("p50", "p99", "p999", "met"),
    [
        pytest.param(4.0, 20.0, 110.0, [True, True, True], id="exactly_at_the_limits"),
        pytest.param(4.1, 20.0, 110.0, [False, True, True], id="median_too_late"),
        pytest.param(4.0, 20.1, 110.0, [True, False, True], id="tail_too_late"),
        pytest.param(4.0, 20.0, 110.1, [True, True, False], id="longest_tail_too_late"),
    ],
)
def test_latency_is_judged_above_the_floor(p50: float, p99: float, p999: float, met: list[bool]) -> None:
    found = aims("latency", [delay("ours", p50, p99, p999=p999)])
    assert [aim.met for aim in found.values()] == met


@pytest.mark.parametrize(
    ("p50", "p99", "met"),
    [
        pytest.param(3.0, 11.0, [True, True], id="exactly_at_the_limits"),
        pytest.param(3.1, 11.0, [False, True], id="median_above_half"),
        pytest.param(3.0, 11.1, [True, False], id="tail_above_a_third"),
    ],
)
def test_latency_is_judged_beside_that_of_mirror_maker_at_the_same_rate(
    p50: float, p99: float, met: list[bool]
) -> None:
    figures = [delay("mm2", 4.0, 13.0), delay("mm2", 900.0, 900.0) | {"rate": 2_000}, delay("ours", p50, p99)]
    beside = [
        aim for what, aim in aims("latency", figures).items() if what.endswith("beside that of MirrorMaker 2, defaults")
    ]
    assert [aim.met for aim in beside] == met


def test_on_a_saturated_machine_the_other_side_is_the_measure() -> None:
    figures = [delay("mm2", 4.0, 40.0) | {"busy": 2}, delay("ours", 2.5, 35.0) | {"busy": 2}]
    beside = "on a saturated machine: {} over consuming directly, beside that of MirrorMaker 2, defaults"
    assert {what: aim.met for what, aim in aims("latency-saturated", figures).items()} == {
        f"100 records/s {beside.format('p50')}": True,
        f"100 records/s {beside.format('p99')}": False,
    }


def test_a_side_that_is_not_late_at_all_is_no_measure_for_the_other() -> None:
    figures = [delay("mm2", 2.0, 10.0), delay("ours", 3.0, 11.0)]
    assert not [what for what in aims("latency", figures) if "beside" in what]


def test_latency_with_lost_records_does_not_count() -> None:
    assert [aim.met for aim in aims("latency", [delay("ours", 2.0, 10.0, received=99)]).values()] == [None] * 3


def test_the_spread_of_the_rounds_stands_beside_the_ratio() -> None:
    figures = [
        copied("mm2", 10.0) | {"by_round": [8.0, 10.0, 12.0]},
        copied("ours", 100.0) | {"by_round": [100.0, 90.0, 108.0]},
    ]
    assert [aim.measured for aim in aims("throughput 1k", figures).values()] == ["10.0 × (9.0 to 12.5)"]
    text = render({"throughput 1k": part(figures)})
    assert "| 100 (90 to 108) |" in text
    assert "| 100, 90, 108 |" in text


@pytest.mark.parametrize(
    ("mm2", "ours", "verdict"),
    [
        pytest.param([8.0, 10.0, 12.0], [200.0, 180.0, 216.0], "met", id="rounds_that_are_alike"),
        pytest.param([6.3, 10.0, 22.9], [100.0, 90.0, 108.0], "does not count", id="mirror_maker_that_warms_up_still"),
        pytest.param([8.0, 10.0, 12.0], [60.0, 90.0, 108.0], "does not count", id="ours_that_somebody_held_up"),
    ],
)
def test_rounds_that_are_not_alike_prove_nothing(mm2: list[float], ours: list[float], verdict: str) -> None:
    figures = [copied("mm2", 10.0) | {"by_round": mm2}, copied("ours", 200.0) | {"by_round": ours}]
    assert [aim.verdict for aim in aims("throughput 1k", figures).values()] == [verdict]


def unpaired(figures: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in figures.items() if not name.startswith("over_")}


def test_the_lateness_that_is_judged_is_that_of_the_records_and_no_difference_of_percentiles() -> None:
    figures = delay("ours", 3.0, 11.0) | {"over_p50": 6.0, "over_p99": 9.0}
    assert [(aim.measured, aim.met) for aim in aims("latency", [figures]).values()] == [
        ("+6.0 ms", False),
        ("+9.0 ms", True),
        ("+100.0 ms", True),
    ]


def test_a_difference_of_percentiles_may_miss_an_aim_and_meets_none() -> None:
    found = aims("latency", [unpaired(delay("ours", 3.0, 36.0))])
    assert [(aim.measured, aim.verdict) for aim in found.values()] == [
        ("+1.0 ms, unpaired", "does not count"),
        ("+26.0 ms, unpaired", "MISSED"),
    ]


def test_a_figure_of_a_dirty_tree_may_miss_an_aim_and_meets_none() -> None:
    dirty = replace(part([delay("ours", 3.0, 36.0)]), dirty=True)
    assert [aim.verdict for aim, _ in verdicts({"latency": dirty})] == [
        "does not count: dirty tree",
        "MISSED",
        "does not count: dirty tree",
    ]
    text = render({"latency": dirty}, History("def5678", {"abc1234": 7}))
    assert "| +1.0 ms | ≤ 2 ms | **does not count: dirty tree** |" in text
    assert "| +26.0 ms | ≤ 10 ms | **MISSED** |" in text


def test_what_does_not_count_anyhow_is_of_a_dirty_tree_all_the_same() -> None:
    dirty = replace(part([delay("ours", 2.0, 10.0, received=99)]), dirty=True)
    assert {aim.verdict for aim, _ in verdicts({"latency": dirty})} == {"does not count: dirty tree"}


def test_lost_records_do_not_hide_a_missed_aim() -> None:
    assert [aim.met for aim in aims("latency", [delay("ours", 9.0, 36.0, received=99)]).values()] == [
        False,
        False,
        None,
    ]


def test_the_spread_of_the_rounds_stands_beside_the_figure_of_all() -> None:
    rounds = [{"over_p50": 1.0, "over_p99": 4.0}, {"over_p50": -0.5, "over_p99": 9.0}]
    text = render({"latency": part([delay("ours", 3.0, 11.0) | {"rounds": rounds}])})
    assert "| +1.0 (-0.5 to +1.0) | +1.0 (+4.0 to +9.0) |" in text


def test_memory_is_judged_by_its_sum_and_by_the_peak_of_the_task() -> None:
    figures = {
        "idle": [{"side": "ours", "total_mb": 901.0, "by_kind": {"worker": 901.0}, "cpu_percent": 1.0}],
        "throttled": [
            {
                "source_bytes": 10**9,
                "partitions": 16,
                "bytes_per_second": 5_000_000,
                "seconds": 75.0,
                "copied_bytes_per_second": 5e6,
                "peak_task_mb": 299.9,
                "peak_total_mb": 1000.0,
            }
        ],
    }
    assert [aim.met for aim in aims("memory", figures).values()] == [False, True]


def test_of_several_rounds_of_idle_memory_the_median_one_is_told_with_the_least_and_the_most() -> None:
    rounds = [Idle("ours", total, {"worker": total}, 1.0) for total in (700.0, 690.0, 720.0)]
    figures = {"idle": [asdict(median_idle(rounds))], "throttled": []}
    text = render({"memory": part(figures)})
    assert "| mirror-connect: worker | 700 |" in text
    assert "| mirror-connect: together | 700 (690 to 720) | 1.0 |" in text


@pytest.mark.parametrize(
    ("worst", "cell"),
    [
        (
            {"first_record_worst": 9.9, "again_worst": 9.0, "put": 1.5, "put_worst": 2.0},
            "| 8.6 (9.9) | 8.5 (9.0) | 1.5 (2.0) |",
        ),
        ({}, "| 8.6 | 8.5 | – |"),
    ],
    ids=["with_the_worst", "measured_before_it_was_kept"],
)
def test_the_first_record_after_a_start_is_told_with_the_worst(worst: dict[str, float], cell: str) -> None:
    times = {"rest": 0.9, "rest_worst": 1.0, "rest_again": 0.6, "rest_again_worst": 0.8, "accepted": 1.0}
    start = {"side": "ours", "starts": 5, "first_record": 8.6, "again": 8.5, **times, **worst}
    assert cell in render({"startup": part([start])})


def test_a_missed_aim_stands_out_in_the_report() -> None:
    text = render({"throughput 1k": part([copied("mm2", 10.0), copied("ours", 20.0)])})
    assert "| 2.0 × | ≥ 20 × | **MISSED** |" in text


def test_the_report_says_when_where_and_by_what_command() -> None:
    text = render({"latency": part([delay("ours", 3.0, 11.0)])}, History("def5678", {"abc1234": 7}))
    assert "Rendered at commit def5678." in text
    assert "| latency | 2026-01-02 03:04 | abc1234 | 7 | clean | 0.3 | `python -m benchmarks` |" in text


def test_each_section_and_each_aim_tells_its_commit_and_how_long_ago_it_was() -> None:
    text = render({"latency": part([delay("ours", 3.0, 11.0)])}, History("def5678", {"abc1234": 7}))
    assert "Measured at commit abc1234, 7 commits ago." in text
    assert all(line.endswith("| abc1234, 7 commits ago |") for line in text.splitlines() if "p50 over" in line)


def test_profiles_of_different_commits_are_told_one_by_one() -> None:
    parts = {
        "throughput 1k": part([copied("ours", 20.0)]),
        "throughput 100b": replace(part([copied("ours", 30.0, profile="100b")]), commit="0000000"),
    }
    text = render(parts, History("def5678", {"abc1234": 7, "0000000": 51}))
    assert "Measured at: 1k abc1234, 7 commits ago; 100b 0000000, **51 commits ago**." in text


@pytest.mark.parametrize(
    ("changed", "ages", "expected"),
    [
        pytest.param({}, {"abc1234": 50}, [], id="as_old_as_may_be"),
        pytest.param({}, {"abc1234": 51}, ["51 commits ago"], id="too_old"),
        pytest.param({"dirty": True}, {"abc1234": 0}, ["dirty tree"], id="dirty"),
        pytest.param({}, {}, ["of a commit that is not in this history"], id="of_another_history"),
        pytest.param({"commit": "unknown"}, {}, ["of an unknown commit"], id="without_git"),
        pytest.param({"load_before": 3.8}, {"abc1234": 0}, ["busy machine (load 3.8)"], id="busy"),
        pytest.param({"load_before": None}, {"abc1234": 0}, [], id="load_unknown_in_the_middle_of_a_run"),
        pytest.param({"dirty": True}, {"abc1234": 60}, ["60 commits ago", "dirty tree"], id="both"),
    ],
)
def test_figures_that_do_not_describe_this_commit_are_marked(
    changed: dict[str, Any], ages: dict[str, int], expected: list[str]
) -> None:
    marked = replace(part([delay("ours", 3.0, 11.0)]), **changed)
    history = History("def5678", ages)
    assert marks(marked, history) == expected
    assert all(f"**{mark}**" in render({"latency": marked}, history) for mark in expected)
    told = [f"latency, measured at {marked.commit}: {', '.join(expected)}"] if expected else []
    assert warnings({"latency": marked}, history) == told


def test_a_dirty_tree_of_earlier_files_is_still_one(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    save({"latency": replace(part([delay("ours", 3.0, 11.0)]), commit="abc1234-dirty")}, path)
    path.write_text(path.read_text().replace(',\n  "dirty": false', ""))
    assert [(each.commit, each.dirty) for each in load(path).values()] == [("abc1234", True)]


def test_how_older_figures_were_measured_is_told_as_it_was_then() -> None:
    then = replace(part([delay("ours", 3.0, 11.0)]), how={"Latency": "Measured otherwise."})
    assert "\nMeasured otherwise.\n" in render({"latency": then})
    assert HOW["Latency"] not in render({"latency": then})


def test_profiles_measured_in_different_ways_are_told_apart() -> None:
    parts = {
        "throughput 1k": replace(part([copied("ours", 20.0)]), how=how("throughput 1k")),
        "throughput 100b": replace(
            part([copied("ours", 30.0, profile="100b")]), how={"Copying": "Measured otherwise."}
        ),
    }
    text = render(parts)
    assert f"\n1k: {HOW['Copying']}\n" in text
    assert "\n100b: Measured otherwise.\n" in text


@pytest.mark.parametrize("name", sorted(NAMES))
def test_every_part_keeps_with_its_figures_how_it_was_measured(name: str) -> None:
    assert set(how(name).values()) <= set(HOW.values())
    assert how(name)


def test_every_row_of_a_table_has_as_many_cells_as_its_head() -> None:
    lines = render({"throughput 1k": part([copied("mm2", 10.0), copied("ours", 20.0)])}).splitlines()
    tables = [[line.count("|") for line in block.splitlines()] for block in "\n".join(lines).split("\n\n")]
    assert all(len(set(counts)) == 1 for counts in tables if counts and all(counts))


def test_profiles_measured_in_several_runs_stand_in_one_table() -> None:
    parts = {
        "throughput 1k": part([copied("ours", 20.0)]),
        "throughput 100b": part([copied("ours", 30.0, profile="100b")]),
    }
    assert [figures["profile"] for figures in throughput_figures(parts)] == ["1k", "100b"]


def test_a_part_that_was_not_measured_is_not_in_the_report() -> None:
    assert "## Latency" not in render({"throughput 1k": part([copied("mm2", 10.0), copied("ours", 20.0)])})


def test_the_picture_is_well_formed() -> None:
    root = ElementTree.fromstring(bars([copied("mm2", 10.0), copied("ours", 20.0)]))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_a_bar_is_as_long_as_its_figure() -> None:
    root = ElementTree.fromstring(bars([copied("mm2", 10.0), copied("ours", 40.0)]))
    first, second = (float(rect.get("width", "0")) for rect in root.findall("{*}rect")[1:])
    assert second == pytest.approx(4 * first)


def test_figures_come_back_as_they_were_saved(tmp_path: Path) -> None:
    parts = {"latency": part([delay("ours", 3.0, 11.0)])}
    save(parts, tmp_path / "results.json")
    assert load(tmp_path / "results.json") == parts


def test_before_the_first_run_there_are_no_figures(tmp_path: Path) -> None:
    assert load(tmp_path / "results.json") == {}


@pytest.mark.parametrize(("worst", "verdict"), [(1.9, "met"), (2.1, "MISSED")])
def test_the_slowest_start_with_many_connectors_decides(worst: float, verdict: str) -> None:
    crowd = {"side": "ours", "state": "RUNNING", "connectors": 200, "starts": 5, "created": 9.0, "later_worst": 0.3}
    found = aims("many-connectors", [{**crowd, "answered": 1.0, "answered_worst": worst}])
    assert [aim.verdict for aim in found.values()] == [verdict]


@pytest.mark.parametrize(("all_mb", "met"), [(499.0, [True, True]), (520.0, [True, False])])
def test_light_connectors_are_told_beside_mirror_makers_and_judged_by_what_ten_more_take(
    all_mb: float, met: list[bool]
) -> None:
    def light(side: str, all_mb: float) -> dict[str, object]:
        return {"side": side, "connectors": 10, "three_mb": 440.0, "three_cpu": 3.0, "all_mb": all_mb, "all_cpu": 6.0}

    figures = [light("mm2", 300.0), light("ours", all_mb)]
    told = render({"light-connectors": part(figures)})
    assert f"| mirror-connect | 440 | {all_mb:.0f} | {all_mb - 440:+.0f} | 3.0 | 6.0 |" in told
    assert f"| 13 light connectors: memory (PSS) | {all_mb:.0f} MB | 300 MB |" in told
    assert [aim.met for aim in aims("light-connectors", figures).values()] == met


@pytest.mark.parametrize(("leaderless", "met"), [(2.5, True), (2.7, False)])
def test_a_leaderless_partition_is_judged_by_what_it_costs_the_others(leaderless: float, *, met: bool) -> None:
    figures = {"partitions": 10_001, "running": 21.7, "copied": 9.9, "task_mb": 132.0, "total_mb": 584.0, "cpu": 2.0}
    figures["leaderless_cpu"] = leaderless
    assert f"| 10,001 | 21.7 | 9.9 | 132 | 584 | 2.0 | {leaderless} |" in render({"many-partitions": part([figures])})
    assert [aim.met for aim in aims("many-partitions", [figures]).values()] == [met]


def test_a_dedicated_start_is_told_beside_mirror_makers_and_its_aim() -> None:
    def start(side: str, first: float) -> dict[str, object]:
        times = {"first_record": first, "first_record_worst": 9.9, "again": 5.0, "again_worst": 6.0}
        return {"side": side, "starts": 5, **times}

    figures = [start("mm2", 5.0), start("ours", 6.1)]
    assert "| mirror-connect (5 starts) | 6.1 (9.9) | 5.0 (6.0) |" in render({"dedicated-start": part(figures)})
    told = aims("dedicated-start", figures)
    assert [aim.met for aim in told.values()] == [False, True]
