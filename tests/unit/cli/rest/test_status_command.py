"""`mirror-connect status` against the real REST interface of a worker in memory."""

from __future__ import annotations

import json

import pytest
import yaml

from mirror_connect.cli.rest.status_command import cause_of
from mirror_connect.connectors.task_protocol import TaskId
from tests.unit.cli.rest.conftest import Mirror, Served

TRACE = "org.apache.X: no\n\tat a.b\nCaused by: Y: first\n\tat c.d\nCaused by: Z: root\n\tat e.f\n"


@pytest.fixture
def two(served: Served, mirror: Mirror) -> Served:
    """`orders` runs with two tasks, of `payments` the second one has failed."""
    served.worker.supervisor.failing[TaskId("payments", 1)] = TRACE
    for name in ("orders", "payments"):
        served.put(name, tasks__max="2")
    served.run(served.worker.state("orders", "RUNNING", ["RUNNING", "RUNNING"]))
    served.run(served.worker.state("payments", "RUNNING", ["RUNNING", "FAILED"]))
    return served


def test_connectors_are_listed_and_a_failed_task_is_code_1(two: Served, mirror: Mirror) -> None:
    done = mirror("status", "--worker", two.url)
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    assert lines[0].split() == ["connector", "type", "state", "tasks", "running", "worker"]
    assert lines[1].split() == ["orders", "source", "RUNNING", "2", "of", "2", "worker-1:8083"]
    assert lines[2].split() == ["payments", "source", "RUNNING", "1", "of", "2,", "1", "FAILED", "worker-1:8083"]
    assert lines[4:] == ["payments/1: org.apache.X: no", "payments/1: Caused by: Z: root"]


def test_of_one_connector_the_tasks_and_the_whole_trace_are_shown(two: Served, mirror: Mirror) -> None:
    done = mirror("status", "payments", "--worker", two.url)
    assert [row[:3] for row in done.rows[:3]] == [
        ["payments", "RUNNING", "worker-1:8083"],
        ["payments/0", "RUNNING", "worker-1:8083"],
        ["payments/1", "FAILED", "worker-1:8083"],
    ]
    assert (done.code, done.out.endswith("payments/1:\n" + TRACE.expandtabs())) == (1, True), done.out


@pytest.mark.parametrize(("pattern", "names"), [("o*", ["orders"]), ("*s", ["orders", "payments"])])
def test_a_pattern_lists_some(two: Served, mirror: Mirror, pattern: str, names: list[str]) -> None:
    done = mirror("status", pattern, "--worker", two.url, "-o", "json")
    assert (list(json.loads(done.out)), done.code) == (names, int("payments" in names))


def test_json_has_what_rest_answers_and_no_config(two: Served, mirror: Mirror) -> None:
    found = json.loads(mirror("status", "--worker", two.url, "-o", "json").out)
    assert list(found["payments"]) == ["status"]
    assert found["payments"]["status"]["tasks"][1]["trace"] == TRACE
    one = mirror("status", "orders", "--worker", two.url, "-o", "yaml")
    assert (yaml.safe_load(one.out)["connector"]["state"], one.code) == ("RUNNING", 0)


def test_wide_has_the_class(two: Served, mirror: Mirror) -> None:
    assert (
        "org.apache.kafka.connect.mirror.MirrorSourceConnector"
        in mirror("status", "--worker", two.url, "-o", "wide").out
    )


def test_without_connectors_a_line_says_so(served: Served, mirror: Mirror) -> None:
    done = mirror("status", "--worker", served.url)
    assert (done.code, done.out) == (0, f"{served.url} has no connectors.\n")


def test_an_unknown_connector_is_one_line_with_what_the_worker_says(served: Served, mirror: Mirror) -> None:
    done = mirror("status", "nope", "--worker", served.url)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert (
        f"GET {served.url}/connectors/nope/status was answered with 404: No status found for connector nope" in done.err
    )


@pytest.mark.parametrize(
    ("trace", "lines"),
    [
        (TRACE, ["org.apache.X: no", "Caused by: Z: root"]),
        ("The first problem\nThe second\n", ["The first problem", "The second"]),
        ("X: no\n\tat a.b\n", ["X: no"]),
    ],
)
def test_of_a_stack_trace_the_first_line_and_the_last_cause_are_shown(trace: str, lines: list[str]) -> None:
    assert cause_of(trace) == lines
