"""Smallest, largest and mean of the last minute, in two samples."""

from __future__ import annotations

from mirror_connect.app.metrics.recent_window import RecentWindow
from mirror_connect.connectors.task_measures import Window


def test_two_samples_count_and_older_ones_do_not() -> None:
    recent = RecentWindow()
    assert recent.recent(0.0) is None
    recent.add(Window(5, 50, 55, 2), 10.0)
    recent.add(Window(1, 9, 10, 2), 20.0)
    assert recent.recent(29.0) == Window(1, 50, 65, 4)
    recent.add(Window(7, 7, 7, 1), 31.0)
    assert recent.recent(59.0) == Window(1, 50, 72, 5)
    assert recent.recent(61.0) == Window(7, 7, 7, 1)
    assert recent.recent(91.0) is None


def test_a_pause_leaves_nothing_of_what_was_before() -> None:
    recent = RecentWindow()
    recent.add(Window(5, 50, 55, 2), 10.0)
    recent.add(Window(1, 1, 1, 1), 100.0)
    assert recent.recent(100.0) == Window(1, 1, 1, 1)
