"""What worker and tasks tell each other comes out of JSON as it went in."""

from __future__ import annotations

import json

import pytest

from mirror_connect.connectors.task_protocol import FINISHED, TaskReport

REPORT = TaskReport("one", 1, FINISHED, counters={"records": 3}, topics=("A.t",), incidents=("gone",), settled=False)


def test_a_report_is_the_same_behind_the_wire() -> None:
    assert TaskReport.from_json(json.loads(json.dumps(REPORT.to_json()))) == REPORT


def test_a_report_that_does_not_say_whether_requests_are_under_way_is_none() -> None:
    said = REPORT.to_json()
    del said["settled"]
    with pytest.raises(TypeError, match="settled"):
        TaskReport.from_json(said)
