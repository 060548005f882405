"""The messages of worker and tasks come out of JSON as they went in."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_protocol import (
    FINISHED,
    INTERVAL,
    POLL,
    SourceRange,
    TaskPartition,
    TaskReport,
    TaskSpec,
)
from tests.fakes.source_spec import source_spec

PROBLEM = Problem("t-0", ProblemCode.PARTITION_UNREADABLE, "t-0 can't be read", "NOT_LEADER", "wait", "NOT_LEADER", 1.5)
REPORT = TaskReport(
    "one",
    1,
    FINISHED,
    counters={"records": 3},
    topics=("A.t",),
    log_lines=("line",),
    problems=(PROBLEM,),
    more_problems=3,
    events=(PROBLEM,),
    settled=False,
    source_offsets=(("t", 0, 7), ("t", 1, 8, "AAAAAAAAAAAAAAAAAAAAAQ", 3)),
    offset_keys=("[]",),
    lost=(SourceRange("t", 0, 7, 9),),
    held=(SourceRange("t", 1, 3, 4), SourceRange("u", 0, 5, 5)),
)


def test_a_report_is_the_same_behind_the_wire() -> None:
    assert TaskReport.from_json(json.loads(json.dumps(REPORT.to_json()))) == REPORT


def test_a_spec_is_the_same_behind_the_wire() -> None:
    assigned = [TaskPartition("t", 3, "A.t"), TaskPartition("u", 3, "u", remote_partition=0)]
    spec = source_spec({"bootstrap.servers": "a"}, {"bootstrap.servers": "b"}, assigned)
    spec = replace(spec, suspects=(SourceRange("t", 3, 5, 9),), too_much=(SourceRange("t", 3, 4, 4),))
    assert TaskSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec


def test_a_spec_copies_at_least_once_unless_it_says_otherwise() -> None:
    spec = source_spec({"bootstrap.servers": "a"}, {"bootstrap.servers": "b"}, [])
    assert (spec.exactly_once, spec.transaction_boundary) == (False, POLL)
    asked = replace(spec, exactly_once=True, transaction_boundary=INTERVAL, transaction_interval_ms=1500)
    assert TaskSpec.from_json(json.loads(json.dumps(asked.to_json()))) == asked


def test_a_partition_keeps_its_number_unless_another_is_named() -> None:
    assert TaskPartition("t", 3, "A.t").target == ("A.t", 3)
    assert TaskPartition("t", 3, "A.t", remote_partition=0).target == ("A.t", 0)


def test_a_report_that_does_not_say_whether_requests_are_under_way_is_none() -> None:
    said = REPORT.to_json()
    del said["settled"]
    with pytest.raises(TypeError, match="settled"):
        TaskReport.from_json(said)
