"""The command's arguments, its exit codes, and what it prints."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from mirror_connect.cli import verify_command
from mirror_connect.cli.__main__ import application
from mirror_connect.cli.verify_command import bytes_per_second, moment
from mirror_connect.cli.verify_output import _Lines, print_report
from mirror_connect.verify.findings import Fault, Findings, Kind
from mirror_connect.verify.follow import FollowOptions
from mirror_connect.verify.link import Link, described_link
from mirror_connect.verify.plan import Job
from mirror_connect.verify.rate import Rate
from mirror_connect.verify.run import DIFFERENT, EQUAL, NOT_COMPARED, Options, Report, Result

JOB = Job("orders", 3, "A.orders", 0, 100, 100, 0, 100)


def report(findings: Findings, *, strict: bool = False) -> Report:
    return Report("m", [Result(JOB, findings)], seconds=2.0, strict=strict)


def printed(of: Report) -> str:
    out = io.StringIO()
    print_report(of, Console(file=out, width=200))
    return out.getvalue()


@pytest.mark.parametrize(
    ("text", "number"), [("50MB/s", 50e6), ("8MiB", 8 << 20), ("1000", 1000), ("1.5 kb/s", 1500), ("1G", 1e9)]
)
def test_rates_are_read(text: str, number: float) -> None:
    assert bytes_per_second(text) == number


@pytest.mark.parametrize("text", ["", "fast", "0", "-1MB", "5 TB"])
def test_what_is_no_rate_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter):
        bytes_per_second(text)


@pytest.mark.parametrize(
    "text", ["2026-11-21T08:00:00Z", "2026-11-21T08:00:00", "2026-11-21T09:00:00+01:00", "1795248000000"]
)
def test_times_are_read(text: str) -> None:
    assert moment(text) == 1795248000000


def test_without_connector_both_clusters_are_needed() -> None:
    done = CliRunner().invoke(application, ["verify"])
    assert done.exit_code == 2
    assert "give both --source and --target" in done.output


def test_a_file_that_is_not_there_is_one_line_and_code_2(tmp_path: Path) -> None:
    missing = str(tmp_path / "none.properties")
    done = CliRunner().invoke(application, ["verify", "--source", missing, "--target", missing, "--source-alias", "A"])
    assert done.exit_code == 2
    assert (
        done.stderr
        == f"mirror-connect: Could not read the source cluster's properties {missing}: No such file or directory\n"
    )


FILES = ("verify", "--source", "none.properties", "--target", "none.properties")


def test_without_connector_the_alias_is_needed_that_names_remote_topics() -> None:
    done = CliRunner().invoke(application, [*FILES])
    assert (done.exit_code, "give --source-alias" in done.output) == (2, True)


def test_where_topics_keep_their_names_no_alias_is_needed() -> None:
    assert "Could not read" in CliRunner().invoke(application, [*FILES, "--policy", "identity"]).stderr


def test_a_password_is_taken_from_the_environment_or_a_terminal_only() -> None:
    done = CliRunner().invoke(application, ["verify", "m", "--user", "me"])
    assert done.exit_code == 2
    assert "set MIRROR_CONNECT_PASSWORD" in done.stderr


@pytest.mark.parametrize("strict", [False, True])
def test_whether_repeats_are_faults_is_handed_on(strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[bool] = []

    async def compare(_link: Link, options: Options, _watcher: object) -> Report:
        heard.append(options.strict)
        return report(Findings(equal=100))

    async def follow(_link: Link, _positions: object, options: FollowOptions, **_: object) -> int:
        heard.append(options.strict)
        return EQUAL

    async def of_connector(*_: object) -> Link:
        nobody = {"bootstrap.servers": "127.0.0.1:1"}
        return described_link(source=nobody, target=nobody, settings={"source.cluster.alias": "A"})

    for name, fake in (("compare", compare), ("follow", follow), ("_of_connector", of_connector)):
        monkeypatch.setattr(verify_command, name, fake)
    for more in ((), ("--follow",)):
        done = CliRunner().invoke(application, ["verify", "m", *more, *(["--strict"] if strict else [])])
        assert done.exit_code == EQUAL, done.output
    assert heard == [strict, strict]


def test_an_equal_copy_is_a_success() -> None:
    assert report(Findings(equal=100)).outcome == EQUAL


def test_repeated_records_are_faults_for_the_strict_only() -> None:
    assert report(Findings(equal=100, repeated=3)).outcome == EQUAL
    assert report(Findings(equal=100, repeated=3), strict=True).outcome == DIFFERENT


def test_repeats_that_are_faults_are_told_as_such() -> None:
    last = printed(report(Findings(equal=100, repeated=3), strict=True)).splitlines()[-1]
    assert last.startswith(
        "The copy differs from its source by repeats alone, which --strict counts as faults: 3 records are there again, so "
        "more than once (a restart repeats some)."
    )
    found = Findings(equal=100, repeated=3)
    found.add(Fault(Kind.MISSING, (1, 1), None))
    assert "The copy differs from its source." in printed(report(found, strict=True))


def test_a_partition_that_was_not_compared_is_no_success() -> None:
    assert report(Findings(error="gone")).outcome == NOT_COMPARED
    assert Report("m").outcome == NOT_COMPARED


def test_a_link_that_lags_is_equal_as_far_as_it_has_come() -> None:
    lagging = report(Findings(equal=60, behind=40))
    assert lagging.outcome == EQUAL
    head, row, *_, last = printed(lagging).splitlines()
    assert head.split("  ")[-1].strip() == "not copied yet"
    assert row.split()[-2:] == ["60", "40"]
    assert last.startswith(
        "The copy is equal to its source as far as it has come: 40 offsets are not copied yet, or no record."
    )


def test_a_link_that_has_copied_nothing_is_no_success() -> None:
    idle = report(Findings(behind=40))
    assert idle.outcome == NOT_COMPARED
    assert printed(idle).splitlines()[-1].startswith("Nothing is copied yet that could be compared.")


@pytest.mark.parametrize(
    ("found", "told"),
    [
        pytest.param(
            Findings(equal=12, gone_from_source=101),
            "The copy is equal to its source as far as both still have it: "
            "101 records of the target are gone from the source.",
            id="source_retention",
        ),
        pytest.param(
            Findings(equal=12, gone_from_target=1),
            "The copy is equal to its source as far as both still have it: "
            "1 record of the source is gone from the target.",
            id="target_retention",
        ),
        pytest.param(
            Findings(equal=12, gone_from_source=2, gone_from_target=3, behind=4, repeated=1),
            "The copy is equal to its source as far as it has come and both still have it: "
            "4 offsets are not copied yet, or no record; 2 records of the target are gone from the source; "
            "3 records of the source are gone from the target; "
            "1 record is there again, so more than once (a restart repeats some).",
            id="everything",
        ),
        pytest.param(
            Findings(gone_from_source=101),
            "Nothing that could be compared is on both sides: 101 records of the target are gone from the source.",
            id="nothing_left_to_compare",
        ),
        pytest.param(
            Findings(equal=50, repeated=50),
            "The copy is equal to its source: 50 records are there again, so more than once (so many: another connector "
            "or worker copies the same topic there, or the link began it anew).",
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


def test_two_empty_topics_are_equal() -> None:
    assert report(Findings()).outcome == EQUAL


def test_a_difference_counts_more_than_what_was_not_compared() -> None:
    found = Findings(error="gone")
    found.add(Fault(Kind.MISSING, (1, 1), None))
    assert report(found).outcome == DIFFERENT


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


def test_the_json_has_the_outcome_and_every_place() -> None:
    found = Findings(equal=99)
    found.add(Fault(Kind.CHANGED, (9, 9), (7, 7), detail="key null instead of 3 bytes"))
    shown = json.loads(json.dumps(report(found).as_json()))
    assert shown["outcome"] == "different"
    assert shown["partitions"][0]["listed"] == [
        {
            "kind": "changed",
            "records": 1,
            "source_offsets": [9, 9],
            "target_offsets": [7, 7],
            "detail": "key null instead of 3 bytes",
        }
    ]


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


def test_a_withdrawn_record_leaves_the_rest_of_its_range() -> None:
    found = Findings()
    found.add(Fault(Kind.MISSING, (5, 9), None, 5))
    found.withdraw(Kind.MISSING, 7, 7)
    assert [(fault.source, fault.count) for fault in found.listed] == [((5, 6), 2), ((8, 9), 2)]
    assert found.counts[Kind.MISSING] == 4


def test_reading_is_held_back_to_the_rate() -> None:
    now = [0.0]
    rate = Rate(100.0, clock=lambda: now[0])
    assert rate.debt(200) == 0
    assert rate.debt(100) == pytest.approx(2.0)
    now[0] = 10.0
    assert rate.debt(100) == 0
    assert Rate(None).debt(10**12) == 0
