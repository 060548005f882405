"""What has happened to a task, as its status tells it."""

from __future__ import annotations

from mirror_connect.app.supervisor.incidents import LONGEST_LINE, MOST_LINES, Incidents


def test_nothing_has_happened() -> None:
    assert Incidents().lines == []


def test_each_line_has_its_time() -> None:
    incidents = Incidents()
    incidents.add("orders-0: offsets 1 to 2 are gone", 0.0)
    assert incidents.lines == [
        "Has happened, until the task is restarted:",
        "1970-01-01 00:00:00 UTC orders-0: offsets 1 to 2 are gone",
    ]


def test_a_report_that_came_twice_is_one_line() -> None:
    incidents = Incidents()
    for when in (0.0, 1.0):
        incidents.add("x" * 2 * LONGEST_LINE, when)
    assert len(incidents.lines) == 2
    assert len(incidents.lines[1]) < 1.1 * LONGEST_LINE


def test_the_newest_are_kept_and_the_others_are_counted() -> None:
    incidents = Incidents()
    for number in range(MOST_LINES + 3):
        incidents.add(f"line {number}", 0.0)
    first, *others = incidents.lines
    assert first == "Has happened, until the task is restarted; 3 earlier ones are in the log:"
    assert [line.split()[-1] for line in others] == [str(number) for number in range(3, MOST_LINES + 3)]
