"""Troubles are told once each until they are over, and thousands of one kind are not told one by one."""

from __future__ import annotations

import asyncio

import pytest

from mirror_connect.connectors import told_once
from mirror_connect.connectors.told_once import MOST_TOLD, ToldOnce, ToldTogether


def test_a_trouble_is_told_once() -> None:
    lines: list[str] = []
    told = ToldOnce(lines.append)
    for _ in range(2):
        told.tell("t-0", 6, "t-0 is away")
    assert lines == ["t-0 is away"]


def test_another_kind_of_it_is_told_too() -> None:
    lines: list[str] = []
    told = ToldOnce(lines.append)
    told.tell("t-0", 6, "away")
    told.tell("t-0", 3, "gone")
    assert lines == ["away", "gone"]


def test_what_is_over_is_told_again_when_it_comes_back() -> None:
    lines: list[str] = []
    told = ToldOnce(lines.append)
    for _ in range(2):
        told.tell("t-0", 6, "away")
        told.over("t-0")
    assert lines == ["away", "away"]


def test_what_is_over_in_one_respect_is_not_told_again_in_another() -> None:
    lines: list[str] = []
    told = ToldOnce(lines.append)
    told.tell("t-0", 6, "away")
    told.tell("t-0", 3, "gone")
    told.over("t-0", 3)
    told.tell("t-0", 6, "away")
    assert lines == ["away", "gone"]


def test_of_thousands_some_are_named_and_the_last_line_says_that_there_are_more() -> None:
    lines: list[str] = []
    told = ToldOnce(lines.append)
    for number in range(6000):
        told.tell(f"t-{number}", 6, f"t-{number} is away")
    assert lines == [
        *(f"t-{number} is away" for number in range(MOST_TOLD)),
        f"t-{MOST_TOLD} is away. There are more of these: no further line before some of them are over",
    ]


def test_after_many_were_over_a_new_one_is_told() -> None:
    lines: list[str] = []
    told = ToldOnce(lines.append)
    for number in range(6000):
        told.tell(f"t-{number}", 6, "away")
    for number in range(6000):
        told.over(f"t-{number}")
    told.tell("t-1", 6, "away again")
    assert lines[-1] == "away again"


async def moments(lines: list[str], count: int) -> None:
    """Until so many lines have come."""
    async with asyncio.timeout(60):
        while len(lines) < count:
            await asyncio.sleep(0.005)


async def test_what_happens_to_many_at_a_time_is_told_of_some_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_once, "MOMENT_S", 0.02)
    lines: list[str] = []
    together = ToldTogether(lines.append)
    for number in range(MOST_TOLD + 40):
        together.tell(f"t-{number} is new", "partitions are new")
    await moments(lines, MOST_TOLD + 1)
    assert lines == [*(f"t-{number} is new" for number in range(MOST_TOLD)), "40 more partitions are new"]


async def test_what_was_skipped_in_those_that_are_counted_is_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_once, "MOMENT_S", 0.02)
    lines: list[str] = []
    together = ToldTogether(lines.append)
    for number in range(MOST_TOLD + 3):
        together.tell(f"t-{number}: 5 offsets skipped", "partitions had gaps", 5)
    await moments(lines, MOST_TOLD + 1)
    assert lines[-1] == "3 more partitions had gaps: 15 offsets of them skipped"


async def test_what_happens_to_others_at_another_moment_is_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(told_once, "MOMENT_S", 0.02)
    lines: list[str] = []
    together = ToldTogether(lines.append)
    for moment in range(2):
        for number in range(MOST_TOLD + 1):
            together.tell(f"t-{number}", "more")
        together.tell("another", "others")
        await moments(lines, (moment + 1) * (MOST_TOLD + 2))
    assert lines[MOST_TOLD : MOST_TOLD + 3] == ["another", "1 more more", "t-0"]
