"""How long nothing was copied around an event, and what is aimed at."""

from __future__ import annotations

import pytest

from benchmarks.plan import OTHERS
from benchmarks.report import NAMES
from benchmarks.takeover import AIM_S, CLEAN, KILL, RESTART, RESTART_ONCE, findings, longest_pause


def test_the_pause_ends_with_the_record_that_waited_longest() -> None:
    copied = [(0, 9.0, 9.01), (1, 9.9, 9.92), (2, 10.1, 12.2), (3, 11.0, 12.21), (4, 12.3, 12.31)]
    found = longest_pause(copied, at=10.0, sent=5)
    assert (found.after, found.pause) == (pytest.approx(2.2), pytest.approx(2.1))
    assert (found.lost, found.repeated) == (0, 0)


def test_what_was_late_before_the_event_and_a_slow_sender_do_not_count() -> None:
    found = longest_pause([(0, 1.0, 9.0), (1, 10.1, 10.2), (2, 20.0, 20.05)], at=10.0, sent=3)
    assert found.pause == pytest.approx(0.1)


def test_lost_and_repeated_records_are_counted() -> None:
    found = longest_pause([(0, 9.0, 9.1), (1, 10.0, 11.0), (2, 11.0, 11.1), (1, 10.0, 15.0)], at=10.0, sent=5)
    assert (found.lost, found.repeated, found.pause) == (2, 1, pytest.approx(1.0))


def test_nothing_after_the_event_is_no_figure() -> None:
    with pytest.raises(ValueError, match="no record"):
        longest_pause([(0, 1.0, 2.0)], at=10.0, sent=2)


def row(side: str, event: str, worst: float, lost: int = 0) -> dict[str, object]:
    figures = {"after": 1.0, "after_worst": worst, "pause": 1.0, "pause_worst": worst, "repeated": 3}
    return {"side": side, "event": event, "lost": lost, "rounds": [{}], **figures}


@pytest.mark.parametrize("event", [CLEAN, KILL, RESTART, RESTART_ONCE])
def test_the_aim_is_that_of_each_event_and_loses_nothing(event: str) -> None:
    limit = AIM_S[event]
    met = [findings([row("ours", event, *each)])[1][0].met for each in ((limit,), (limit + 0.1,), (limit, 1))]
    assert met == [True, False, False]
    assert findings([row("mm2", event, 300.0)])[1] == []


def test_it_is_a_case_of_the_whole_run() -> None:
    assert "takeover" in OTHERS
    assert "takeover" in NAMES
