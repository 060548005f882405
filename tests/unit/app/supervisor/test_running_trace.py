"""What has happened to a task, as its status tells it."""

from __future__ import annotations

from mirror_connect.app.supervisor.running_trace import LONGEST_LINE, MOST_LINES, PastEvents
from mirror_connect.connectors.problems import Problem, ProblemCode


def event(text: str) -> Problem:
    return Problem("orders-0", ProblemCode.OFFSETS_GONE, text)


def test_nothing_has_happened() -> None:
    assert PastEvents().lines == []


def test_each_line_has_its_time() -> None:
    events = PastEvents()
    events.add(event("orders-0: offsets 1 to 2 are gone"), (), 0.0)
    assert events.lines == [
        "Events since the task started:",
        "1970-01-01 00:00:00 UTC orders-0: offsets 1 to 2 are gone",
    ]


def test_a_report_that_came_twice_is_one_line() -> None:
    events = PastEvents()
    for when in (0.0, 1.0):
        events.add(event("x" * 2 * LONGEST_LINE), (), when)
    assert len(events.lines) == 2
    assert len(events.lines[1]) < 1.1 * LONGEST_LINE


def test_the_newest_are_kept_and_the_others_are_counted() -> None:
    events = PastEvents()
    for number in range(MOST_LINES + 3):
        events.add(event(f"line {number}"), (), 0.0)
    first, *others = events.lines
    assert first == "Events since the task started (3 earlier ones are in the log):"
    assert [line.split()[-1] for line in others] == [str(number) for number in range(3, MOST_LINES + 3)]
