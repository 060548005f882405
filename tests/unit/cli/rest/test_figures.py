"""Figures for people: what is unknown is never 0, and nothing of elsewhere reaches the terminal as a command."""

from __future__ import annotations

import pytest

from mirror_connect.cli.rest.figures import (
    ago,
    bytes_rate,
    count,
    duration,
    member,
    milliseconds,
    moment,
    plain,
    records_rate,
    state,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "unknown"),
        (0, "0 s"),
        (0.04, "0.0 s"),
        (0.44, "0.4 s"),
        (9.94, "9.9 s"),
        (12, "12 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (200, "3 min 20 s"),
        (3599.6, "1 h"),
        (7500, "2 h 5 min"),
        (86_399, "23 h 59 min"),
        (86_400, "1 d"),
        (273_600, "3 d 4 h"),
    ],
)
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (count(None), "unknown"),
        (count(0), "0"),
        (count(1234567), "1,234,567"),
        (milliseconds(None), "unknown"),
        (milliseconds(0.4), "0.4 ms"),
        (milliseconds(9.0), "9 ms"),
        (milliseconds(1234), "1,234 ms"),
        (milliseconds(12_000), "12 s"),
        (records_rate(None), "unknown"),
        (records_rate(0.0), "0/s"),
        (records_rate(0.25), "0.2/s"),
        (records_rate(1234.4), "1,234/s"),
        (bytes_rate(None), "unknown"),
        (bytes_rate(0.0), "0 B/s"),
        (bytes_rate(999.9), "1000 B/s"),
        (bytes_rate(1_500_000), "1.5 MB/s"),
        (bytes_rate(999_960), "1.0 MB/s"),
        (bytes_rate(5e15), "5000.0 TB/s"),
        (ago(None, 5), "unknown"),
        (ago(1_000, 61_000), "1 min ago"),
        (ago(2_000, 1_000), "0 s ago"),
        (moment(None), "unknown"),
        (moment(1_795_000_000_000), "2026-11-18T11:06:40Z"),
    ],
)
def test_other_figures(shown: str, text: str) -> None:
    assert shown == text


def test_what_a_terminal_would_obey_is_written_out() -> None:
    assert plain("a\x1b[2Jb\x07\x9bc\r\n\td\x7f") == "a\\x1b[2Jb\\x07\\x9bc\\x0d\n\td\\x7f"


@pytest.mark.parametrize(("name", "text"), [("FAILED", "FAILED"), (None, "unknown"), ("X\x1b", "X\\x1b")])
def test_states(name: str | None, text: str) -> None:
    assert state(name).plain == text


def test_a_member_that_is_missing_or_null_is_none() -> None:
    assert [member({"lag": None}, "lag", "records"), member({"lag": {"records": 0}}, "lag", "records")] == [None, 0]
