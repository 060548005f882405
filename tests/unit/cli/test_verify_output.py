"""The output of verify: the table, the lines about faults, the verdict, and progress."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from mirror_connect.cli.verify_output import _Bar, _Lines, fault_line, print_report, watcher_for
from mirror_connect.verify.findings import Fault, Findings, Kind
from mirror_connect.verify.plan import Job
from mirror_connect.verify.run import EQUAL, NOT_COMPARED, Report, Result

JOB = Job("orders", 3, "A.orders", 0, 100, 100, 0, 100)


def report(findings: Findings, *, strict: bool = False) -> Report:
    return Report("m", [Result(JOB, findings)], seconds=2.0, strict=strict)


def printed(of: Report) -> str:
    out = io.StringIO()
    print_report(of, Console(file=out, width=200))
    return out.getvalue()


def test_repeats_that_are_faults_are_told_as_such() -> None:
    last = printed(report(Findings(equal=100, repeated=3), strict=True)).splitlines()[-1]
    assert last.startswith(
        "The copy differs from its source by duplicates alone, which --strict counts as faults: 3 duplicates on the target "
        "(a restart repeats some records, as does another connector to the same topic)."
    )
    found = Findings(equal=100, repeated=3)
    found.add(Fault(Kind.MISSING, (1, 1), None))
    assert "The copy differs from its source." in printed(report(found, strict=True))


def test_a_link_that_lags_is_equal_as_far_as_it_has_come() -> None:
    lagging = report(Findings(equal=60, behind=40))
    assert lagging.outcome == EQUAL
    head, row, *_, last = printed(lagging).splitlines()
    assert head.split("  ")[-1].strip() == "not copied yet"
    assert row.split()[-2:] == ["60", "40"]
    assert last.startswith(
        "The copy is equal to its source as far as it was copied: 40 source offsets not copied yet, or without a record."
    )


def test_a_link_that_has_copied_nothing_is_no_success() -> None:
    idle = report(Findings(behind=40))
    assert idle.outcome == NOT_COMPARED
    assert printed(idle).splitlines()[-1].startswith("Nothing to compare: no record is copied yet.")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(
            Findings(equal=12, gone_from_source=101),
            "The copy is equal to its source as far as both sides still have it: "
            "101 target records no longer on the source.",
            id="source_retention",
        ),
        pytest.param(
            Findings(equal=12, gone_from_target=1),
            "The copy is equal to its source as far as both sides still have it: "
            "1 source record no longer on the target.",
            id="target_retention",
        ),
        pytest.param(
            Findings(equal=12, gone_from_source=2, gone_from_target=3, behind=4, repeated=1),
            "The copy is equal to its source as far as it was copied and both sides still have it: "
            "4 source offsets not copied yet, or without a record; 2 target records no longer on the source; "
            "3 source records no longer on the target; "
            "1 duplicate on the target (a restart repeats some records, as does another connector to the same topic).",
            id="everything",
        ),
        pytest.param(
            Findings(gone_from_source=101),
            "Nothing to compare: no record is on both sides: 101 target records no longer on the source.",
            id="nothing_left_to_compare",
        ),
        pytest.param(
            Findings(equal=50, repeated=50),
            "The copy is equal to its source: 50 duplicates on the target (too many for a restart: another connector copies "
            "the same topic there, or the link started over).",
            id="copied_twice",
        ),
    ],
)
def test_the_last_sentence_claims_no_more_than_was_compared(found: Findings, told: str) -> None:
    assert report(found).outcome == EQUAL
    assert printed(report(found)).splitlines()[-1].startswith(told)


def test_of_many_notes_some_are_shown() -> None:
    partitions = [replace(JOB, partition=number) for number in range(30)]
    shown = printed(Report("m", [Result(job, Findings(equal=1, notes=["told"])) for job in partitions])).splitlines()
    assert sum(line.endswith(": told") for line in shown) == 20
    assert "and 10 more notes; --json has them all" in shown


def test_faults_are_printed_with_their_places() -> None:
    found = Findings(1, equal=97)
    found.add(Fault(Kind.MISSING, (5, 5), None))
    found.add(Fault(Kind.MISSING, (6, 6), None))
    found.add(Fault(Kind.CHANGED, (9, 9), (7, 7), detail="key null instead of 3 bytes"))
    lines = printed(report(found)).splitlines()
    assert "orders-3: 2 records missing, source offset 5 to 6" in lines
    assert "orders-3: and 1 more" in lines
    assert lines[-1].startswith("The copy differs from its source.")


def test_the_table_has_columns_for_what_there_is() -> None:
    found = Findings(equal=1_234)
    assert printed(report(found)).splitlines()[0].split() == ["topic", "target", "partitions", "equal"]
    found.add(Fault(Kind.MISSING, (5, 5), None))
    head, row, *_ = printed(report(found)).splitlines()
    assert head.split() == ["topic", "target", "partitions", "equal", "missing"]
    assert row.split() == ["orders", "A.orders", "1", "1,234", "1"]


def test_a_log_gets_a_line_with_rate_and_time_left_every_ten_seconds() -> None:
    out, now = io.StringIO(), [0.0]
    lines = _Lines(Console(file=out, width=200), clock=lambda: now[0])
    lines.begin([JOB])
    for second in range(1, 26):
        now[0] = float(second)
        lines.advanced(JOB, second)
    assert out.getvalue().splitlines() == [
        "10 % compared, 0 of 1 partitions done, 1 records/s, about 90 s left",
        "20 % compared, 0 of 1 partitions done, 1 records/s, about 80 s left",
    ]


@pytest.mark.parametrize(
    ("fault", "line"),
    [
        pytest.param(Fault(Kind.MISSING, (5, 5), None), "missing, source offset 5", id="one_record"),
        pytest.param(Fault(Kind.FOREIGN, None, (7, 9), 3), "3 records foreign, target offset 7 to 9", id="several"),
        pytest.param(
            Fault(Kind.CHANGED, (5, 5), (6, 6), detail="key null instead of 3 bytes"),
            "changed, source offset 5, target offset 6: key null instead of 3 bytes",
            id="with_its_difference",
        ),
    ],
)
def test_a_fault_has_its_kind_and_its_offsets(fault: Fault, line: str) -> None:
    assert fault_line(fault) == line


def test_a_partition_that_was_not_compared_completely_has_a_line_with_the_reason() -> None:
    assert "orders-3: not compared completely: no leader" in printed(report(Findings(error="no leader"))).splitlines()


def test_size_and_rate_are_at_the_end() -> None:
    last = printed(report(Findings(equal=1, bytes=5_000_000))).splitlines()[-1]
    assert last.endswith("5.0 MB of keys, values and headers read by librdkafka in 2.0 s (2.5 MB/s).")


def test_progress_counts_each_offset_once_and_a_partition_that_ends_early_completely() -> None:
    lines = _Lines(Console(file=io.StringIO()))
    later = replace(JOB, partition=4, start=90)
    lines.begin([JOB, later])
    lines.advanced(JOB, 60)
    lines.advanced(JOB, 40)
    lines.advanced(JOB, 500)
    assert (lines.total, lines.compared, lines.finished) == (110, 100, 0)
    lines.done(Result(later, Findings(error="no leader")))
    assert (lines.compared, lines.finished) == (110, 1)


@pytest.mark.parametrize(("terminal", "kind"), [(True, _Bar), (False, _Lines)])
def test_a_terminal_gets_a_bar_and_a_log_gets_lines(terminal: bool, kind: type) -> None:
    assert isinstance(watcher_for(Console(file=io.StringIO(), force_terminal=terminal)), kind)
