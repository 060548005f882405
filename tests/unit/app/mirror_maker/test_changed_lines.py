"""Lines about what may last come once, and again when they are news."""

from __future__ import annotations

import logging

import pytest

from mirror_connect.app.mirror_maker.changed_lines import ChangedLines


@pytest.fixture
def lines() -> ChangedLines:
    return ChangedLines(logging.getLogger("source"))


def test_a_line_comes_once_for_each_subject(lines: ChangedLines, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        lines.tell("start", "it can't begin")
        lines.tell("commit", "it can't commit")
    assert caplog.messages == ["it can't begin", "it can't commit"]


def test_another_line_of_the_subject_is_news_and_so_is_the_first_one_after_it(
    lines: ChangedLines, caplog: pytest.LogCaptureFixture
) -> None:
    for line in ("away", "refused", "away"):
        lines.tell("start", line)
    assert caplog.messages == ["away", "refused", "away"]


def test_a_line_is_news_when_it_was_over_in_between(lines: ChangedLines, caplog: pytest.LogCaptureFixture) -> None:
    lines.tell("start", "away")
    lines.over("start")
    lines.over("start")
    lines.tell("start", "away")
    assert caplog.messages == ["away", "away"]
