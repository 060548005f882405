"""The output of sampling verification, and its exit codes."""

from __future__ import annotations

import io
import json
import random
from datetime import UTC, datetime

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mirror_connect.cli.sampling_output import SamplingLines, print_sampling_report, progress_line
from mirror_connect.cli.verify_command import application
from mirror_connect.verify.findings import Fault, Kind
from mirror_connect.verify.sampled_partition import SampledPartition
from mirror_connect.verify.sampling_report import DIFFERENT, EQUAL, NOT_COMPARED, SamplingReport
from tests.fakes.peeked_logs import MemoryPeek

FAULT = Fault(Kind.CHANGED, (70, 70), (71, 71), detail="key null instead of 3 bytes")


async def _same() -> bool:
    return True


def report(*faults: Fault, copied: int = 10_000, compared: int = 310, counted: int = 9_000) -> SamplingReport:
    peek = MemoryPeek("source", [])
    partition = SampledPartition(peek, peek, 0, rng=random.Random(0), doubt=_same)
    partition.until = copied
    partition.tally.compared, partition.tally.counted = compared, counted
    for fault in faults:
        partition.tally.findings.add(fault)
    made = SamplingReport(
        "m", datetime(2026, 11, 21, 14, 2, tzinfo=UTC), 17, whole=False, own_cpu=0.5, copying_cpu=11.0
    )
    made.partitions["orders", 3] = "A.orders", partition
    return made


def printed(of: SamplingReport) -> list[str]:
    out = io.StringIO()
    print_sampling_report(of, Console(file=out, width=200))
    return out.getvalue().splitlines()


def test_coverage_is_said_as_it_is() -> None:
    assert progress_line(report()) == (
        "3.1 % of the 10,000 records copied since 14:02:00 UTC compared, 90.0 % more counted (sample seed 17), no faults, "
        "0.5 CPU s (copying: at least 11.0)"
    )


@pytest.mark.parametrize(
    ("faults", "compared", "outcome"),
    [((), 1, EQUAL), ((FAULT,), 1, DIFFERENT), ((), 0, NOT_COMPARED), ((FAULT,), 0, DIFFERENT)],
)
def test_the_exit_code_is_what_was_found(faults: tuple[Fault, ...], compared: int, outcome: int) -> None:
    assert report(*faults, compared=compared).outcome == outcome


def test_the_table_ends_with_the_sentence_that_counts() -> None:
    head, row, fault, last = printed(report(FAULT))
    assert head.split() == ["topic", "target", "copied", "compared", "counted", "changed"]
    assert row.split() == ["orders", "A.orders", "10,000", "310", "9,000", "1"]
    assert fault == "orders-3: changed, source offset 70, target offset 71: key null instead of 3 bytes"
    assert last.startswith("The copy differs from its source. 3.1 % of the 10,000 records")


def test_what_came_to_the_target_unaccounted_is_in_the_table_and_in_the_sentence() -> None:
    some = report()
    some.partitions["orders", 3][1].tally.unaccounted = 2
    head, row, last = printed(some)
    assert head.split() == ["topic", "target", "copied", "compared", "counted", "unaccounted"]
    assert row.split() == ["orders", "A.orders", "10,000", "310", "9,000", "2"]
    assert ", 2 surplus on the target, no faults" in last
    assert some.as_json(partitions=True)["partitions"][0]["unaccounted"] == 2


def test_the_json_has_every_partition() -> None:
    shown = json.loads(json.dumps(report(FAULT).as_json(partitions=True)))
    assert (shown["outcome"], shown["since"], shown["sample"]) == (
        "different",
        "2026-11-21T14:02:00.000Z",
        "random, seed 17",
    )
    (partition,) = shown["partitions"]
    assert (partition["topic"], partition["compared"], partition["listed"][0]["source_offsets"]) == (
        "orders",
        310,
        [70, 70],
    )


def test_a_fault_is_shown_at_once_and_progress_every_ten_seconds() -> None:
    out, errors, now = io.StringIO(), io.StringIO(), [0.0]
    with SamplingLines(Console(file=out, width=200), Console(file=errors, width=200), clock=lambda: now[0]) as lines:
        lines.fault(("orders", 3), FAULT)
        for second in range(1, 26):
            now[0] = float(second)
            lines.moved(report())
    assert out.getvalue().startswith("orders-3: changed, source offset 70")
    assert errors.getvalue().count("copied since") == 2


def test_following_needs_a_connector() -> None:
    done = CliRunner().invoke(
        application, ["verify", "--follow", "--source", "a", "--target", "b", "--source-alias", "A"]
    )
    assert (done.exit_code, "--follow asks a worker" in done.output) == (2, True)
