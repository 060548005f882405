"""A report's outcome and its JSON."""

from __future__ import annotations

import json

import pytest

from mirror_connect.verify.findings import Fault, Findings, Kind
from mirror_connect.verify.plan import Job
from mirror_connect.verify.run import DIFFERENT, EQUAL, NOT_COMPARED, Report, Result, without_copy

JOB = Job("orders", 3, "A.orders", 0, 100, 100, 0, 100)


def report(findings: Findings, *, strict: bool = False) -> Report:
    return Report("m", [Result(JOB, findings)], seconds=2.0, strict=strict)


def test_an_equal_copy_is_a_success() -> None:
    assert report(Findings(equal=100)).outcome == EQUAL


def test_repeated_records_are_faults_for_the_strict_only() -> None:
    assert report(Findings(equal=100, repeated=3)).outcome == EQUAL
    assert report(Findings(equal=100, repeated=3), strict=True).outcome == DIFFERENT


def test_a_partition_that_was_not_compared_is_no_success() -> None:
    assert report(Findings(error="gone")).outcome == NOT_COMPARED
    assert Report("m").outcome == NOT_COMPARED


def test_two_empty_topics_are_equal() -> None:
    assert report(Findings()).outcome == EQUAL


def test_a_difference_counts_more_than_what_was_not_compared() -> None:
    found = Findings(error="gone")
    found.add(Fault(Kind.MISSING, (1, 1), None))
    assert report(found).outcome == DIFFERENT


@pytest.mark.parametrize(
    ("until", "end", "outcome"),
    [
        pytest.param(100, 100, DIFFERENT, id="the_link_has_copied_it"),
        pytest.param(0, 100, NOT_COMPARED, id="the_link_has_not_copied_it"),
        pytest.param(0, 0, EQUAL, id="it_has_no_records"),
    ],
)
def test_a_topic_without_a_copy_is_no_success_beside_an_equal_one(until: int, end: int, outcome: int) -> None:
    job = Job("payments", 0, "A.payments", 0, until, end, absent="the target has no topic A.payments")
    found = Findings()
    without_copy(job, found)
    assert Report("m", [Result(JOB, Findings(equal=100)), Result(job, found)]).outcome == outcome


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
