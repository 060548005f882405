"""The findings of sampling, summed over partitions, and the outcome that becomes the exit code."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast

import pytest

from mirror_connect.connectors.partitions import TopicPartition
from mirror_connect.verify.findings import Fault, Findings, Kind
from mirror_connect.verify.sampled_partition import SampledPartition, Tally
from mirror_connect.verify.sampling_report import DIFFERENT, EQUAL, NOT_COMPARED, SamplingReport


@dataclass
class Partition:
    tally: Tally = field(default_factory=Tally)
    copied: int = 0
    thin: bool = False


def tally(*, compared: int = 0, missing: int = 0, repeated: int = 0, error: str | None = None) -> Tally:
    findings = Findings(equal=compared, repeated=repeated, error=error)
    if missing:
        findings.add(Fault(Kind.MISSING, (0, missing - 1), None, missing))
    return Tally(compared=compared, counted=1, findings=findings)


def report(*tallies: Tally, strict: bool = False, whole: bool = False) -> SamplingReport:
    made = SamplingReport("link", datetime(2026, 11, 22, 8, 0, 0, 5000, UTC), 7, whole, strict)
    # The last one first: the report sorts them.
    for number, each in reversed(list(enumerate(tallies))):
        partition = cast("SampledPartition", Partition(each, copied=10))
        made.partitions[TopicPartition("t", number)] = ("A.t", partition)
    return made


@pytest.mark.parametrize(
    ("tallies", "outcome"),
    [
        pytest.param([], NOT_COMPARED, id="no_partition"),
        pytest.param([tally()], NOT_COMPARED, id="nothing_was_compared"),
        pytest.param([tally(compared=5), tally()], EQUAL, id="one_partition_is_compared"),
        pytest.param([tally(compared=5), tally(missing=1)], DIFFERENT, id="a_fault"),
        pytest.param([tally(compared=5), tally(error="damaged")], NOT_COMPARED, id="a_partition_that_cannot_be_read"),
        pytest.param([tally(missing=1), tally(error="damaged")], DIFFERENT, id="a_fault_counts_more"),
        pytest.param([tally(compared=5, repeated=2)], EQUAL, id="repeated_records"),
    ],
)
def test_nothing_is_called_equal_that_was_not_compared(tallies: list[Tally], outcome: int) -> None:
    assert report(*tallies).outcome == outcome


def test_repeated_records_are_faults_for_the_strict() -> None:
    found = report(tally(compared=5, repeated=2), strict=True)
    assert (found.faults, found.outcome) == (2, DIFFERENT)


def test_partitions_are_summed() -> None:
    found = report(tally(compared=5), tally(compared=7))
    assert (found.total("compared"), found.total("counted"), found.copied) == (12, 2, 20)


def test_the_json_has_the_sums_and_names_the_sample() -> None:
    shown = report(tally(compared=5, missing=2)).as_json(partitions=False)
    assert (shown["outcome"], shown["faults"], shown["compared"]) == ("different", 2, 5)
    assert (shown["since"], shown["sample"]) == ("2026-11-22T08:00:00.005Z", "random, seed 7")
    assert "partitions" not in shown
    kinds = {"missing": 2, "doubled": 0, "reordered": 0, "changed": 0, "foreign": 0, "unreadable": 0}
    assert shown["faults_by_kind"] == kinds
    assert report(whole=True).as_json(partitions=False)["sample"] == "everything"


def test_partitions_are_shown_in_their_order_with_their_findings() -> None:
    shown = report(tally(compared=5), tally(missing=1)).as_json(partitions=True)["partitions"]
    assert [(each["partition"], each["equal"], each["faults"]["missing"]) for each in shown] == [(0, 5, 0), (1, 0, 1)]
    assert (shown[0]["target_topic"], shown[0]["counts_by_offsets"]) == ("A.t", True)
