"""The messages of worker and tasks come out of JSON as they went in."""

from __future__ import annotations

import json

import pytest

from mirror_connect.connectors.problems import Problem, ProblemCode
from mirror_connect.connectors.task_protocol import FINISHED, TaskReport

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
)


def test_a_report_is_the_same_behind_the_wire() -> None:
    assert TaskReport.from_json(json.loads(json.dumps(REPORT.to_json()))) == REPORT


def test_a_report_that_does_not_say_whether_requests_are_under_way_is_none() -> None:
    said = REPORT.to_json()
    del said["settled"]
    with pytest.raises(TypeError, match="settled"):
        TaskReport.from_json(said)
